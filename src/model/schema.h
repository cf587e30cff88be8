/* schema.h - the table of all tensors in a model file: field in struct weights, name in the file, mixers that have it,
 * shape. docs/model-format.md has the formulas. The reader checks a file against these rows and fills in struct
 * weights, from which each engine packs its own weights. A new tensor takes one new row.
 *
 * Rows of a part: T(field, name, when, shape...)       a tensor, row-major float32
 *                 L(field, name, when, n_out, n_in)    a linear layer y = weight x + bias: NAME.weight, NAME.bias
 *                 M(field, name, when, n_out, n_in)    a linear layer without a bias: NAME.weight
 * The full name is the part's name, a dot, and `name`; "" means the part's name alone. `when` says which mixers have
 * the tensor: ANY, CONVOLVED (Mamba and Mamba-2), MAMBA, MAMBA2, GRU or LSTM; VOICED: any, in models that take a print.
 * Shapes use the configuration g and a
 * number n: the index of a dense layer or prime kernel within its part, or the number of outputs of an `up` head. */
#ifndef PRIMEKNET_SCHEMA_H
#define PRIMEKNET_SCHEMA_H

#include "model/safetensors.h"

#include <stddef.h>

struct model_config;

enum {
    MODEL_MAX_BANDS = 256,
    MODEL_MAX_KERNELS = 8,
    MODEL_MAX_DEPTH = 5,
    MODEL_MAX_BLOCKS = 16,
    MODEL_MAX_LAYERS = 4,
    MODEL_MAX_NETWORKS = 4,
    MODEL_MAX_VOICE = 1024
};

/* Parts that occur once. */
#define SCHEMA_NETWORK(T, L, M) \
    T(analysis_window, "window.analysis", ANY, g->window) \
    T(synthesis_window, "window.synthesis", ANY, g->synthesis) \
    L(embed, "embed", ANY, g->channels, 3) /* features to channels, at each position */ \
    T(embed_prelu, "embed.prelu", ANY, g->channels) \
    L(down, "down", ANY, g->channels, 3 * g->channels) /* convolution over frequency, stride 2 */ \
    T(down_prelu, "down.prelu", ANY, g->channels) \
    T(mask_slope, "mask.slope", ANY, g->n_positions)

/* encoder.n, mask.n, phase.n: layer n of a dense block of dilated depthwise-separable convolutions (DS_DDB). */
#define SCHEMA_DENSE(T, L, M) \
    T(taps, "taps", ANY, 3, 3, (n + 1) * g->channels) /* [time, oldest first][frequency], over the maps so far */ \
    L(mix, "", ANY, g->channels, (n + 1) * g->channels) \
    T(prelu, "prelu", ANY, g->channels)

/* mask.up, phase.up: transposed convolution over frequency, stride 2, then the decoder's head. */
#define SCHEMA_UP(T, L, M) \
    L(even, "even", ANY, g->channels, 2 * g->channels) /* its inputs are two positions */ \
    L(odd, "odd", ANY, g->channels, g->channels) \
    T(prelu, "prelu", ANY, g->channels) /* after both */ \
    L(head, "head", ANY, n, g->channels)

/* block.B: the channel weights of the skip connections around the time stage and the frequency stage. */
#define SCHEMA_BLOCK(T, L, M) \
    T(time_skip, "time.skip", ANY, g->channels) \
    T(freq_skip, "freq.skip", ANY, g->channels)

/* block.B.time.I */
#define SCHEMA_TIME(T, L, M) \
    L(gate, "gate", ANY, 2 * g->channels, g->channels) \
    L(proj, "proj", ANY, g->channels, g->channels) \
    L(in, "in", ANY, model_mixer_in(g), g->channels)          /* to the mixer */ \
    M(voice, "voice", VOICED, 2 * g->channels, g->voice_size) /* a print to scales and shifts of its input */ \
    T(conv_taps, "conv.taps", CONVOLVED, g->d_conv, model_convolved(g)) /* oldest first */ \
    T(conv_bias, "conv.bias", CONVOLVED, model_convolved(g)) \
    M(select, "select", MAMBA, 2 * g->d_state + g->step_rank, g->d_inner) /* B, C, step */ \
    L(step, "step", MAMBA, g->d_inner, g->step_rank) \
    T(decay, "decay", MAMBA, g->d_inner, g->d_state) /* A of the selective scan, never positive */ \
    T(pass, "pass", MAMBA, g->d_inner)               /* D of the selective scan */ \
    T(head_decay, "decay", MAMBA2, g->d_inner / g->head_dim) \
    T(head_pass, "pass", MAMBA2, g->d_inner / g->head_dim) \
    L(gru_state, "state", GRU, 3 * g->channels, g->channels) \
    M(lstm_state, "state", LSTM, 4 * g->channels, g->channels) \
    L(out, "out", ANY, g->channels, g->d_inner) /* from the mixer */

/* block.B.freq.I */
#define SCHEMA_FREQ(T, L, M) \
    L(gate, "gate", ANY, 2 * g->channels, g->channels) \
    T(gate_taps, "gate.taps", ANY, 3, 2 * g->channels) \
    L(attention, "attention", ANY, g->channels, g->channels) \
    L(proj, "proj", ANY, g->channels, g->channels) \
    L(up, "up", ANY, g->n_kernels * g->channels, g->channels) \
    L(down, "down", ANY, g->channels, g->n_kernels * g->channels)

/* block.B.freq.I.prime.n: one of the prime kernels. */
#define SCHEMA_PRIME(T, L, M) \
    T(mixed_taps, "mixed.taps", ANY, g->kernels[n], g->channels) /* of the branch that passes through `mix` */ \
    T(taps, "taps", ANY, g->kernels[n], g->channels) \
    L(mix, "", ANY, g->channels, g->channels)

struct linear_weights {
    unsigned n_out, n_in;
    const float *weight, *bias; /* [n_out][n_in], [n_out]; bias may be NULL */
};

#define SCHEMA_TENSOR_FIELD(field, ...) const float *field;
#define SCHEMA_LINEAR_FIELD(field, ...) struct linear_weights field;
#define SCHEMA_FIELDS(PART) PART(SCHEMA_TENSOR_FIELD, SCHEMA_LINEAR_FIELD, SCHEMA_LINEAR_FIELD)

struct dense_weights {
    SCHEMA_FIELDS(SCHEMA_DENSE)
};
struct up_weights {
    SCHEMA_FIELDS(SCHEMA_UP)
};
struct time_weights {
    SCHEMA_FIELDS(SCHEMA_TIME)
};
struct prime_weights {
    SCHEMA_FIELDS(SCHEMA_PRIME)
};
struct freq_weights {
    SCHEMA_FIELDS(SCHEMA_FREQ)
    struct prime_weights prime[MODEL_MAX_KERNELS];
};
struct block_weights {
    SCHEMA_FIELDS(SCHEMA_BLOCK)
    struct time_weights time[MODEL_MAX_LAYERS];
    struct freq_weights freq[MODEL_MAX_LAYERS];
};
/* Tensors that a configuration lacks are NULL. */
struct weights {
    SCHEMA_FIELDS(SCHEMA_NETWORK)
    struct dense_weights encoder[MODEL_MAX_DEPTH], mask[MODEL_MAX_DEPTH], phase[MODEL_MAX_DEPTH];
    struct up_weights mask_up, phase_up;
    struct block_weights blocks[MODEL_MAX_BLOCKS];
};

/* Calls `visit` for each tensor of the configuration, with its name in the file, its shape (terminated by 0) and the
 * field that is to point to its data. Sets n_out and n_in of the linear layers. */
typedef void schema_visit(void *data, const char *name, const size_t shape[TENSOR_MAX_DIMS + 1], const float **field);
void schema_walk(const struct model_config *g, struct weights *weights, schema_visit *visit, void *data);

#endif
