#include "net/mixer.h"

#include "kernels/conv/conv.h"
#include "kernels/gru/gru.h"
#include "kernels/kernels.h"
#include "kernels/lstm/lstm.h"
#include "kernels/scan/scan.h"
#include "kernels/ssd/ssd.h"

#include <math.h>

/* ---- weights, scratch, state ---- */

void mixer_init(struct mixer *m, struct pool *pool, const struct kernels *k, const struct model_config *g,
                const struct time_weights *w) {
    m->config = g;
    layer_init(&m->in, pool, k, &w->in, NULL);
    layer_init(&m->out, pool, k, &w->out, NULL);
    m->conv_taps = w->conv_taps;
    m->conv_bias = w->conv_bias;
    switch (g->mixer) {
    case MODEL_MAMBA:
        layer_init(&m->select, pool, k, &w->select, NULL);
        layer_init(&m->step, pool, k, &w->step, NULL);
        m->decay = pool_floats(pool, (size_t)g->d_inner * g->d_state);
        if (m->decay)
            scan_pack(m->decay, w->decay, g->d_inner, g->d_state);
        m->pass = w->pass;
        break;
    case MODEL_MAMBA2:
        m->decay = pool_floats(pool, SSD_MAX_HEADS);
        for (unsigned i = 0; m->decay && i < g->d_inner / g->head_dim; i++)
            m->decay[i] = (float)(w->head_decay[i] * M_LOG2E);
        m->pass = w->head_pass;
        break;
    case MODEL_GRU: layer_init(&m->state, pool, k, &w->gru_state, NULL); break;
    case MODEL_LSTM: layer_init(&m->state, pool, k, &w->lstm_state, NULL); break;
    }
}

void mixer_scratch_init(struct mixer_scratch *t, struct pool *pool, const struct model_config *g) {
    size_t rows = g->n_half;
    t->in_row = linear_padded(model_mixer_in(g));
    t->in = pool_floats(pool, rows * t->in_row);
    if (g->mixer != MODEL_LSTM)
        t->u = pool_floats(pool, rows * (g->mixer == MODEL_GRU ? 3 * g->channels : model_convolved(g)));
    if (g->mixer != MODEL_MAMBA)
        return;
    t->select_row = linear_padded(2 * g->d_state + g->step_rank);
    t->select = pool_floats(pool, rows * t->select_row);
    t->step = pool_floats(pool, rows * g->d_inner);
}

void mixer_state_init(struct mixer_state *s, struct pool *pool, const struct model_config *g) {
    size_t rows = g->n_half;
    s->h = pool_floats(pool, rows * g->d_inner * (g->d_conv ? g->d_state : 1));
    if (g->d_conv)
        s->past = pool_floats(pool, (g->d_conv - 1) * rows * model_convolved(g));
    if (g->mixer == MODEL_LSTM)
        s->cell = pool_floats(pool, rows * g->channels);
}

/* ---- one frame ---- */

static void convolve(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t,
                     struct mixer_state *s, unsigned long now) {
    const struct model_config *g = m->config;
    const unsigned n = model_convolved(g), n_past = g->d_conv - 1;
    struct conv conv = {.n_rows = g->n_half, .n_channels = n, .n_taps = g->d_conv, .x = t->in, .x_stride = t->in_row,
                        .taps = m->conv_taps, .bias = m->conv_bias, .y = t->u};
    for (unsigned p = 0; p < n_past; p++)
        conv.past[p] = s->past + (now + p) % n_past * g->n_half * n;
    k->conv(&conv);
}

static void mamba(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t,
                  struct mixer_state *s) {
    const struct model_config *g = m->config;
    const unsigned rows = g->n_half, d = g->d_inner;
    layer_run(&m->select, k, rows, t->u, d, NULL, t->select, t->select_row);
    layer_run(&m->step, k, rows, t->select + 2 * g->d_state, t->select_row, NULL, t->step, d);
    k->scan(&(struct scan){.n_rows = rows, .n_channels = d, .n_states = g->d_state, .u = t->u, .step = t->step,
                           .select = t->select, .select_stride = t->select_row, .z = t->in + d, .z_stride = t->in_row,
                           .decay = m->decay, .pass = m->pass, .h = s->h, .y = t->u});
}

static void mamba2(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t,
                   struct mixer_state *s) {
    const struct model_config *g = m->config;
    const unsigned n = model_convolved(g);
    k->ssd(&(struct ssd){.n_rows = g->n_half, .n_channels = g->d_inner, .head_dim = g->head_dim, .n_states = g->d_state,
                         .epsilon = g->norm_epsilon, .u = t->u, .u_stride = n, .step = t->in + n + g->d_inner,
                         .z = t->in + n, .z_stride = t->in_row, .decay = m->decay, .pass = m->pass, .h = s->h,
                         .y = t->u, .y_stride = n});
}

void mixer_run(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t, struct mixer_state *s,
               unsigned long now, const float *skip, const float *blend, float *x) {
    const struct model_config *g = m->config;
    const unsigned rows = g->n_half, c = g->channels;
    const float *mixed = s->h;
    unsigned stride = c;
    layer_run_of(&m->in, k,
                 (struct linear){.n_rows = rows, .of = LINEAR_OF_NORM, .x = x, .x_stride = c,
                                 .epsilon = g->norm_epsilon},
                 NULL, t->in, t->in_row);
    switch (g->mixer) {
    case MODEL_MAMBA:
    case MODEL_MAMBA2:
        convolve(m, k, t, s, now);
        (g->mixer == MODEL_MAMBA ? mamba : mamba2)(m, k, t, s);
        mixed = t->u;
        stride = model_convolved(g);
        break;
    case MODEL_GRU:
        layer_run(&m->state, k, rows, s->h, c, NULL, t->u, 3 * c);
        k->gru(&(struct gru){.n_rows = rows, .n_channels = c, .a = t->in, .b = t->u, .h = s->h});
        break;
    case MODEL_LSTM:
        layer_run(&m->state, k, rows, s->h, c, t->in, t->in, t->in_row);
        k->lstm(&(struct lstm){.n_rows = rows, .n_channels = c, .gates = t->in, .cell = s->cell, .h = s->h});
        break;
    }
    layer_run_of(&m->out, k, (struct linear){.n_rows = rows, .x = mixed, .x_stride = stride, .skip = skip,
                                             .blend = blend},
                 x, x,
                 c);
}
