#include "net/net.h"

#include "kernels/attend/attend.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/kernels.h"
#include "net/layer.h"
#include "net/mixer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DENSE_TAPS = 3 }; /* in time and in frequency */

/* Rows that lie a large power of two bytes apart compete for few cache lines, so wide maps have this many extra floats
 * per row. */
enum { GAP = 16 };

/* DS_DDB: layer i sees the i + 1 maps so far, the latest first. */
struct dense {
    const float *taps[MODEL_MAX_DEPTH]; /* [3][3][(i + 1) channels] */
    struct layer mix[MODEL_MAX_DEPTH];
};

struct time_layer {
    struct layer gate, proj;
    struct mixer mixer;
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
    struct time_layer time[MODEL_MAX_LAYERS];
    struct freq_layer freq[MODEL_MAX_LAYERS];
    const float *time_skip, *freq_skip;
};

/* Transposed convolution, kernel 3, stride 2: even output rows see two input rows, odd ones see one. */
struct up {
    struct layer even, odd, head;
};

struct net {
    const struct model_config *config;
    const struct kernels *k;
    struct pool pool;      /* owns the scratch, and the packed weights unless they are another net's */
    struct layer embed, down;
    struct dense encoder, mask, phase;
    struct block blocks[MODEL_MAX_BLOCKS];
    struct up mask_up, phase_up;
    const float *slope;

    unsigned n_ring; /* frames kept by a dense block: its longest reach plus the current frame */
    unsigned pad;    /* rows of zeros on each side, enough for the longest kernel */
    /* Scratch. The rows of zeros around a map are never written. */
    float *full_a, *full_b;            /* [n_positions][channels] */
    float *half_a, *half_b;            /* [n_half][channels] */
    float *product;                    /* [n_half][channels] */
    float *mixed;                      /* [n_kernels][n_half][channels] */
    float *gates;                      /* [n_half + 2][2 * channels], with a row of zeros on each side */
    float *gated;                      /* [n_half][2 * channels] */
    struct mixer_scratch mixing;
    float *chunks;                     /* [n_half + 2 pad][n_kernels * channels + GAP] */
    float *mean, *factor;              /* [channels] */
    float *padded;                     /* [n_half + 2][channels], with a row of zeros on each side */
    float *head;                       /* [n_positions][16] */
};

/* ---- weights ---- */

static void dense_init(struct net *n, struct dense *d, const struct dense_weights *w) {
    for (unsigned i = 0; i < n->config->depth; i++) {
        d->taps[i] = w[i].taps;
        layer_init(&d->mix[i], &n->pool, n->k, &w[i].mix, w[i].prelu);
    }
}

static void time_layer_init(struct net *n, struct time_layer *t, const struct time_weights *w) {
    layer_init(&t->gate, &n->pool, n->k, &w->gate, NULL);
    layer_init(&t->proj, &n->pool, n->k, &w->proj, NULL);
    mixer_init(&t->mixer, &n->pool, n->k, n->config, w);
}

static void freq_layer_init(struct net *n, struct freq_layer *f, const struct freq_weights *w) {
    layer_init(&f->gate, &n->pool, n->k, &w->gate, NULL);
    f->gate_taps = w->gate_taps;
    layer_init(&f->attention, &n->pool, &kernels_reference, &w->attention, NULL);
    layer_init(&f->proj, &n->pool, n->k, &w->proj, NULL);
    layer_init(&f->up, &n->pool, n->k, &w->up, NULL);
    for (unsigned p = 0; p < n->config->n_kernels; p++) {
        f->prime[p].mixed_taps = w->prime[p].mixed_taps;
        f->prime[p].taps = w->prime[p].taps;
        layer_init(&f->prime[p].mix, &n->pool, n->k, &w->prime[p].mix, NULL);
    }
    layer_init(&f->down, &n->pool, n->k, &w->down, NULL);
}

static void up_init(struct net *n, struct up *u, const struct up_weights *w) {
    layer_init(&u->even, &n->pool, n->k, &w->even, w->prelu);
    layer_init(&u->odd, &n->pool, n->k, &w->odd, w->prelu);
    layer_init(&u->head, &n->pool, n->k, &w->head, NULL);
}

static void weights_init(struct net *n, const struct weights *w) {
    const struct model_config *g = n->config;
    layer_init(&n->embed, &n->pool, n->k, &w->embed, w->embed_prelu);
    dense_init(n, &n->encoder, w->encoder);
    layer_init(&n->down, &n->pool, n->k, &w->down, w->down_prelu);
    for (unsigned b = 0; b < g->n_blocks; b++) {
        const struct block_weights *of = &w->blocks[b];
        for (unsigned i = 0; i < g->n_time; i++)
            time_layer_init(n, &n->blocks[b].time[i], &of->time[i]);
        for (unsigned i = 0; i < g->n_freq; i++)
            freq_layer_init(n, &n->blocks[b].freq[i], &of->freq[i]);
        n->blocks[b].time_skip = of->time_skip;
        n->blocks[b].freq_skip = of->freq_skip;
    }
    dense_init(n, &n->mask, w->mask);
    up_init(n, &n->mask_up, &w->mask_up);
    n->slope = w->mask_slope;
    dense_init(n, &n->phase, w->phase);
    up_init(n, &n->phase_up, &w->phase_up);
}

/* Allocates the scratch, which completes the net; frees it if memory ran out, here or before. */
static int add_scratch(struct net **ret, struct net *n) {
    const struct model_config *g = n->config;
    size_t c = g->channels, full = g->n_positions, half = g->n_half;
    n->n_ring = (1u << g->depth) + 1; /* twice the widest spacing, 2^(depth - 1), plus the current frame */
    n->pad = g->kernels[g->n_kernels - 1] / 2;
    n->full_a = pool_floats(&n->pool, full * c);
    n->full_b = pool_floats(&n->pool, full * c);
    n->half_a = pool_floats(&n->pool, half * c);
    n->half_b = pool_floats(&n->pool, half * c);
    n->product = pool_floats(&n->pool, half * c);
    n->mixed = pool_floats(&n->pool, g->n_kernels * half * c);
    n->gates = pool_floats(&n->pool, (half + 2) * 2 * c);
    n->gated = pool_floats(&n->pool, half * 2 * c);
    mixer_scratch_init(&n->mixing, &n->pool, g);
    n->chunks = pool_floats(&n->pool, (half + 2 * n->pad) * (g->n_kernels * c + GAP));
    n->mean = pool_floats(&n->pool, c);
    n->factor = pool_floats(&n->pool, c);
    n->padded = pool_floats(&n->pool, (half + 2) * c);
    n->head = pool_floats(&n->pool, full * LINEAR_PANEL);
    if (!pool_ok(&n->pool)) {
        net_free(n);
        return -ENOMEM;
    }
    *ret = n;
    return 0;
}

int net_new(struct net **ret, const struct model *model, const struct kernels *kernels) {
    struct net *n = calloc(1, sizeof *n);
    if (!n)
        return -ENOMEM;
    n->config = model_config(model);
    n->k = kernels;
    weights_init(n, model_weights(model));
    return add_scratch(ret, n);
}

int net_share(struct net **ret, const struct net *of) {
    struct net *n = malloc(sizeof *n);
    if (!n)
        return -ENOMEM;
    *n = *of;
    n->pool = (struct pool){0};
    return add_scratch(ret, n);
}

void net_free(struct net *n) {
    if (!n)
        return;
    pool_done(&n->pool);
    free(n);
}

/* ---- state ---- */

/* A dense block keeps its input and all layers' outputs except the last: rings of n_ring frames, each with a row of
 * zeros on each side. */
static void dense_state_init(const struct net *n, struct pool *pool, float *maps[MODEL_MAX_DEPTH], unsigned n_rows) {
    for (unsigned i = 0; i < n->config->depth; i++)
        maps[i] = pool_floats(pool, (size_t)n->n_ring * (n_rows + 2) * n->config->channels);
}

int net_state_init(const struct net *n, struct net_state *s) {
    const struct model_config *g = n->config;
    *s = (struct net_state){0};
    dense_state_init(n, &s->pool, s->encoder, g->n_positions);
    dense_state_init(n, &s->pool, s->mask, g->n_half);
    dense_state_init(n, &s->pool, s->phase, g->n_half);
    for (unsigned b = 0; b < g->n_blocks; b++)
        for (unsigned i = 0; i < g->n_time; i++)
            mixer_state_init(&s->mixers[b][i], &s->pool, g);
    if (pool_ok(&s->pool))
        return 0;
    net_state_done(s);
    return -ENOMEM;
}

void net_state_reset(struct net_state *s) {
    pool_zero(&s->pool);
    s->now = 0;
}

void net_state_done(struct net_state *s) {
    pool_done(&s->pool);
    *s = (struct net_state){0};
}

/* ---- one frame ---- */

/* A layer's input: the layer norm of a map [n_half][channels]. */
static struct linear norm(const struct net *n, const float *x) {
    return (struct linear){.n_rows = n->config->n_half, .of = LINEAR_OF_NORM, .x = x, .x_stride = n->config->channels,
                           .epsilon = n->config->norm_epsilon};
}

/* A depthwise 3x3 convolution, causal, spaced 2^i in time, over the maps so far, then a linear layer to `channels`. The
 * last layer's output, y [n_rows][channels], is not kept. */
static void dense(const struct net *n, const struct dense *d, float *const maps[], unsigned long now, unsigned n_rows,
                  const float *x, float *y) {
    const size_t c = n->config->channels, frame = (n_rows + 2) * c;
    const unsigned depth = n->config->depth;
    memcpy(maps[0] + now % n->n_ring * frame + c, x, n_rows * c * sizeof *x);
    for (unsigned i = 0; i < depth; i++) {
        struct depthwise convs[MODEL_MAX_DEPTH];
        for (unsigned j = 0; j <= i; j++) { /* maps[0], the block's input, is concatenated last */
            struct depthwise *conv = &convs[i - j];
            *conv = (struct depthwise){.n_rows = n_rows, .n_channels = (unsigned)c, .n_times = DENSE_TAPS,
                                        .n_taps = DENSE_TAPS,
                                       .x_stride = c, .taps = d->taps[i] + (i - j) * c, .taps_stride = (i + 1) * c};
            for (unsigned t = 0; t < DENSE_TAPS; t++) {
                unsigned long back = (unsigned long)(DENSE_TAPS - 1 - t) << i;
                conv->x[t] = maps[j] + (now + n->n_ring - back) % n->n_ring * frame;
            }
        }
        layer_run_of(&d->mix[i], n->k,
                     (struct linear){.n_rows = n_rows, .of = LINEAR_OF_CONVS, .n_convs = i + 1, .convs = convs}, NULL,
                     i + 1 < depth ? maps[i + 1] + now % n->n_ring * frame + c : y, c);
    }
}

void net_embed(struct net *n, const float *features, float *y) {
    layer_run(&n->embed, n->k, n->config->n_positions, features, 3, NULL, y, n->config->channels);
}

void net_encode(struct net *n, struct net_state *s, const float *x, float *y) {
    dense(n, &n->encoder, s->encoder, s->now, n->config->n_positions, x, y);
}

/* Convolution over frequency, kernel 3, stride 2: each row is three positions, and rows start two positions apart. */
void net_down(struct net *n, const float *x, float *y) {
    size_t c = n->config->channels;
    layer_run(&n->down, n->k, n->config->n_half, x, 2 * c, NULL, y, c);
}

/* x += proj(gate(norm(x))); x += mixer(norm(x)). y may be x. The last layer adds blend times skip, the stage's input;
 * both are NULL in the others. */
static void time_layer(const struct net *n, const struct time_layer *t, struct mixer_state *s, unsigned long now,
                       const float *x, float *y, const float *skip, const float *blend) {
    const unsigned rows = n->config->n_half, c = n->config->channels;
    layer_run_of(&t->gate, n->k, norm(n, x), NULL, n->gated, 2 * c);
    layer_run_of(&t->proj, n->k, (struct linear){.n_rows = rows, .of = LINEAR_OF_GATE, .x = n->gated,
                                                 .x_stride = 2 * c},
                 x, y,
                 c);
    mixer_run(&t->mixer, n->k, &n->mixing, s, now, skip, blend, y);
}

void net_time_stage(struct net *n, struct net_state *s, unsigned block, const float *x, float *y) {
    const struct model_config *g = n->config;
    const struct block *b = &n->blocks[block];
    for (unsigned i = 0; i < g->n_time; i++)
        time_layer(n, &b->time[i], &s->mixers[block][i], s->now, i ? y : x, y,
                   i + 1 < g->n_time ? NULL : x, b->time_skip);
}

/* x += proj(attention * gate(taps(norm(x)))); x += down(prime kernels of up(norm(x))). y, skip and blend as in
 * time_layer. */
static void freq_layer(const struct net *n, const struct freq_layer *f, const float *x, float *y, const float *skip,
                       const float *blend) {
    const struct model_config *g = n->config;
    const unsigned rows = g->n_half, c = g->channels, width = g->n_kernels * c + GAP;

    layer_run_of(&f->gate, n->k, norm(n, x), NULL, n->gates + 2 * c, 2 * c);
    n->k->depthwise(&(struct depthwise){.n_rows = rows, .n_channels = 2 * c, .n_times = 1, .n_taps = DENSE_TAPS,
                                        .x = {n->gates}, .x_stride = 2 * c, .taps = f->gate_taps, .taps_stride = 2 * c,
                                        .y = n->gated, .y_stride = 2 * c});
    n->k->attend(&(struct attend){.n_rows = rows,
                                  .n_channels = c,
                                  .weight = f->attention.weight,
                                  .bias = f->attention.bias,
                                  .x = n->gated,
                                  .y = n->product,
                                  .mean = n->mean,
                                  .factor = n->factor});
    layer_run(&f->proj, n->k, rows, n->product, c, x, y, c);

    layer_run_of(&f->up, n->k, norm(n, y), NULL, n->chunks + (size_t)n->pad * width, width);
    struct depthwise primes[MODEL_MAX_KERNELS];
    for (unsigned p = 0; p < g->n_kernels; p++) {
        float *mixed = n->mixed + (size_t)p * rows * c;
        struct depthwise *prime = &primes[p];
        *prime = (struct depthwise){.n_rows = rows, .n_channels = c, .n_times = 1, .n_taps = g->kernels[p],
                                    .x = {n->chunks + (size_t)(n->pad - g->kernels[p] / 2) * width + p * c},
                                    .x_stride = width, .taps = f->prime[p].mixed_taps, .taps_stride = c};
        layer_run_of(&f->prime[p].mix, n->k,
                     (struct linear){.n_rows = rows, .of = LINEAR_OF_CONVS, .n_convs = 1, .convs = prime},
                     NULL, mixed, c);
        prime->taps = f->prime[p].taps;
        prime->times = mixed;
        prime->times_stride = c;
    }
    layer_run_of(&f->down, n->k,
                 (struct linear){.n_rows = rows, .of = LINEAR_OF_CONVS, .n_convs = g->n_kernels, .convs = primes,
                                 .skip = skip, .blend = blend}, y, y, c);
}

void net_freq_stage(struct net *n, unsigned block, const float *x, float *y) {
    const struct model_config *g = n->config;
    const struct block *b = &n->blocks[block];
    for (unsigned i = 0; i < g->n_freq; i++)
        freq_layer(n, &b->freq[i], i ? y : x, y, i + 1 < g->n_freq ? NULL : x, b->freq_skip);
}

/* Dense block, upsampling to full resolution, head: writes n->head [n_positions][16]. */
static void decode(const struct net *n, const struct dense *d, const struct up *u, float *const maps[],
                   unsigned long now, const float *x) {
    const unsigned c = n->config->channels, half = n->config->n_half;
    dense(n, d, maps, now, half, x, n->padded + c);
    layer_run(&u->even, n->k, half + 1, n->padded, c, NULL, n->full_a, 2 * c);
    layer_run(&u->odd, n->k, half, n->padded + c, c, NULL, n->full_a + c, 2 * c);
    layer_run(&u->head, n->k, n->config->n_positions, n->full_a, c, NULL, n->head, LINEAR_PANEL);
}

void net_mask(struct net *n, struct net_state *s, const float *x, float *mask) {
    decode(n, &n->mask, &n->mask_up, s->mask, s->now, x);
    for (unsigned p = 0; p < n->config->n_positions; p++)
        mask[p] = n->config->mask_ceiling / (1 + expf(-n->slope[p] * n->head[p * LINEAR_PANEL]));
}

void net_phase(struct net *n, struct net_state *s, const float *x, float *rotation) {
    decode(n, &n->phase, &n->phase_up, s->phase, s->now, x);
    for (unsigned p = 0; p < n->config->n_positions; p++)
        memcpy(rotation + 2 * p, n->head + p * LINEAR_PANEL, 2 * sizeof *rotation);
}

void net_step(struct net_state *s) {
    s->now++;
}

void net_run(struct net *n, struct net_state *s, const float *features, float *mask, float *rotation) {
    net_embed(n, features, n->full_a);
    net_encode(n, s, n->full_a, n->full_b);
    net_down(n, n->full_b, n->half_a);
    for (unsigned b = 0; b < n->config->n_blocks; b++) {
        net_time_stage(n, s, b, n->half_a, n->half_b);
        net_freq_stage(n, b, n->half_b, n->half_a);
    }
    net_mask(n, s, n->half_a, mask);
    net_phase(n, s, n->half_a, rotation);
    net_step(s);
}
