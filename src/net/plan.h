/* plan.h - the network as a list of operations over numbered maps: causal PrimeKnet-Mamba (PrimeK-Net: Lin et al.,
 * arXiv 2502.19906; Mamba: Gu & Dao, arXiv 2312.00752). docs/model-format.md has the formulas.
 *
 * A map is [positions][channels] in each frame. An engine runs the operations one after another, for one frame or many.
 * It decides how it packs weights and stores maps, and may run neighbouring operations as one. The network ends with
 * the mask before its sigmoid, and the rotation.
 *
 * A plan is immutable, so any thread may read it. It points to its model's weights; the model must outlive it. */
#ifndef PRIMEKNET_PLAN_H
#define PRIMEKNET_PLAN_H

#include "kernels/linear/linear.h"
#include "model/model.h"

/* ---- maps ---- */

enum map_storage {
    MAP_SCRATCH, /* of the current frame */
    MAP_INPUT,   /* of the network */
    MAP_OUTPUT,  /* of the network */
    MAP_RING,    /* of a stream: the current frame and n_past earlier ones */
    MAP_STATE,   /* of a stream: n_past earlier frames; one operation keeps them, in the order that its kernel wants */
};

struct map {
    enum map_storage storage;
    unsigned n_rows, n_channels;
    unsigned margin; /* operations read this many rows before the first and after the last; these are zeros */
    unsigned n_past;
};

/* The maps that all layers share, by number; plan.c has their shapes. A stream's rings and states have the numbers from
 * MAP_KEPT on. */
enum {
    MAP_NONE,
    MAP_FEATURES, /* the input */
    MAP_ENCODED,  /* after the encoder, at full resolution */
    MAP_TIME,     /* the input of a time stage */
    MAP_FREQ,     /* the input of a frequency stage */
    MAP_GATE,     /* both halves of a gate */
    MAP_IN,       /* the mixer's input: u (also B and C), z, step sizes or gates */
    MAP_U,        /* u (also B and C) after the convolution */
    MAP_SELECT,   /* B, C and the input of the step size */
    MAP_STEP,     /* Mamba: step sizes; GRU: the state's part of its gates */
    MAP_MIXED,    /* the output of mixers other than Mamba, which overwrites u */
    MAP_UNTAPPED, /* a frequency layer's gate before its convolution */
    MAP_PRODUCT,  /* the gate's product, times the attention */
    MAP_FACTOR,   /* the attention, one row */
    MAP_CHUNKS,   /* a chunk of channels for each prime kernel */
    MAP_PRIMES,   /* the same after the kernels */
    MAP_DECODED,  /* after a decoder's dense block */
    MAP_FULL,     /* the same at full resolution */
    MAP_MASK,     /* the outputs */
    MAP_ROTATION,
    MAP_KEPT
};

/* ---- operations ---- */

/* Each has a formula in kernels/. */
enum op_kind {
    OP_LINEAR,    /* linear.h: x -> y. `of` is a map, its norm, its gate or, after OP_PRIME, its convolutions */
    OP_DENSE,     /* layer `index` of a dense block: depthwise.h in time and frequency over the rings x and z, z + 1,
                   * ... z + index - 1, whose frames are 2^index apart, then linear.h -> y */
    OP_DEPTHWISE, /* depthwise.h over frequency: x -> y */
    OP_ATTEND,    /* attend.h: x -> y; an engine may leave the factors in `room` to the reader of y */
    OP_PRIME,     /* chunk `index` of x -> chunk of y: depthwise.h times linear.h of depthwise.h with mixed_taps */
    OP_CONV,      /* conv.h: x -> y; state: the past */
    OP_SCAN,      /* scan.h after linear.h: u in x, step sizes from `select`, z after the channels of u in z -> y */
    OP_SSD,       /* ssd.h: u in x, z and step sizes after the channels of x in z -> y */
    OP_GRU,       /* gru.h after linear.h of its state: x -> y */
    OP_LSTM,      /* lstm.h after linear.h of its state, added to x -> y; cell */
};

enum plan_stage { STAGE_EMBED, STAGE_ENCODER, STAGE_DOWN, STAGE_TIME, STAGE_FREQ, STAGE_MASK, STAGE_PHASE };

/* Maps, tensors and numbers that an operation lacks are 0. */
struct op {
    enum op_kind kind;
    enum plan_stage stage;
    unsigned block, index;
    enum linear_of of;
    unsigned x, y, z, select, room, state, cell; /* maps; the operation overwrites `room` */
    unsigned add, skip;                          /* maps: y = ... + add + blend * skip */
    int x_row;                                   /* the row of x that row 0 reads, -1 is in the margin */
    unsigned x_step, y_row, y_step;              /* rows of x between rows; the rows of y that are written */
    unsigned n_taps;                             /* over frequency or, in OP_CONV, over time */
    const struct linear_weights *linear;
    const float *prelu, *blend, *taps, *mixed_taps, *bias, *decay, *pass; /* shapes: schema.h */
};

struct plan {
    const struct model_config *config;
    const float *mask_slope; /* [n_positions]: of the mask's sigmoid */
    struct op *ops;          /* [n_ops] */
    struct map *maps;        /* [n_maps] */
    unsigned n_ops, n_maps;
};

/* How many rows the operation writes. */
static inline unsigned op_rows(const struct plan *p, const struct op *op) {
    return (p->maps[op->y].n_rows - op->y_row + op->y_step - 1) / op->y_step;
}

/* The maps that OP_DENSE reads: j is at most index, and 0 the block's input. */
static inline unsigned op_dense_map(const struct op *op, unsigned j) {
    return j ? op->z + j - 1 : op->x;
}

/* Returns 0 or -ENOMEM. */
int plan_new(struct plan **ret, const struct model *model);
void plan_free(struct plan *p); /* p may be NULL */

/* Returns the first operation of a stage, and sets *n to how many the stage has. */
const struct op *plan_stage(const struct plan *p, enum plan_stage stage, unsigned block, unsigned *n);

#endif
