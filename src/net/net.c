#include "net/net.h"

#include "kernels/attend/attend.h"
#include "kernels/conv/conv.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/gru/gru.h"
#include "kernels/kernels.h"
#include "kernels/lstm/lstm.h"
#include "kernels/scan/scan.h"
#include "kernels/ssd/ssd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that lie a large power of two bytes apart compete for few cache lines, so the widest map has this many extra
 * floats per row. */
enum { GAP = 16 };

/* An operation's weights, packed for the kernels; what it lacks is NULL. */
struct packed {
    bool pairs;                           /* weights and products are bfloat16 or int16 */
    float *weight, *steps, *bias, *prelu; /* of its linear layer; padded to whole panels */
    float *decay;                         /* times log2 e; packed as in scan.h (Mamba) or [heads] (Mamba-2) */
};

/* How a map is stored, in floats. Rows of zeros, the margin, surround each frame and are never written. */
struct place {
    size_t row, frame, first; /* between rows, between frames, from a frame's start to its first position */
    unsigned n_frames;        /* of a ring or state */
};

struct net {
    const struct kernels *k;
    struct plan *plan;
    struct packed *packed; /* [n_ops] */
    struct place *places;  /* [n_maps] */
    bool shares;           /* plan, packed weights and places are another net's */
    struct pool pool;      /* owns the scratch, and the packed weights unless they are another net's */
    float **at;            /* [n_maps]: the first position in the current frame; MAP_NONE: NULL */
    float *mean;           /* [channels], for attend.h */
    struct depthwise primes[MODEL_MAX_KERNELS]; /* of the last OP_PRIME; the layer that reads y runs them */
    const struct net_state *state;              /* of the stream that runs */
};

/* ---- weights ---- */

static float *padded(struct pool *pool, const float *from, unsigned n) {
    float *to = pool_floats(pool, linear_padded(n));
    if (to && from)
        memcpy(to, from, n * sizeof *to);
    return to;
}

/* A layer uses pairs if the kernels have them and it has enough outputs to make up for the cost of rounding. */
static void pack_linear(struct net *n, const struct op *op, struct packed *w) {
    const unsigned n_in = op->linear->n_in, n_out = op->linear->n_out;
    w->pairs = op->kind != OP_ATTEND && n->k->linear_pairs && n_out > (n->k->bf16 ? LINEAR_NARROW : LINEAR_PANEL) &&
               n_in % LINEAR_PANEL == 0 && n_in <= LINEAR_MAX_IN;
    w->weight = pool_floats(&n->pool, (size_t)linear_padded(n_out) * n_in / (w->pairs ? 2 : 1));
    w->steps = pool_floats(&n->pool, linear_padded(n_out));
    if (w->weight && w->steps) {
        if (!w->pairs)
            linear_pack(w->weight, op->linear->weight, n_out, n_in);
        else if (n->k->bf16)
            linear_bf16_pack(w->weight, op->linear->weight, n_out, n_in);
        else
            linear_int16_pack(w->weight, w->steps, op->linear->weight, n_out, n_in);
    }
    w->bias = padded(&n->pool, op->linear->bias, n_out);
    w->prelu = op->prelu ? padded(&n->pool, op->prelu, n_out) : NULL;
}

static void pack(struct net *n, const struct op *op, struct packed *w) {
    const struct model_config *g = n->plan->config;
    if (op->linear)
        pack_linear(n, op, w);
    if (op->kind == OP_SCAN && (w->decay = pool_floats(&n->pool, (size_t)g->d_inner * g->d_state)))
        scan_pack(w->decay, op->decay, g->d_inner, g->d_state);
    if (op->kind == OP_SSD && (w->decay = pool_floats(&n->pool, SSD_MAX_HEADS)))
        for (unsigned i = 0; i < g->d_inner / g->head_dim; i++)
            w->decay[i] = (float)(op->decay[i] * M_LOG2E);
}

/* ---- maps ---- */

static struct place place_of(const struct map *m, bool widest) {
    const size_t row = m->storage == MAP_INPUT ? m->n_channels : linear_padded(m->n_channels) + (widest ? GAP : 0);
    return (struct place){.row = row,
                          .frame = (m->n_rows + 2 * m->margin) * row,
                          .first = m->margin * row,
                          .n_frames = m->storage == MAP_RING ? m->n_past + 1 : m->n_past};
}

/* Allocates the scratch, which completes the net; frees it if memory ran out, here or before. */
static int add_scratch(struct net **ret, struct net *n) {
    const struct plan *p = n->plan;
    n->at = calloc(p->n_maps, sizeof *n->at);
    for (unsigned i = 1; i < MAP_KEPT && n->at; i++) {
        float *frame = pool_floats(&n->pool, n->places[i].frame);
        n->at[i] = frame ? frame + n->places[i].first : NULL;
    }
    n->mean = pool_floats(&n->pool, p->config->channels);
    if (!n->at || !pool_ok(&n->pool)) {
        net_free(n);
        return -ENOMEM;
    }
    *ret = n;
    return 0;
}

int net_new(struct net **ret, const struct model *model, const struct kernels *kernels) {
    struct net *n = calloc(1, sizeof *n);
    if (!n || plan_new(&n->plan, model)) {
        free(n);
        return -ENOMEM;
    }
    const struct plan *p = n->plan;
    n->k = kernels;
    n->packed = calloc(p->n_ops, sizeof *n->packed);
    n->places = calloc(p->n_maps, sizeof *n->places);
    if (!n->packed || !n->places) {
        net_free(n);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < p->n_ops; i++)
        pack(n, &p->ops[i], &n->packed[i]);
    for (unsigned i = 0; i < p->n_maps; i++)
        n->places[i] = place_of(&p->maps[i], i == MAP_CHUNKS);
    return add_scratch(ret, n);
}

int net_share(struct net **ret, const struct net *of) {
    struct net *n = malloc(sizeof *n);
    if (!n)
        return -ENOMEM;
    *n = *of;
    n->shares = true;
    n->pool = (struct pool){0};
    return add_scratch(ret, n);
}

void net_free(struct net *n) {
    if (!n)
        return;
    pool_done(&n->pool);
    free(n->at);
    if (!n->shares) {
        free(n->places);
        free(n->packed);
        plan_free(n->plan);
    }
    free(n);
}

int net_state_init(const struct net *n, struct net_state *s) {
    *s = (struct net_state){.maps = calloc(n->plan->n_maps, sizeof *s->maps)};
    for (unsigned i = MAP_KEPT; i < n->plan->n_maps && s->maps; i++)
        s->maps[i] = pool_floats(&s->pool, n->places[i].n_frames * n->places[i].frame);
    if (s->maps && pool_ok(&s->pool))
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
    free(s->maps);
    *s = (struct net_state){0};
}

/* ---- one frame ---- */

static size_t row_of(const struct net *n, unsigned map) {
    return n->places[map].row;
}

/* The first position of a ring or state, `back` frames ago. */
static float *before(const struct net *n, unsigned map, unsigned long back) {
    const struct place *p = &n->places[map];
    return n->state->maps[map] + (n->state->now + p->n_frames - back) % p->n_frames * p->frame + p->first;
}

static void begin(struct net *n, const struct net_state *s) {
    n->state = s;
    for (unsigned i = MAP_KEPT; i < n->plan->n_maps; i++)
        n->at[i] = before(n, i, 0);
}

/* Runs the operation's linear layer; *a has all but its weights, which are filled in. */
static void layer(const struct net *n, const struct op *op, const struct packed *w, struct linear *a) {
    a->n_rows = op_rows(n->plan, op);
    a->n_in = op->linear->n_in;
    a->n_out = op->linear->n_out;
    a->epsilon = n->plan->config->norm_epsilon;
    a->weight = w->weight;
    a->steps = w->steps;
    a->bias = w->bias;
    a->prelu = w->prelu;
    (w->pairs ? n->k->linear_pairs : n->k->linear)(a);
}

/* The same with the output to y. */
static void layer_to_y(const struct net *n, const struct op *op, const struct packed *w, struct linear *a) {
    const size_t row = row_of(n, op->y);
    a->add = n->at[op->add];
    a->skip = n->at[op->skip];
    a->blend = op->blend;
    a->y = n->at[op->y] + op->y_row * row;
    a->add_stride = a->y_stride = op->y_step * row;
    layer(n, op, w, a);
}

static void linear(struct net *n, const struct op *op, const struct packed *w) {
    const size_t row = row_of(n, op->x);
    layer_to_y(n, op, w,
               &(struct linear){.of = op->of,
                                .x = n->at[op->x] + op->x_row * (ptrdiff_t)row,
                                .x_stride = op->x_step * row,
                                .n_convs = n->plan->config->n_kernels,
                                .convs = n->primes});
}

static void dense(struct net *n, const struct op *op, const struct packed *w) {
    const unsigned n_maps = op->index + 1, c = n->plan->config->channels;
    struct depthwise convs[MODEL_MAX_DEPTH];
    for (unsigned i = 0; i < n_maps; i++) { /* the latest map first, the block's input last */
        const unsigned map = op_dense_map(op, n_maps - 1 - i);
        const size_t row = row_of(n, map);
        convs[i] = (struct depthwise){.n_rows = op_rows(n->plan, op),
                                      .n_channels = c,
                                      .n_times = DEPTHWISE_TIMES,
                                      .n_taps = op->n_taps,
                                      .x_stride = row,
                                      .taps = op->taps + (size_t)i * c,
                                      .taps_stride = (size_t)n_maps * c};
        for (unsigned t = 0; t < DEPTHWISE_TIMES; t++)
            convs[i].x[t] = before(n, map, (DEPTHWISE_TIMES - 1ul - t) << op->index) - op->n_taps / 2 * row;
    }
    layer_to_y(n, op, w, &(struct linear){.of = LINEAR_OF_CONVS, .n_convs = n_maps, .convs = convs});
}

/* n_channels of x, from `first` on. */
static struct depthwise over_frequency(const struct net *n, const struct op *op, unsigned first, unsigned n_channels) {
    const size_t row = row_of(n, op->x);
    return (struct depthwise){.n_rows = op_rows(n->plan, op),
                              .n_channels = n_channels,
                              .n_times = 1,
                              .n_taps = op->n_taps,
                              .x = {n->at[op->x] - op->n_taps / 2 * row + first},
                              .x_stride = row,
                              .taps = op->taps,
                              .taps_stride = n_channels};
}

static void depthwise(struct net *n, const struct op *op, const struct packed *w) {
    (void)w;
    struct depthwise a = over_frequency(n, op, 0, n->plan->maps[op->x].n_channels);
    a.y = n->at[op->y];
    a.y_stride = row_of(n, op->y);
    n->k->depthwise(&a);
}

static void attend(struct net *n, const struct op *op, const struct packed *w) {
    n->k->attend(&(struct attend){.n_rows = op_rows(n->plan, op),
                                  .n_channels = n->plan->config->channels,
                                  .weight = w->weight,
                                  .bias = w->bias,
                                  .x = n->at[op->x],
                                  .y = n->at[op->y],
                                  .mean = n->mean,
                                  .factor = n->at[op->room]});
}

/* Computes one factor of the product, and leaves the other one and the product to the layer that reads y. */
static void prime(struct net *n, const struct op *op, const struct packed *w) {
    const unsigned c = n->plan->config->channels;
    float *mixed = n->at[op->y] + (size_t)op->index * op_rows(n->plan, op) * c; /* [rows][c], chunk after chunk */
    struct depthwise *a = &n->primes[op->index];
    *a = over_frequency(n, op, op->index * c, c);
    a->taps = op->mixed_taps;
    layer(n, op, w, &(struct linear){.of = LINEAR_OF_CONVS, .n_convs = 1, .convs = a, .y = mixed, .y_stride = c});
    a->taps = op->taps;
    a->times = mixed;
    a->times_stride = c;
}

static void conv(struct net *n, const struct op *op, const struct packed *w) {
    (void)w;
    const unsigned n_past = op->n_taps - 1;
    struct conv a = {.n_rows = op_rows(n->plan, op),
                     .n_channels = n->plan->maps[op->y].n_channels,
                     .n_taps = op->n_taps,
                     .x = n->at[op->x],
                     .x_stride = row_of(n, op->x),
                     .taps = op->taps,
                     .bias = op->bias,
                     .y = n->at[op->y]};
    for (unsigned p = 0; p < n_past; p++)
        a.past[p] = before(n, op->state, n_past - p);
    n->k->conv(&a);
}

static void scan(struct net *n, const struct op *op, const struct packed *w) {
    const unsigned rows = op_rows(n->plan, op), d = n->plan->config->d_inner, n_states = n->plan->config->d_state;
    float *select = n->at[op->select], *step = n->at[op->room];
    layer(n, op, w,
          &(struct linear){.x = select + 2 * n_states, .x_stride = row_of(n, op->select), .y = step, .y_stride = d});
    n->k->scan(&(struct scan){.n_rows = rows,
                              .n_channels = d,
                              .n_states = n_states,
                              .u = n->at[op->x],
                              .step = step,
                              .select = select,
                              .select_stride = row_of(n, op->select),
                              .z = n->at[op->z] + d,
                              .z_stride = row_of(n, op->z),
                              .decay = w->decay,
                              .pass = op->pass,
                              .h = n->at[op->state],
                              .y = n->at[op->y]});
}

static void ssd(struct net *n, const struct op *op, const struct packed *w) {
    const struct model_config *g = n->plan->config;
    float *z = n->at[op->z] + n->plan->maps[op->x].n_channels;
    n->k->ssd(&(struct ssd){.n_rows = op_rows(n->plan, op),
                            .n_channels = g->d_inner,
                            .head_dim = g->head_dim,
                            .n_states = g->d_state,
                            .epsilon = g->norm_epsilon,
                            .u = n->at[op->x],
                            .u_stride = row_of(n, op->x),
                            .step = z + g->d_inner,
                            .z = z,
                            .z_stride = row_of(n, op->z),
                            .decay = w->decay,
                            .pass = op->pass,
                            .h = n->at[op->state],
                            .y = n->at[op->y],
                            .y_stride = row_of(n, op->y)});
}

static void gru(struct net *n, const struct op *op, const struct packed *w) {
    const unsigned rows = op_rows(n->plan, op), c = n->plan->config->channels;
    float *h = n->at[op->state], *gates = n->at[op->room];
    layer(n, op, w, &(struct linear){.x = h, .x_stride = c, .y = gates, .y_stride = row_of(n, op->room)});
    n->k->gru(&(struct gru){.n_rows = rows, .n_channels = c, .a = n->at[op->x], .b = gates, .h = h});
    memcpy(n->at[op->y], h, (size_t)rows * c * sizeof *h);
}

static void lstm(struct net *n, const struct op *op, const struct packed *w) {
    const unsigned rows = op_rows(n->plan, op), c = n->plan->config->channels;
    const size_t row = row_of(n, op->x);
    float *h = n->at[op->state], *gates = n->at[op->x];
    layer(n, op, w,
          &(struct linear){.x = h, .x_stride = c, .add = gates, .add_stride = row, .y = gates, .y_stride = row});
    n->k->lstm(&(struct lstm){.n_rows = rows, .n_channels = c, .gates = gates, .cell = n->at[op->cell], .h = h});
    memcpy(n->at[op->y], h, (size_t)rows * c * sizeof *h);
}

static void (*const runs[])(struct net *n, const struct op *op, const struct packed *w) = {
    [OP_LINEAR] = linear, [OP_DENSE] = dense, [OP_DEPTHWISE] = depthwise, [OP_ATTEND] = attend,
    [OP_PRIME] = prime,   [OP_CONV] = conv,   [OP_SCAN] = scan,           [OP_SSD] = ssd,
    [OP_GRU] = gru,       [OP_LSTM] = lstm,
};

static void run(struct net *n, const struct op *first, unsigned n_ops) {
    for (const struct op *op = first; op < first + n_ops; op++)
        runs[op->kind](n, op, &n->packed[op - n->plan->ops]);
}

void net_run(struct net *n, struct net_state *s, const float *features, float *mask, float *rotation) {
    const struct model_config *g = n->plan->config;
    const float *v = n->at[MAP_MASK], *r = n->at[MAP_ROTATION];
    begin(n, s);
    memcpy(n->at[MAP_FEATURES], features, 3 * g->n_positions * sizeof *features);
    run(n, n->plan->ops, n->plan->n_ops);
    for (unsigned p = 0; p < g->n_positions; p++) {
        mask[p] = g->mask_ceiling / (1 + expf(-n->plan->mask_slope[p] * v[p * row_of(n, MAP_MASK)]));
        memcpy(rotation + 2 * p, r + p * row_of(n, MAP_ROTATION), 2 * sizeof *rotation);
    }
    net_step(s);
}

void net_stage(struct net *n, struct net_state *s, enum plan_stage stage, unsigned block, const float *x, float *y) {
    unsigned n_ops;
    const struct op *first = plan_stage(n->plan, stage, block, &n_ops);
    const unsigned in = first->x, out = first[n_ops - 1].y;
    const struct map *to = &n->plan->maps[out];
    begin(n, s);
    memcpy(n->at[in], x, n->plan->maps[in].n_rows * row_of(n, in) * sizeof *x);
    run(n, first, n_ops);
    for (unsigned r = 0; r < to->n_rows; r++)
        memcpy(y + r * to->n_channels, n->at[out] + r * row_of(n, out), to->n_channels * sizeof *y);
}

void net_step(struct net_state *s) {
    s->now++;
}
