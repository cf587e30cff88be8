#include "engine/cuda/net_cuda.h"

#include "kernels/attend/attend_cuda.h"
#include "kernels/conv/conv_cuda.h"
#include "kernels/depthwise/depthwise_cuda.h"
#include "kernels/history/history_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/prime/prime_cuda.h"
#include "kernels/recurrent/recurrent_cuda.h"
#include "kernels/scan/scan_cuda.h"
#include "kernels/ssd/ssd_cuda.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct layer {
    unsigned n_in, n_out;
    bool gate; /* outputs are in pairs, to be multiplied */
    float *weight, *bias, *prelu;
};

struct dense {
    const float *taps[MODEL_MAX_DEPTH];
    struct layer mix[MODEL_MAX_DEPTH];
};

struct time_layer {
    struct layer gate, proj, in, select, state, out; /* depending on the mixer there is no select or no state */
    const float *conv_taps, *conv_bias, *pass, *step, *step_bias, *decay;
};

struct freq_layer {
    struct layer gate, proj, up, down, attention;
    const float *gate_taps;
    struct {
        const float *mixed_taps, *taps;
        struct layer mix;
    } prime[MODEL_MAX_KERNELS];
};

struct block {
    struct time_layer *time;
    struct freq_layer *freq;
    const float *time_skip, *freq_skip;
};

struct up {
    struct layer even, odd, head;
};

struct net_cuda {
    const struct model *model;
    const struct model_config *config;
    cudaStream_t stream;
    struct layer embed, down;
    struct dense encoder, mask, phase;
    struct block *blocks;
    struct up mask_up, phase_up;

    /* Scratch for n_frames: maps between stages, and what a stage needs internally. */
    float *full_a, *full_b;      /* [n_frames][n_positions][channels] */
    float *half_a, *half_b;      /* [n_frames][n_half][channels] */
    float *padded;               /* [n_frames][n_half + 2][channels]; the first and last rows stay zero */
    float *maps[MODEL_MAX_DEPTH]; /* [n_frames][n_positions][channels]; 0 is unused */
    float *product, *mixed;      /* [n_frames][n_half][channels] */
    float *inner;                /* [n_frames][n_half][in_row] */
    float *u;                    /* [n_frames][n_half][convolved channels] */
    float *select;               /* [n_frames][n_half][select_row] */
    float *after;                /* [n_frames][n_half][d_inner]: output of mixers other than Mamba */
    float *gates;                /* [n_frames][n_half][2 * channels] */
    float *factor;               /* [n_frames][channels] */
    float *chunks, *primes;      /* [n_frames][n_half][n_kernels * channels] */
};

/* ---- weights ---- */

/* Packs weights for linear_cuda; a gate's halves become neighbours. prelu may be NULL. */
static void layer_init(struct arena *a, struct layer *l, const struct linear_weights *w, bool gate,
                       const float *prelu) {
    const unsigned n_in = w->n_in, n_out = w->n_out, width = linear_cuda_width(n_out);
    *l = (struct layer){n_in, n_out, gate, arena_take(a, linear_cuda_size(n_in, n_out)), arena_take(a, width),
                        prelu ? arena_take(a, width) : NULL};
    for (unsigned o = 0; a->base && o < n_out; o++) {
        const unsigned to = gate ? 2 * (o % (n_out / 2)) + o / (n_out / 2) : o;
        linear_cuda_put(arena_mirror(a, l->weight), n_in, n_out, to, w->weight + (size_t)o * n_in);
        arena_mirror(a, l->bias)[to] = w->bias ? w->bias[o] : 0;
        if (prelu)
            arena_mirror(a, l->prelu)[to] = prelu[o];
    }
}

/* For kernels other than linear_cuda: weight [n_out][n_in] -> [n_in][linear_cuda_width(n_out)]. */
static void plain_layer(struct arena *a, struct layer *l, const struct linear_weights *w) {
    const unsigned n_in = w->n_in, n_out = w->n_out, width = linear_cuda_width(n_out);
    *l = (struct layer){n_in, n_out, false, arena_take(a, (size_t)n_in * width), arena_take(a, width), NULL};
    for (unsigned o = 0; a->base && o < n_out; o++) {
        for (unsigned i = 0; i < n_in; i++)
            arena_mirror(a, l->weight)[(size_t)i * width + o] = w->weight[(size_t)o * n_in + i];
        arena_mirror(a, l->bias)[o] = w->bias ? w->bias[o] : 0;
    }
}

static void dense_init(struct arena *a, const struct model_config *g, struct dense *d, const struct dense_weights *w) {
    for (unsigned i = 0; i < g->depth; i++) {
        d->taps[i] = arena_copy(a, w[i].taps, 9 * (i + 1) * (size_t)g->channels);
        layer_init(a, &d->mix[i], &w[i].mix, false, w[i].prelu);
    }
}

/* Rows start at multiples of 16 bytes. */
static unsigned in_row(const struct model_config *g) {
    return (model_mixer_in(g) + 3) / 4 * 4;
}

static unsigned select_row(const struct model_config *g) {
    return (2 * g->d_state + g->step_rank + 3) / 4 * 4;
}

/* The scan uses powers of two: stores decay times log2 e. */
static const float *decay_copy(struct arena *a, const float *from, size_t n) {
    float *to = arena_take(a, n);
    for (size_t i = 0; a->base && i < n; i++)
        arena_mirror(a, to)[i] = (float)(from[i] * M_LOG2E);
    return to;
}

static void mamba_init(struct arena *a, const struct model_config *g, struct time_layer *t,
                       const struct time_weights *w) {
    const unsigned d = g->d_inner;
    layer_init(a, &t->select, &w->select, false, NULL);
    float *step = arena_take(a, (size_t)g->step_rank * d);
    for (unsigned o = 0; a->base && o < d; o++)
        for (unsigned r = 0; r < g->step_rank; r++)
            arena_mirror(a, step)[r * d + o] = w->step.weight[o * g->step_rank + r];
    t->step = step;
    t->step_bias = arena_copy(a, w->step.bias, d);
    t->decay = decay_copy(a, w->decay, (size_t)d * g->d_state);
    t->pass = arena_copy(a, w->pass, d);
}

static void mamba2_init(struct arena *a, const struct model_config *g, struct time_layer *t,
                        const struct time_weights *w) {
    const unsigned n = g->d_inner / g->head_dim;
    t->decay = decay_copy(a, w->head_decay, n);
    t->pass = arena_copy(a, w->head_pass, n);
}

/* For linear_chain_cuda, behind a gate. */
static void layer_behind_gate(struct arena *a, struct layer *l, const struct linear_weights *w) {
    const unsigned n_in = w->n_in, n_out = w->n_out;
    layer_init(a, l, w, false, NULL);
    for (unsigned o = 0; a->base && o < n_out; o++) {
        float row[LINEAR_CHAIN_CUDA_CHANNELS];
        for (unsigned i = 0; i < n_in; i++)
            row[linear_chain_cuda_input(i)] = w->weight[(size_t)o * n_in + i];
        linear_cuda_put(arena_mirror(a, l->weight), n_in, n_out, o, row);
    }
}

static void time_layer_init(struct arena *a, const struct model_config *g, struct time_layer *t,
                            const struct time_weights *w) {
    layer_init(a, &t->gate, &w->gate, true, NULL);
    if (linear_chain_cuda_fits(g->channels, w->in.n_out))
        layer_behind_gate(a, &t->proj, &w->proj);
    else
        layer_init(a, &t->proj, &w->proj, false, NULL);
    layer_init(a, &t->in, &w->in, false, NULL);
    t->conv_taps = w->conv_taps ? arena_copy(a, w->conv_taps, (size_t)g->d_conv * model_convolved(g)) : NULL;
    t->conv_bias = w->conv_bias ? arena_copy(a, w->conv_bias, model_convolved(g)) : NULL;
    switch (g->mixer) {
    case MODEL_MAMBA: mamba_init(a, g, t, w); break;
    case MODEL_MAMBA2: mamba2_init(a, g, t, w); break;
    case MODEL_GRU: plain_layer(a, &t->state, &w->gru_state); break;
    case MODEL_LSTM: plain_layer(a, &t->state, &w->lstm_state); break;
    }
    layer_init(a, &t->out, &w->out, false, NULL);
}

static void freq_layer_init(struct arena *a, const struct model_config *g, struct freq_layer *f,
                            const struct freq_weights *w) {
    const unsigned c = g->channels;
    layer_init(a, &f->gate, &w->gate, false, NULL);
    f->gate_taps = arena_copy(a, w->gate_taps, 3 * 2 * (size_t)c);
    plain_layer(a, &f->attention, &w->attention);
    layer_init(a, &f->proj, &w->proj, false, NULL);
    layer_init(a, &f->up, &w->up, false, NULL);
    for (unsigned p = 0; p < g->n_kernels; p++) {
        f->prime[p].mixed_taps = arena_copy(a, w->prime[p].mixed_taps, (size_t)g->kernels[p] * c);
        f->prime[p].taps = arena_copy(a, w->prime[p].taps, (size_t)g->kernels[p] * c);
        layer_init(a, &f->prime[p].mix, &w->prime[p].mix, false, NULL);
    }
    layer_init(a, &f->down, &w->down, false, NULL);
}

static void up_init(struct arena *a, struct up *u, const struct up_weights *w) {
    layer_init(a, &u->even, &w->even, false, w->prelu);
    layer_init(a, &u->odd, &w->odd, false, w->prelu);
    layer_init(a, &u->head, &w->head, false, NULL);
}

void net_cuda_weights(struct net_cuda *n, struct arena *a) {
    const struct weights *w = model_weights(n->model);
    const struct model_config *g = n->config;
    layer_init(a, &n->embed, &w->embed, false, w->embed_prelu);
    dense_init(a, g, &n->encoder, w->encoder);
    layer_init(a, &n->down, &w->down, false, w->down_prelu);
    for (unsigned b = 0; b < g->n_blocks; b++) {
        for (unsigned i = 0; i < g->n_time; i++)
            time_layer_init(a, g, &n->blocks[b].time[i], &w->blocks[b].time[i]);
        for (unsigned i = 0; i < g->n_freq; i++)
            freq_layer_init(a, g, &n->blocks[b].freq[i], &w->blocks[b].freq[i]);
        n->blocks[b].time_skip = arena_copy(a, w->blocks[b].time_skip, g->channels);
        n->blocks[b].freq_skip = arena_copy(a, w->blocks[b].freq_skip, g->channels);
    }
    dense_init(a, g, &n->mask, w->mask);
    up_init(a, &n->mask_up, &w->mask_up);
    dense_init(a, g, &n->phase, w->phase);
    up_init(a, &n->phase_up, &w->phase_up);
}

/* ---- memory ---- */

/* Dense blocks, time stages and frequency stages share the rest of the scratch, one after another. */
void net_cuda_scratch(struct net_cuda *n, struct arena *a, unsigned n_frames) {
    const struct model_config *g = n->config;
    const size_t c = g->channels, full = (size_t)n_frames * g->n_positions, half = (size_t)n_frames * g->n_half;
    n->full_a = arena_take(a, full * c);
    n->full_b = arena_take(a, full * c);
    n->half_a = arena_take(a, half * c);
    n->half_b = arena_take(a, half * c);
    n->padded = arena_take(a, (half + 2 * n_frames) * c);

    struct arena dense = *a, time = *a, freq = *a;
    for (unsigned i = 1; i < g->depth; i++)
        n->maps[i] = arena_take(&dense, full * c);

    n->product = arena_take(&time, half * c);
    n->inner = arena_take(&time, half * in_row(g));
    if (g->mixer == MODEL_MAMBA || g->mixer == MODEL_MAMBA2)
        n->u = arena_take(&time, half * model_convolved(g));
    if (g->mixer == MODEL_MAMBA)
        n->select = arena_take(&time, half * select_row(g));
    else
        n->after = arena_take(&time, half * g->d_inner);

    arena_take(&freq, half * c); /* product, as above */
    n->gates = arena_take(&freq, half * 2 * c);
    n->mixed = arena_take(&freq, half * c);
    n->factor = arena_take(&freq, n_frames * c);
    n->chunks = arena_take(&freq, half * g->n_kernels * c);
    n->primes = arena_take(&freq, half * g->n_kernels * c);

    a->used = dense.used;
    if (a->used < time.used)
        a->used = time.used;
    if (a->used < freq.used)
        a->used = freq.used;
}

int net_cuda_new(struct net_cuda **ret, const struct model *model, cudaStream_t stream) {
    struct net_cuda *n = calloc(1, sizeof *n);
    if (!n)
        return -ENOMEM;
    const struct model_config *g = n->config = model_config(model);
    n->model = model;
    n->stream = stream;
    n->blocks = calloc(g->n_blocks, sizeof *n->blocks);
    bool ok = n->blocks;
    for (unsigned b = 0; b < g->n_blocks && ok; b++) {
        n->blocks[b].time = calloc(g->n_time, sizeof *n->blocks[b].time);
        n->blocks[b].freq = calloc(g->n_freq, sizeof *n->blocks[b].freq);
        ok = n->blocks[b].time && n->blocks[b].freq;
    }
    if (!ok) {
        net_cuda_free(n);
        return -ENOMEM;
    }
    *ret = n;
    return 0;
}

void net_cuda_free(struct net_cuda *n) {
    if (!n)
        return;
    for (unsigned b = 0; n->blocks && b < n->config->n_blocks; b++) {
        free(n->blocks[b].time);
        free(n->blocks[b].freq);
    }
    free(n->blocks);
    free(n);
}

int net_cuda_state_new(struct net_cuda_state *s, const struct model *model) {
    const struct model_config *g = model_config(model);
    *s = (struct net_cuda_state){0};
    s->mixers = calloc(g->n_blocks * g->n_time, sizeof *s->mixers);
    return s->mixers ? 0 : -ENOMEM;
}

void net_cuda_state_layout(struct net_cuda_state *s, const struct model *model, struct arena *a) {
    const struct model_config *g = model_config(model);
    const size_t n_past = 1u << g->depth, c = g->channels;
    for (unsigned i = 0; i < g->depth; i++) {
        s->encoder[i] = arena_take(a, n_past * g->n_positions * c);
        s->mask[i] = arena_take(a, n_past * g->n_half * c);
        s->phase[i] = arena_take(a, n_past * g->n_half * c);
    }
    for (unsigned i = 0; i < g->n_blocks * g->n_time; i++) {
        const bool convolves = g->d_conv > 0;
        const size_t rows = g->n_half;
        if (convolves)
            s->mixers[i].past = arena_take(a, (g->d_conv - 1) * rows * model_convolved(g));
        s->mixers[i].h = arena_take(a, rows * g->d_inner * (convolves ? g->d_state : 1));
        if (g->mixer == MODEL_LSTM)
            s->mixers[i].cell = arena_take(a, rows * g->channels);
    }
}

void net_cuda_state_done(struct net_cuda_state *s) {
    free(s->mixers);
    *s = (struct net_cuda_state){0};
}

/* ---- frames ---- */

/* Applies a layer to whole maps: x and y [n_frames * n_rows] rows, frames one after another. */
static struct linear_cuda linear(const struct layer *l, unsigned n_frames, unsigned n_rows, const float *x,
                                 size_t x_stride, float *y, size_t y_stride) {
    return (struct linear_cuda){.n_frames = n_frames,
                                .n_rows = n_rows,
                                .n_in = l->n_in,
                                .n_out = l->n_out,
                                .x = x,
                                .x_frame = n_rows * x_stride,
                                .x_stride = x_stride,
                                .weight = l->weight,
                                .bias = l->bias,
                                .prelu = l->prelu,
                                .gate = l->gate,
                                .add_frame = n_rows * y_stride,
                                .add_stride = y_stride,
                                .y = y,
                                .y_frame = n_rows * y_stride,
                                .y_stride = y_stride};
}

/* The last layer's output goes to y, whose frames are y_frame apart; it is not kept. */
static void dense(const struct net_cuda *n, const struct dense *d, float *const past[], unsigned n_frames,
                  unsigned n_rows, const float *x, float *y, size_t y_frame) {
    const struct model_config *g = n->config;
    const unsigned c = g->channels, n_past = 1u << g->depth;
    struct dense_cuda a = {.n_frames = n_frames, .n_rows = n_rows, .n_channels = c, .n_past = n_past};
    for (unsigned i = 0; i < g->depth; i++) {
        const bool last = i + 1 == g->depth;
        a.layer = i;
        a.map[i] = i ? n->maps[i] : x;
        a.past[i] = past[i];
        a.taps = d->taps[i];
        a.weight = d->mix[i].weight;
        a.bias = d->mix[i].bias;
        a.prelu = d->mix[i].prelu;
        a.y = last ? y : n->maps[i + 1];
        a.y_frame = last ? y_frame : n_rows * (size_t)c;
        dense_cuda(&a, n->stream);
    }
    for (unsigned i = 0; i < g->depth; i++)
        history_cuda(&(struct history_cuda){.n_frames = n_frames, .n_rows = n_rows, .n_channels = c, .n_past = n_past,
                                            .x = a.map[i], .x_stride = c, .past = past[i]}, n->stream);
}

void net_cuda_embed(struct net_cuda *n, unsigned n_frames, const float *features, float *y) {
    struct linear_cuda a = linear(&n->embed, n_frames, n->config->n_positions, features, 3, y, n->config->channels);
    linear_cuda(&a, n->stream);
}

void net_cuda_encode(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *y) {
    const struct model_config *g = n->config;
    dense(n, &n->encoder, s->encoder, n_frames, g->n_positions, x, y, (size_t)g->n_positions * g->channels);
}

void net_cuda_down(struct net_cuda *n, unsigned n_frames, const float *x, float *y) {
    const struct model_config *g = n->config;
    struct linear_cuda a = linear(&n->down, n_frames, g->n_half, x, 2 * (size_t)g->channels, y, g->channels);
    a.x_frame = (size_t)g->n_positions * g->channels;
    linear_cuda(&a, n->stream);
}

/* Runs the mixer on n->inner and returns its output, rows of d_inner. */
static const float *mix(const struct net_cuda *n, const struct time_layer *t, struct mixer_cuda_state *s,
                        unsigned n_frames) {
    const struct model_config *g = n->config;
    const unsigned rows = g->n_half, d = g->d_inner, seen = model_convolved(g), row = in_row(g);
    struct recurrent_cuda recurrent = {.n_frames = n_frames, .n_rows = rows, .n_channels = d, .in = n->inner,
                                       .weight = t->state.weight, .weight_stride = linear_cuda_width(t->state.n_out),
                                       .bias = t->state.bias, .h = s->h, .cell = s->cell, .y = n->after};
    if (g->mixer == MODEL_GRU)
        gru_cuda(&recurrent, n->stream);
    if (g->mixer == MODEL_LSTM)
        lstm_cuda(&recurrent, n->stream);
    if (!g->d_conv)
        return n->after;

    conv_cuda(&(struct conv_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = seen, .n_taps = g->d_conv,
                                  .x = n->inner, .x_stride = row, .past = s->past, .taps = t->conv_taps,
                                  .bias = t->conv_bias, .y = n->u, .weight = t->select.weight,
                                  .z_bias = t->select.bias, .n_out = t->select.n_out, .z = n->select,
                                  .z_stride = select_row(g)},
              n->stream);
    history_cuda(&(struct history_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = seen,
                                        .n_past = g->d_conv - 1, .x = n->inner, .x_stride = row, .past = s->past},
                 n->stream);
    if (g->mixer == MODEL_MAMBA2) {
        ssd_cuda(&(struct ssd_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = d, .head_dim = g->head_dim,
                                    .n_states = g->d_state, .epsilon = g->norm_epsilon, .u = n->u, .u_stride = seen,
                                    .step = n->inner + seen + d, .z = n->inner + seen, .z_stride = row,
                                    .decay = t->decay,
                                    .pass = t->pass, .h = s->h, .y = n->after}, n->stream);
        return n->after;
    }
    scan_cuda(&(struct scan_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = d, .n_states = g->d_state,
                                  .rank = g->step_rank, .u = n->u, .select = n->select, .select_stride = select_row(g),
                                  .step = t->step, .bias = t->step_bias, .z = n->inner + d, .z_stride = row,
                                  .decay = t->decay, .pass = t->pass, .h = s->h, .y = n->u}, n->stream);
    return n->u;
}

/* The last layer adds blend times skip, the stage's input; both are NULL in the others. y may be x. */
static void time_layer(const struct net_cuda *n, const struct time_layer *t, struct mixer_cuda_state *s,
                       unsigned n_frames, const float *x, float *y, const float *skip, const float *blend) {
    const struct model_config *g = n->config;
    const unsigned rows = g->n_half, c = g->channels;

    struct linear_cuda a;
    if (linear_chain_cuda_fits(c, t->in.n_out)) {
        linear_chain_cuda(&(struct linear_chain_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = c,
                                                      .norm_epsilon = g->norm_epsilon, .x = x,
                                                      .gate = t->gate.weight, .gate_bias = t->gate.bias,
                                                      .proj = t->proj.weight, .proj_bias = t->proj.bias,
                                                      .out = t->in.weight, .out_bias = t->in.bias, .y = y,
                                                      .z = n->inner}, n->stream);
    } else {
        a = linear(&t->gate, n_frames, rows, x, c, n->product, c);
        a.norm_epsilon = g->norm_epsilon;
        linear_cuda(&a, n->stream);
        a = linear(&t->proj, n_frames, rows, n->product, c, y, c);
        a.add = x;
        linear_cuda(&a, n->stream);
        a = linear(&t->in, n_frames, rows, y, c, n->inner, in_row(g));
        a.norm_epsilon = g->norm_epsilon;
        linear_cuda(&a, n->stream);
    }
    a = linear(&t->out, n_frames, rows, mix(n, t, s, n_frames), g->d_inner, y, c);
    a.add = y;
    a.skip = skip;
    a.blend = blend;
    linear_cuda(&a, n->stream);
}

void net_cuda_time_stage(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, unsigned block,
                         const float *x, float *y) {
    const unsigned n_time = n->config->n_time;
    const struct block *b = &n->blocks[block];
    for (unsigned i = 0; i < n_time; i++)
        time_layer(n, &b->time[i], &s->mixers[block * n_time + i], n_frames, i ? y : x, y,
                   i + 1 == n_time ? x : NULL, b->time_skip);
}

/* Applies the prime kernels to n->chunks, giving n->primes. */
static void primes(const struct net_cuda *n, const struct freq_layer *f, unsigned n_frames) {
    const struct model_config *g = n->config;
    const unsigned rows = g->n_half, c = g->channels, width = g->n_kernels * c;
    if (prime_cuda_fits(rows, c, g->kernels[g->n_kernels - 1])) {
        struct prime_cuda a = {.n_frames = n_frames, .n_rows = rows, .n_channels = c, .n_kernels = g->n_kernels,
                               .x = n->chunks, .y = n->primes};
        for (unsigned p = 0; p < g->n_kernels; p++) {
            a.kernel[p].n_taps = g->kernels[p];
            a.kernel[p].mixed_taps = f->prime[p].mixed_taps;
            a.kernel[p].taps = f->prime[p].taps;
            a.kernel[p].weight = f->prime[p].mix.weight;
            a.kernel[p].bias = f->prime[p].mix.bias;
        }
        prime_cuda(&a, n->stream);
        return;
    }
    for (unsigned p = 0; p < g->n_kernels; p++) {
        struct over_frequency_cuda taps = {.n_frames = n_frames, .n_rows = rows, .n_channels = c,
                                           .n_taps = g->kernels[p], .x = n->chunks + p * c,
                                           .x_stride = width, .taps = f->prime[p].mixed_taps,
                                           .y = n->product, .y_stride = c};
        over_frequency_cuda(&taps, n->stream);
        struct linear_cuda mix = linear(&f->prime[p].mix, n_frames, rows, n->product, c, n->mixed, c);
        linear_cuda(&mix, n->stream);
        taps.taps = f->prime[p].taps;
        taps.times = n->mixed;
        taps.y = n->primes + p * c;
        taps.y_stride = width;
        over_frequency_cuda(&taps, n->stream);
    }
}

static void freq_layer(const struct net_cuda *n, const struct freq_layer *f, unsigned n_frames, const float *x,
                       float *y, const float *skip, const float *blend) {
    const struct model_config *g = n->config;
    const unsigned rows = g->n_half, c = g->channels, width = g->n_kernels * c;

    struct linear_cuda a = linear(&f->gate, n_frames, rows, x, c, n->gates, 2 * c);
    a.norm_epsilon = g->norm_epsilon;
    linear_cuda(&a, n->stream);
    attend_cuda(&(struct attend_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = c,
                                      .weight_stride = linear_cuda_width(c), .weight = f->attention.weight,
                                      .bias = f->attention.bias, .x = n->gates, .taps = f->gate_taps, .y = n->product,
                                      .factor = n->factor}, n->stream);
    if (linear_chain_cuda_fits(c, width)) {
        linear_chain_cuda(&(struct linear_chain_cuda){.n_frames = n_frames, .n_rows = rows, .n_channels = c,
                                                      .norm_epsilon = g->norm_epsilon, .x = x,
                                                      .product = n->product, .factor = n->factor,
                                                      .proj = f->proj.weight, .proj_bias = f->proj.bias,
                                                      .out = f->up.weight, .out_bias = f->up.bias, .y = y,
                                                      .z = n->chunks}, n->stream);
    } else {
        a = linear(&f->proj, n_frames, rows, n->product, c, y, c);
        a.scale = n->factor;
        a.add = x;
        linear_cuda(&a, n->stream);
        a = linear(&f->up, n_frames, rows, y, c, n->chunks, width);
        a.norm_epsilon = g->norm_epsilon;
        linear_cuda(&a, n->stream);
    }
    primes(n, f, n_frames);
    a = linear(&f->down, n_frames, rows, n->primes, width, y, c);
    a.add = y;
    a.skip = skip;
    a.blend = blend;
    linear_cuda(&a, n->stream);
}

void net_cuda_freq_stage(struct net_cuda *n, unsigned n_frames, unsigned block, const float *x, float *y) {
    const unsigned n_freq = n->config->n_freq;
    const struct block *b = &n->blocks[block];
    for (unsigned i = 0; i < n_freq; i++)
        freq_layer(n, &b->freq[i], n_frames, i ? y : x, y, i + 1 == n_freq ? x : NULL, b->freq_skip);
}

/* Dense block, upsampling to full resolution, head: writes y [n_frames][n_positions][outputs of the head]. */
static void decode(const struct net_cuda *n, const struct dense *d, const struct up *u, float *const past[],
                   unsigned n_frames, const float *x, float *y) {
    const struct model_config *g = n->config;
    const unsigned c = g->channels;
    const size_t frame = (g->n_half + 2) * (size_t)c, full = (size_t)g->n_positions * c;
    dense(n, d, past, n_frames, g->n_half, x, n->padded + c, frame);
    struct linear_cuda a = linear(&u->even, n_frames, g->n_half + 1, n->padded, c, n->full_a, 2 * c);
    a.x_frame = frame;
    a.y_frame = full;
    linear_cuda(&a, n->stream);
    a = linear(&u->odd, n_frames, g->n_half, n->padded + c, c, n->full_a + c, 2 * c);
    a.x_frame = frame;
    a.y_frame = full;
    linear_cuda(&a, n->stream);
    a = linear(&u->head, n_frames, g->n_positions, n->full_a, c, y, u->head.n_out);
    linear_cuda(&a, n->stream);
}

void net_cuda_mask(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *mask) {
    decode(n, &n->mask, &n->mask_up, s->mask, n_frames, x, mask);
}

void net_cuda_phase(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *rotation) {
    decode(n, &n->phase, &n->phase_up, s->phase, n_frames, x, rotation);
}

void net_cuda_run(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *features, float *mask,
                  float *rotation) {
    net_cuda_embed(n, n_frames, features, n->full_a);
    net_cuda_encode(n, s, n_frames, n->full_a, n->full_b);
    net_cuda_down(n, n_frames, n->full_b, n->half_a);
    for (unsigned b = 0; b < n->config->n_blocks; b++) {
        net_cuda_time_stage(n, s, n_frames, b, n->half_a, n->half_b);
        net_cuda_freq_stage(n, n_frames, b, n->half_b, n->half_a);
    }
    net_cuda_mask(n, s, n_frames, n->half_a, mask);
    net_cuda_phase(n, s, n_frames, n->half_a, rotation);
}
