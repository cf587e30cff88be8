#include "mixer.h"

#include "kernels/conv/conv.h"
#include "kernels/kernels.h"
#include "kernels/linear/linear.h"
#include "kernels/scan/scan.h"

#include <stdio.h>

static void named(struct layer *l, struct pool *pool, const struct model *m, unsigned n_in, unsigned n_out,
                  const char *name, const char *part) {
    char layer[64];
    snprintf(layer, sizeof layer, "%s.%s", name, part);
    layer_named(l, pool, m, n_in, n_out, layer);
}

void mixer_init(struct mixer *m, struct pool *pool, const struct model *model, const char *name) {
    const struct model_config *g = m->config = model_config(model);
    unsigned c = g->channels, d = g->d_inner;
    named(&m->in, pool, model, c, 2 * d, name, "in");
    m->conv_taps = model_tensor(model, "%s.conv.taps", name);
    m->conv_bias = model_tensor(model, "%s.conv.bias", name);
    layer_init(&m->select, pool, d, 2 * g->d_state + g->step_rank, model_tensor(model, "%s.select.weight", name), NULL,
               NULL);
    named(&m->step, pool, model, g->step_rank, d, name, "step");
    m->decay = pool_floats(pool, (size_t)d * g->d_state);
    if (m->decay)
        scan_pack(m->decay, model_tensor(model, "%s.decay", name), d, g->d_state);
    m->pass = model_tensor(model, "%s.pass", name);
    named(&m->out, pool, model, d, c, name, "out");
}

void mixer_scratch_init(struct mixer_scratch *t, struct pool *pool, const struct model_config *g) {
    size_t rows = g->n_half;
    t->select_row = linear_padded(2 * g->d_state + g->step_rank);
    t->inner = pool_floats(pool, rows * 2 * g->d_inner);
    t->u = pool_floats(pool, rows * g->d_inner);
    t->step = pool_floats(pool, rows * g->d_inner);
    t->select = pool_floats(pool, rows * t->select_row);
}

void mixer_state_init(struct mixer_state *s, struct pool *pool, const struct model_config *g) {
    s->past = pool_floats(pool, (size_t)(g->d_conv - 1) * g->n_half * g->d_inner);
    s->h = pool_floats(pool, (size_t)g->n_half * g->d_inner * g->d_state);
}

void mixer_run(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t, struct mixer_state *s,
               unsigned long now, const float *x, float *y) {
    const struct model_config *g = m->config;
    const unsigned rows = g->n_half, c = g->channels, d = g->d_inner, n_past = g->d_conv - 1;
    layer_run(&m->in, k, rows, x, c, NULL, t->inner, 2 * d);
    struct conv conv = {.n_rows = rows, .n_channels = d, .n_taps = g->d_conv, .x = t->inner, .x_stride = 2 * d,
                        .taps = m->conv_taps, .bias = m->conv_bias, .y = t->u};
    for (unsigned p = 0; p < n_past; p++)
        conv.past[p] = s->past + (now + p) % n_past * rows * d;
    k->conv(&conv);
    layer_run(&m->select, k, rows, t->u, d, NULL, t->select, t->select_row);
    layer_run(&m->step, k, rows, t->select + 2 * g->d_state, t->select_row, NULL, t->step, d);
    k->scan(&(struct scan){.n_rows = rows, .n_channels = d, .n_states = g->d_state, .u = t->u, .step = t->step,
                           .select = t->select, .select_stride = t->select_row, .z = t->inner + d, .z_stride = 2 * d,
                           .decay = m->decay, .pass = m->pass, .h = s->h, .y = t->u});
    layer_run(&m->out, k, rows, t->u, d, y, y, c);
}
