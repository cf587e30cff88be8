#include "engine/cuda/net_cuda.h"

#include "engine/cuda/pack.h"
#include "kernels/attend/attend_cuda.h"
#include "kernels/conv/conv_cuda.h"
#include "kernels/depthwise/depthwise_cuda.h"
#include "kernels/history/history_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/prime/prime_cuda.h"
#include "kernels/recurrent/recurrent_cuda.h"
#include "kernels/scan/scan_cuda.h"
#include "kernels/ssd/ssd_cuda.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* An operation's tensors on the device; those that it lacks are NULL. */
struct packed {
    float *weight, *bias, *prelu;
    const float *taps, *mixed_taps, *decay, *pass, *blend;
};

struct net_cuda {
    struct plan *plan;
    cudaStream_t stream;
    struct packed *packed;              /* [n_ops] */
    const struct op **last;             /* [n_maps]: the last operation that reads a ring; NULL for other maps */
    float **at;                         /* [n_maps]: the first position of the first frame */
    const struct net_cuda_state *state; /* of the stream that runs */
    unsigned n_frames;                  /* that run */
};

/* ---- fused operations ---- */

/* The kernel computes a gate's product, and then only this is stored. */
static bool is_gate(const struct op *op) {
    return op->kind == OP_LINEAR && op->y == MAP_GATE;
}

static bool is_layer_of(const struct op *op, unsigned x, enum linear_of of) {
    return op->kind == OP_LINEAR && op->x == x && op->of == of;
}

/* Whether linear_chain_cuda runs this operation together with the next one: x += proj(gate or attention), then the
 * layer of its norm. */
static bool is_chained(const struct net_cuda *n, const struct op *op) {
    return (is_layer_of(op, MAP_GATE, LINEAR_OF_GATE) || is_layer_of(op, MAP_PRODUCT, LINEAR_OF_MAP)) &&
           is_layer_of(op + 1, op->y, LINEAR_OF_NORM) &&
           linear_chain_cuda_fits(n->plan->config->channels, op[1].linear->n_out);
}

/* ---- weights ---- */

/* Packs a linear layer for linear_cuda. */
static void pack_layer(const struct net_cuda *n, struct arena *a, const struct op *op, struct packed *to) {
    const unsigned n_in = op->linear->n_in, n_out = op->linear->n_out, width = linear_cuda_width(n_out);
    const bool gate = is_gate(op), behind_gate = op->of == LINEAR_OF_GATE && is_chained(n, op);
    float *weight, *bias, *prelu = NULL, row[LINEAR_CHAIN_CUDA_CHANNELS];
    to->weight = arena_place(a, linear_cuda_size(n_in, n_out), &weight);
    to->bias = arena_place(a, width, &bias);
    to->prelu = op->prelu ? arena_place(a, width, &prelu) : NULL;
    for (unsigned o = 0; weight && o < n_out; o++) {
        const unsigned place = gate ? gate_place(o, n_out) : o;
        const float *from = op->linear->weight + (size_t)o * n_in;
        for (unsigned i = 0; behind_gate && i < n_in; i++)
            row[linear_chain_cuda_input(i)] = from[i];
        linear_cuda_put(weight, n_in, n_out, place, behind_gate ? row : from);
        bias[place] = op->linear->bias ? op->linear->bias[o] : 0;
        if (prelu)
            prelu[place] = op->prelu[o];
    }
}

/* For kernels other than linear_cuda: weight [n_out][n_in] -> [n_in][width]. */
static void pack_plain(struct arena *a, const struct op *op, struct packed *to, unsigned width) {
    const unsigned n_out = op->linear->n_out;
    float *bias;
    to->weight = arena_transposed(a, op->linear->weight, n_out, op->linear->n_in, width);
    to->bias = arena_place(a, width, &bias);
    if (bias && op->linear->bias)
        memcpy(bias, op->linear->bias, n_out * sizeof *bias);
}

static void pack(const struct net_cuda *n, struct arena *a, const struct op *op, struct packed *to) {
    const struct plan *p = n->plan;
    const struct model_config *g = p->config;
    const unsigned c = g->channels, heads = g->head_dim ? g->d_inner / g->head_dim : 0;
    const size_t n_x = p->maps[op->x].n_channels, n_y = p->maps[op->y].n_channels;
    if (op->kind == OP_LINEAR || op->kind == OP_DENSE || op->kind == OP_PRIME)
        pack_layer(n, a, op, to);
    if (op->blend)
        to->blend = arena_copy(a, op->blend, c);
    switch (op->kind) {
    case OP_LINEAR: break;
    case OP_DENSE: to->taps = arena_copy(a, op->taps, (size_t)op->n_taps * op->n_taps * (op->index + 1) * c); break;
    case OP_DEPTHWISE: to->taps = arena_copy(a, op->taps, op->n_taps * n_x); break;
    case OP_PRIME:
        to->taps = arena_copy(a, op->taps, (size_t)op->n_taps * c);
        to->mixed_taps = arena_copy(a, op->mixed_taps, (size_t)op->n_taps * c);
        break;
    case OP_CONV:
        to->taps = arena_copy(a, op->taps, op->n_taps * n_y);
        to->bias = arena_copy(a, op->bias, n_y);
        break;
    case OP_SCAN:
        pack_plain(a, op, to, op->linear->n_out);
        to->decay = arena_decay(a, op->decay, g->d_inner * g->d_state, 1);
        to->pass = arena_copy(a, op->pass, g->d_inner);
        break;
    case OP_SSD:
        to->decay = arena_decay(a, op->decay, heads, 1);
        to->pass = arena_copy(a, op->pass, heads);
        break;
    case OP_ATTEND:
    case OP_GRU:
    case OP_LSTM: pack_plain(a, op, to, linear_cuda_width(op->linear->n_out)); break;
    }
}

void net_cuda_weights(struct net_cuda *n, struct arena *a) {
    for (unsigned i = 0; i < n->plan->n_ops; i++)
        pack(n, a, &n->plan->ops[i], &n->packed[i]);
}

/* ---- maps ---- */

/* Rows start at multiples of 16 bytes, except those of the network's input and outputs. */
static size_t row_of(const struct net_cuda *n, unsigned map) {
    const struct map *m = &n->plan->maps[map];
    const unsigned n_channels = map == MAP_GATE ? m->n_channels / 2 : m->n_channels;
    return m->storage == MAP_INPUT || m->storage == MAP_OUTPUT ? n_channels : (n_channels + 3) / 4 * 4;
}

/* Only this map's readers need its margin: the other kernels know a frame's edges. */
static size_t margin_of(unsigned map) {
    return map == MAP_DECODED ? 1 : 0;
}

static size_t frame_of(const struct net_cuda *n, unsigned map) {
    return (n->plan->maps[map].n_rows + 2 * margin_of(map)) * row_of(n, map);
}

/* The stages during which a map's contents are needed, a bit each: from the first one that uses it to the last. Zeros
 * in a margin are needed always. */
static unsigned stages_of(const struct plan *p, unsigned map) {
    unsigned first = STAGE_PHASE + 1, last = 0;
    for (const struct op *op = p->ops; op < p->ops + p->n_ops; op++)
        if (op->x == map || op->y == map || op->z == map || op->select == map || op->add == map ||
            (op->room == map && (op->kind == OP_ATTEND || op->kind == OP_PRIME))) {
            first = op->stage < first ? op->stage : first;
            last = op->stage > last ? op->stage : last;
        }
    return margin_of(map) ? (2u << STAGE_PHASE) - 1 : first > last ? 0 : (2u << last) - (1u << first);
}

/* Places a map behind all those that its stages need so far; `of` has an arena for each stage. */
static void place(struct net_cuda *n, struct arena of[], unsigned map, unsigned stages, unsigned n_frames) {
    struct arena a = {0};
    for (unsigned s = 0; s <= STAGE_PHASE; s++)
        if (stages >> s & 1 && of[s].used >= a.used)
            a = of[s];
    float *first = arena_take(&a, n_frames * frame_of(n, map));
    n->at[map] = first ? first + margin_of(map) * row_of(n, map) : NULL;
    for (unsigned s = 0; s <= STAGE_PHASE; s++)
        if (stages >> s & 1)
            of[s] = a;
}

/* Maps share memory if no stage needs both. Those that most stages need come first. */
void net_cuda_scratch(struct net_cuda *n, struct arena *a, unsigned n_frames) {
    const struct plan *p = n->plan;
    struct arena of[STAGE_PHASE + 1];
    for (unsigned s = 0; s <= STAGE_PHASE; s++)
        of[s] = *a;
    for (int n_stages = STAGE_PHASE + 1; n_stages > 0; n_stages--)
        for (unsigned i = MAP_NONE + 1; i < p->n_maps; i++) {
            const unsigned stages = stages_of(p, i);
            if ((p->maps[i].storage == MAP_SCRATCH || p->maps[i].storage == MAP_RING) &&
                __builtin_popcount(stages) == n_stages)
                place(n, of, i, stages, n_frames);
        }
    for (unsigned s = 0; s <= STAGE_PHASE; s++)
        if (of[s].used > a->used)
            *a = of[s];
}

int net_cuda_new(struct net_cuda **ret, const struct model *model, cudaStream_t stream) {
    struct net_cuda *n = calloc(1, sizeof *n);
    if (!n || plan_new(&n->plan, model)) {
        free(n);
        return -ENOMEM;
    }
    const struct plan *p = n->plan;
    n->stream = stream;
    n->packed = calloc(p->n_ops, sizeof *n->packed);
    n->last = calloc(p->n_maps, sizeof *n->last);
    n->at = calloc(p->n_maps, sizeof *n->at);
    if (!n->packed || !n->last || !n->at) {
        net_cuda_free(n);
        return -ENOMEM;
    }
    for (const struct op *op = p->ops; op < p->ops + p->n_ops; op++)
        for (unsigned j = 0; op->kind == OP_DENSE && j <= op->index; j++)
            n->last[op_dense_map(op, j)] = op;
    *ret = n;
    return 0;
}

void net_cuda_free(struct net_cuda *n) {
    if (!n)
        return;
    free(n->packed);
    free(n->last);
    free(n->at);
    plan_free(n->plan);
    free(n);
}

int net_cuda_state_new(const struct net_cuda *n, struct net_cuda_state *s) {
    s->maps = calloc(n->plan->n_maps, sizeof *s->maps);
    return s->maps ? 0 : -ENOMEM;
}

void net_cuda_state_layout(const struct net_cuda *n, struct net_cuda_state *s, struct arena *a) {
    const struct map *m = n->plan->maps;
    for (unsigned i = MAP_KEPT; i < n->plan->n_maps; i++)
        s->maps[i] = arena_take(a, (size_t)m[i].n_past * m[i].n_rows * m[i].n_channels);
}

void net_cuda_state_done(struct net_cuda_state *s) {
    free(s->maps);
    *s = (struct net_cuda_state){0};
}

/* ---- frames ---- */

/* Each of these functions runs an operation, and those after it that its kernel includes; it returns how many. */

/* Keeps the last frames of a map, of which an operation reads n_channels from the first on. */
static void keep(const struct net_cuda *n, unsigned map, unsigned kept, unsigned n_channels) {
    history_cuda(&(struct history_cuda){.n_frames = n->n_frames,
                                        .n_rows = n->plan->maps[kept].n_rows,
                                        .n_channels = n_channels,
                                        .n_past = n->plan->maps[kept].n_past,
                                        .x = n->at[map],
                                        .x_stride = row_of(n, map),
                                        .past = n->state->maps[kept]},
                 n->stream);
}

/* proj is the operation that adds to x. */
static void chain(const struct net_cuda *n, const struct op *gate, const struct op *proj) {
    const struct packed *w = &n->packed[proj - n->plan->ops], *g = gate ? w - 1 : NULL, *out = w + 1;
    linear_chain_cuda(&(struct linear_chain_cuda){.n_frames = n->n_frames,
                                                  .n_rows = op_rows(n->plan, proj),
                                                  .n_channels = n->plan->config->channels,
                                                  .norm_epsilon = n->plan->config->norm_epsilon,
                                                  .x = n->at[proj->add],
                                                  .gate = g ? g->weight : NULL,
                                                  .gate_bias = g ? g->bias : NULL,
                                                  .product = gate ? NULL : n->at[proj->x],
                                                  .factor = gate ? NULL : n->at[MAP_FACTOR],
                                                  .proj = w->weight,
                                                  .proj_bias = w->bias,
                                                  .out = out->weight,
                                                  .out_bias = out->bias,
                                                  .y = n->at[proj->y],
                                                  .z = n->at[proj[1].y]},
                      n->stream);
}

static unsigned linear(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    if (is_gate(op) && is_chained(n, op + 1)) {
        chain(n, op, op + 1);
        return 3;
    }
    if (is_chained(n, op)) {
        chain(n, NULL, op);
        return 2;
    }
    const size_t row = row_of(n, op->x), y_row = row_of(n, op->y);
    linear_cuda(&(struct linear_cuda){.n_frames = n->n_frames,
                                      .n_rows = op_rows(n->plan, op),
                                      .n_in = op->linear->n_in,
                                      .n_out = op->linear->n_out,
                                      .x = n->at[op->x] + op->x_row * (ptrdiff_t)row,
                                      .x_frame = frame_of(n, op->x),
                                      .x_stride = op->x_step * row,
                                      .norm_epsilon = op->of == LINEAR_OF_NORM ? n->plan->config->norm_epsilon : 0,
                                      .scale = op->x == MAP_PRODUCT ? n->at[MAP_FACTOR] : NULL,
                                      .weight = w->weight,
                                      .bias = w->bias,
                                      .prelu = w->prelu,
                                      .gate = is_gate(op),
                                      .add = n->at[op->add],
                                      .add_frame = frame_of(n, op->y),
                                      .add_stride = y_row,
                                      .skip = n->at[op->skip],
                                      .blend = w->blend,
                                      .y = n->at[op->y] + op->y_row * y_row,
                                      .y_frame = frame_of(n, op->y),
                                      .y_stride = op->y_step * y_row},
                n->stream);
    return 1;
}

static unsigned dense(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const unsigned c = n->plan->config->channels;
    struct dense_cuda a = {.n_frames = n->n_frames,
                           .n_rows = op_rows(n->plan, op),
                           .n_channels = c,
                           .layer = op->index,
                           .n_past = n->plan->maps[op->x].n_past,
                           .taps = w->taps,
                           .weight = w->weight,
                           .bias = w->bias,
                           .prelu = w->prelu,
                           .y = n->at[op->y],
                           .y_frame = frame_of(n, op->y)};
    for (unsigned j = 0; j <= op->index; j++) {
        a.map[j] = n->at[op_dense_map(op, j)];
        a.past[j] = n->state->maps[op_dense_map(op, j)];
    }
    dense_cuda(&a, n->stream);
    for (unsigned j = 0; j <= op->index; j++)
        if (n->last[op_dense_map(op, j)] == op)
            keep(n, op_dense_map(op, j), op_dense_map(op, j), c);
    return 1;
}

static unsigned depthwise(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const struct op *attend = op + 1;
    const struct packed *of = w + 1;
    assert(attend->kind == OP_ATTEND);
    attend_cuda(&(struct attend_cuda){.n_frames = n->n_frames,
                                      .n_rows = op_rows(n->plan, attend),
                                      .n_channels = attend->linear->n_in,
                                      .weight_stride = linear_cuda_width(attend->linear->n_out),
                                      .weight = of->weight,
                                      .bias = of->bias,
                                      .x = n->at[op->x],
                                      .taps = w->taps,
                                      .y = n->at[attend->y],
                                      .factor = n->at[attend->room]},
                n->stream);
    return 2;
}

/* One kernel after another, each as three operations. */
static unsigned prime_by_parts(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const unsigned rows = op_rows(n->plan, op), c = n->plan->config->channels;
    const size_t width = row_of(n, op->y);
    float *y = n->at[op->y] + op->index * c;
    struct over_frequency_cuda taps = {.n_frames = n->n_frames,
                                       .n_rows = rows,
                                       .n_channels = c,
                                       .n_taps = op->n_taps,
                                       .x = n->at[op->x] + op->index * c,
                                       .x_stride = width,
                                       .taps = w->mixed_taps,
                                       .y = y,
                                       .y_stride = width};
    over_frequency_cuda(&taps, n->stream);
    linear_cuda(&(struct linear_cuda){.n_frames = n->n_frames,
                                      .n_rows = rows,
                                      .n_in = c,
                                      .n_out = c,
                                      .x = y,
                                      .x_frame = rows * width,
                                      .x_stride = width,
                                      .weight = w->weight,
                                      .bias = w->bias,
                                      .y = n->at[op->room],
                                      .y_frame = (size_t)rows * c,
                                      .y_stride = c},
                n->stream);
    taps.taps = w->taps;
    taps.times = n->at[op->room];
    over_frequency_cuda(&taps, n->stream);
    return 1;
}

static unsigned prime(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const struct model_config *g = n->plan->config;
    const unsigned rows = op_rows(n->plan, op);
    if (!prime_cuda_fits(rows, g->channels, g->kernels[g->n_kernels - 1]))
        return prime_by_parts(n, op, w);
    struct prime_cuda a = {.n_frames = n->n_frames,
                           .n_rows = rows,
                           .n_channels = g->channels,
                           .n_kernels = g->n_kernels,
                           .x = n->at[op->x],
                           .y = n->at[op->y]};
    for (unsigned k = 0; k < g->n_kernels; k++) {
        a.kernel[k].n_taps = op[k].n_taps;
        a.kernel[k].mixed_taps = w[k].mixed_taps;
        a.kernel[k].taps = w[k].taps;
        a.kernel[k].weight = w[k].weight;
        a.kernel[k].bias = w[k].bias;
    }
    prime_cuda(&a, n->stream);
    return g->n_kernels;
}

/* In Mamba the next layer too. */
static unsigned conv(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const struct op *select = is_layer_of(op + 1, op->y, LINEAR_OF_MAP) ? op + 1 : NULL;
    const unsigned n_channels = n->plan->maps[op->y].n_channels;
    struct conv_cuda a = {.n_frames = n->n_frames,
                          .n_rows = op_rows(n->plan, op),
                          .n_channels = n_channels,
                          .n_taps = op->n_taps,
                          .x = n->at[op->x],
                          .x_stride = row_of(n, op->x),
                          .past = n->state->maps[op->state],
                          .taps = w->taps,
                          .bias = w->bias,
                          .y = n->at[op->y]};
    if (select) {
        a.weight = w[1].weight;
        a.z_bias = w[1].bias;
        a.n_out = select->linear->n_out;
        a.z = n->at[select->y];
        a.z_stride = row_of(n, select->y);
    }
    conv_cuda(&a, n->stream);
    keep(n, op->x, op->state, n_channels);
    return select ? 2 : 1;
}

static unsigned scan(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const struct model_config *g = n->plan->config;
    scan_cuda(&(struct scan_cuda){.n_frames = n->n_frames,
                                  .n_rows = op_rows(n->plan, op),
                                  .n_channels = g->d_inner,
                                  .n_states = g->d_state,
                                  .rank = g->step_rank,
                                  .u = n->at[op->x],
                                  .select = n->at[op->select],
                                  .select_stride = row_of(n, op->select),
                                  .step = w->weight,
                                  .bias = w->bias,
                                  .z = n->at[op->z] + g->d_inner,
                                  .z_stride = row_of(n, op->z),
                                  .decay = w->decay,
                                  .pass = w->pass,
                                  .h = n->state->maps[op->state],
                                  .y = n->at[op->y]},
              n->stream);
    return 1;
}

static unsigned ssd(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const struct model_config *g = n->plan->config;
    const float *z = n->at[op->z] + n->plan->maps[op->x].n_channels;
    ssd_cuda(&(struct ssd_cuda){.n_frames = n->n_frames,
                                .n_rows = op_rows(n->plan, op),
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
                                .pass = w->pass,
                                .h = n->state->maps[op->state],
                                .y = n->at[op->y]},
             n->stream);
    return 1;
}

static unsigned recurrent(const struct net_cuda *n, const struct op *op, const struct packed *w) {
    const bool is_gru = op->kind == OP_GRU;
    (is_gru ? gru_cuda : lstm_cuda)(&(struct recurrent_cuda){.n_frames = n->n_frames,
                                                             .n_rows = op_rows(n->plan, op),
                                                             .n_channels = n->plan->config->channels,
                                                             .in = n->at[op->x],
                                                             .weight = w->weight,
                                                             .weight_stride = linear_cuda_width(op->linear->n_out),
                                                             .bias = w->bias,
                                                             .h = n->state->maps[op->state],
                                                             .cell = n->state->maps[op->cell],
                                                             .y = n->at[op->y]},
                                    n->stream);
    return 1;
}

/* OP_ATTEND runs with OP_DEPTHWISE. */
static unsigned (*const runs[])(const struct net_cuda *n, const struct op *op, const struct packed *w) = {
    [OP_LINEAR] = linear, [OP_DENSE] = dense, [OP_DEPTHWISE] = depthwise, [OP_PRIME] = prime,    [OP_CONV] = conv,
    [OP_SCAN] = scan,     [OP_SSD] = ssd,     [OP_GRU] = recurrent,       [OP_LSTM] = recurrent,
};

static void run(struct net_cuda *n, const struct net_cuda_state *s, unsigned n_frames, const struct op *first,
                unsigned n_ops) {
    n->state = s;
    n->n_frames = n_frames;
    for (const struct op *op = first; op < first + n_ops;)
        op += runs[op->kind](n, op, &n->packed[op - n->plan->ops]);
}

void net_cuda_run(struct net_cuda *n, const struct net_cuda_state *s, unsigned n_frames, const float *features,
                  float *mask, float *rotation) {
    n->at[MAP_FEATURES] = (float *)features;
    n->at[MAP_MASK] = mask;
    n->at[MAP_ROTATION] = rotation;
    run(n, s, n_frames, n->plan->ops, n->plan->n_ops);
}

void net_cuda_stage(struct net_cuda *n, const struct net_cuda_state *s, unsigned n_frames, enum plan_stage stage,
                    unsigned block, const float *x, float *y) {
    unsigned n_ops;
    const struct op *first = plan_stage(n->plan, stage, block, &n_ops);
    const unsigned in = first->x, out = first[n_ops - 1].y;
    n->at[MAP_FEATURES] = (float *)x;
    n->at[MAP_MASK] = n->at[MAP_ROTATION] = y;
    if (in != MAP_FEATURES)
        cudaMemcpyAsync(n->at[in], x, n_frames * frame_of(n, in) * sizeof *x, cudaMemcpyDeviceToDevice, n->stream);
    run(n, s, n_frames, first, n_ops);
    if (n->at[out] != y)
        cudaMemcpyAsync(y, n->at[out], n_frames * frame_of(n, out) * sizeof *y, cudaMemcpyDeviceToDevice, n->stream);
}
