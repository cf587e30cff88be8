#include "net/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* A plan is built twice: first without arrays, to count, then into them. */
struct build {
    struct plan *plan;
    const struct model_config *config;
    enum plan_stage stage;
    unsigned block;
};

/* ---- maps ---- */

static unsigned keep(struct build *b, struct map map) {
    struct plan *p = b->plan;
    if (p->maps)
        p->maps[p->n_maps] = map;
    return p->n_maps++;
}

/* The input of a dense block's layers. Twice the widest spacing, 2^(depth - 1), is how far they look back. */
static unsigned ring(struct build *b, unsigned n_rows) {
    return keep(b, (struct map){MAP_RING, n_rows, b->config->channels, .margin = 1, .n_past = 1u << b->config->depth});
}

static unsigned state(struct build *b, unsigned n_channels, unsigned n_past) {
    return keep(b, (struct map){MAP_STATE, b->config->n_half, n_channels, .n_past = n_past});
}

static void shared_maps(struct build *b) {
    const struct model_config *g = b->config;
    const unsigned full = g->n_positions, half = g->n_half, c = g->channels, chunks = g->n_kernels * c,
                   step = g->mixer == MODEL_MAMBA ? g->d_inner
                          : g->mixer == MODEL_GRU ? 3 * c
                                                  : 0;
    const struct map maps[MAP_KEPT] = {
        [MAP_FEATURES] = {MAP_INPUT, full, 3},
        [MAP_ENCODED] = {MAP_SCRATCH, full, c},
        [MAP_TIME] = {MAP_SCRATCH, half, c},
        [MAP_FREQ] = {MAP_SCRATCH, half, c},
        [MAP_GATE] = {MAP_SCRATCH, half, 2 * c},
        [MAP_IN] = {MAP_SCRATCH, half, model_mixer_in(g)},
        [MAP_U] = {MAP_SCRATCH, half, g->d_conv ? model_convolved(g) : 0},
        [MAP_SELECT] = {MAP_SCRATCH, half, g->mixer == MODEL_MAMBA ? 2 * g->d_state + g->step_rank : 0},
        [MAP_STEP] = {MAP_SCRATCH, half, step},
        [MAP_MIXED] = {MAP_SCRATCH, half, g->mixer == MODEL_MAMBA ? 0 : g->d_inner},
        [MAP_UNTAPPED] = {MAP_SCRATCH, half, 2 * c, .margin = 1},
        [MAP_PRODUCT] = {MAP_SCRATCH, half, c},
        [MAP_FACTOR] = {MAP_SCRATCH, 1, c},
        [MAP_CHUNKS] = {MAP_SCRATCH, half, chunks, .margin = g->kernels[g->n_kernels - 1] / 2},
        [MAP_PRIMES] = {MAP_SCRATCH, half, chunks},
        [MAP_DECODED] = {MAP_SCRATCH, half, c, .margin = 1},
        [MAP_FULL] = {MAP_SCRATCH, full, c},
        [MAP_MASK] = {MAP_OUTPUT, full, 1},
        [MAP_ROTATION] = {MAP_OUTPUT, full, 2},
    };
    for (unsigned i = 0; i < MAP_KEPT; i++)
        keep(b, maps[i]);
}

/* ---- operations ---- */

static void stage(struct build *b, enum plan_stage which, unsigned block) {
    b->stage = which;
    b->block = block;
}

static void add(struct build *b, struct op op) {
    struct plan *p = b->plan;
    op.stage = b->stage;
    op.block = b->block;
    op.x_step = op.x_step ? op.x_step : 1;
    op.y_step = op.y_step ? op.y_step : 1;
    if (p->ops)
        p->ops[p->n_ops] = op;
    p->n_ops++;
}

#define OP(...) add(b, (struct op){__VA_ARGS__})

/* Keeps the outputs of all layers but the last, which writes y. */
static void dense(struct build *b, const struct dense_weights *w, unsigned x, unsigned n_rows, unsigned y) {
    const unsigned depth = b->config->depth, kept = b->plan->n_maps;
    for (unsigned i = 1; i < depth; i++)
        ring(b, n_rows);
    for (unsigned i = 0; i < depth; i++)
        OP(OP_DENSE, .index = i, .x = x, .z = kept, .y = i + 1 < depth ? kept + i : y, .n_taps = 3, .taps = w[i].taps,
           .linear = &w[i].mix, .prelu = w[i].prelu);
}

/* The recurrence along time, at each position separately: MAP_IN -> the map that is returned. */
static unsigned mixer(struct build *b, const struct time_weights *w) {
    const struct model_config *g = b->config;
    if (g->d_conv)
        OP(OP_CONV, .x = MAP_IN, .y = MAP_U, .n_taps = g->d_conv, .taps = w->conv_taps, .bias = w->conv_bias,
           .state = state(b, model_convolved(g), g->d_conv - 1));
    switch (g->mixer) {
    case MODEL_MAMBA:
        OP(OP_LINEAR, .x = MAP_U, .y = MAP_SELECT, .linear = &w->select);
        OP(OP_SCAN, .x = MAP_U, .select = MAP_SELECT, .z = MAP_IN, .room = MAP_STEP, .y = MAP_U, .linear = &w->step,
           .decay = w->decay, .pass = w->pass, .state = state(b, g->d_inner * g->d_state, 1));
        return MAP_U;
    case MODEL_MAMBA2:
        OP(OP_SSD, .x = MAP_U, .z = MAP_IN, .y = MAP_MIXED, .decay = w->head_decay, .pass = w->head_pass,
           .state = state(b, g->d_inner * g->d_state, 1));
        break;
    case MODEL_GRU:
        OP(OP_GRU, .x = MAP_IN, .room = MAP_STEP, .y = MAP_MIXED, .linear = &w->gru_state,
           .state = state(b, g->channels, 1));
        break;
    case MODEL_LSTM:
        OP(OP_LSTM, .x = MAP_IN, .y = MAP_MIXED, .linear = &w->lstm_state, .state = state(b, g->channels, 1),
           .cell = state(b, g->channels, 1));
        break;
    }
    return MAP_MIXED;
}

/* x += proj(gate(norm(x)));  x += out(mixer(in(norm(x)))). The last layer adds a share of the stage's input. */
static void time_stage(struct build *b, const struct block_weights *of, unsigned x, unsigned y) {
    for (unsigned i = 0; i < b->config->n_time; i++) {
        const struct time_weights *w = &of->time[i];
        const bool last = i + 1 == b->config->n_time;
        OP(OP_LINEAR, .of = LINEAR_OF_NORM, .x = i ? y : x, .y = MAP_GATE, .linear = &w->gate);
        OP(OP_LINEAR, .of = LINEAR_OF_GATE, .x = MAP_GATE, .add = i ? y : x, .y = y, .linear = &w->proj);
        OP(OP_LINEAR, .of = LINEAR_OF_NORM, .x = y, .y = MAP_IN, .linear = &w->in);
        const unsigned mixed = mixer(b, w);
        OP(OP_LINEAR, .x = mixed, .add = y, .skip = last ? x : MAP_NONE, .blend = last ? of->time_skip : NULL, .y = y,
           .linear = &w->out);
    }
}

/* x += proj(attention * gate(taps(norm(x))));  x += down(prime kernels of up(norm(x))). */
static void freq_stage(struct build *b, const struct block_weights *of, unsigned x, unsigned y) {
    const struct model_config *g = b->config;
    for (unsigned i = 0; i < g->n_freq; i++) {
        const struct freq_weights *w = &of->freq[i];
        const bool last = i + 1 == g->n_freq;
        OP(OP_LINEAR, .of = LINEAR_OF_NORM, .x = i ? y : x, .y = MAP_UNTAPPED, .linear = &w->gate);
        OP(OP_DEPTHWISE, .x = MAP_UNTAPPED, .y = MAP_GATE, .n_taps = 3, .taps = w->gate_taps);
        OP(OP_ATTEND, .x = MAP_GATE, .room = MAP_FACTOR, .y = MAP_PRODUCT, .linear = &w->attention);
        OP(OP_LINEAR, .x = MAP_PRODUCT, .add = i ? y : x, .y = y, .linear = &w->proj);
        OP(OP_LINEAR, .of = LINEAR_OF_NORM, .x = y, .y = MAP_CHUNKS, .linear = &w->up);
        for (unsigned k = 0; k < g->n_kernels; k++)
            OP(OP_PRIME, .index = k, .x = MAP_CHUNKS, .room = MAP_PRODUCT, .y = MAP_PRIMES, .n_taps = g->kernels[k],
               .taps = w->prime[k].taps, .mixed_taps = w->prime[k].mixed_taps, .linear = &w->prime[k].mix);
        OP(OP_LINEAR, .of = LINEAR_OF_CONVS, .x = MAP_PRIMES, .add = y, .skip = last ? x : MAP_NONE,
           .blend = last ? of->freq_skip : NULL, .y = y, .linear = &w->down);
    }
}

/* Dense block, transposed convolution (kernel 3, stride 2: even positions see two, odd ones see one), output head. */
static void decoder(struct build *b, const struct dense_weights *w, const struct up_weights *up, unsigned x,
                    unsigned y) {
    dense(b, w, x, b->config->n_half, MAP_DECODED);
    OP(OP_LINEAR, .x = MAP_DECODED, .x_row = -1, .y = MAP_FULL, .y_step = 2, .linear = &up->even, .prelu = up->prelu);
    OP(OP_LINEAR, .x = MAP_DECODED, .y = MAP_FULL, .y_row = 1, .y_step = 2, .linear = &up->odd, .prelu = up->prelu);
    OP(OP_LINEAR, .x = MAP_FULL, .y = y, .linear = &up->head);
}

static void network(struct build *b, const struct weights *w) {
    const struct model_config *g = b->config;
    shared_maps(b);
    const unsigned embedded = ring(b, g->n_positions), mixed = ring(b, g->n_half);
    stage(b, STAGE_EMBED, 0);
    OP(OP_LINEAR, .x = MAP_FEATURES, .y = embedded, .linear = &w->embed, .prelu = w->embed_prelu);
    stage(b, STAGE_ENCODER, 0);
    dense(b, w->encoder, embedded, g->n_positions, MAP_ENCODED);
    stage(b, STAGE_DOWN, 0);
    OP(OP_LINEAR, .x = MAP_ENCODED, .x_step = 2, .y = MAP_TIME, .linear = &w->down, .prelu = w->down_prelu);
    for (unsigned i = 0; i < g->n_blocks; i++) {
        stage(b, STAGE_TIME, i);
        time_stage(b, &w->blocks[i], MAP_TIME, MAP_FREQ);
        stage(b, STAGE_FREQ, i);
        freq_stage(b, &w->blocks[i], MAP_FREQ, i + 1 < g->n_blocks ? (unsigned)MAP_TIME : mixed);
    }
    stage(b, STAGE_MASK, 0);
    decoder(b, w->mask, &w->mask_up, mixed, MAP_MASK);
    stage(b, STAGE_PHASE, 0);
    decoder(b, w->phase, &w->phase_up, mixed, MAP_ROTATION);
}

/* ---- the plan ---- */

int plan_new(struct plan **ret, const struct model *model) {
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->config = model_config(model);
    p->mask_slope = model_weights(model)->mask_slope;
    for (unsigned pass = 0; pass < 2; pass++) {
        struct build b = {.plan = p, .config = p->config};
        if (pass && !((p->ops = calloc(p->n_ops, sizeof *p->ops)) && (p->maps = calloc(p->n_maps, sizeof *p->maps)))) {
            plan_free(p);
            return -ENOMEM;
        }
        p->n_ops = p->n_maps = 0;
        network(&b, model_weights(model));
    }
    *ret = p;
    return 0;
}

void plan_free(struct plan *p) {
    if (!p)
        return;
    free(p->ops);
    free(p->maps);
    free(p);
}

const struct op *plan_stage(const struct plan *p, enum plan_stage stage, unsigned block, unsigned *n) {
    const struct op *first = p->ops, *end = p->ops + p->n_ops;
    while (first < end && (first->stage != stage || first->block != block))
        first++;
    *n = 0;
    while (first + *n < end && first[*n].stage == stage && first[*n].block == block)
        ++*n;
    return first;
}
