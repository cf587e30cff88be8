/* linear_cuda.h - the linear layer of linear.h on a GPU, for many frames, fused with its neighbours in the network:
 *   v = x, or its layer norm (linear.h), or x * scale;  y = f(bias + weight v) + add + blend * skip,
 * where f is prelu, or nothing, or with `gate` the product of neighbours: the first output is that of the first two
 * sums, and so on.
 *
 * Row r of frame f starts at f * frame + r * stride; rows of x may overlap. y may be add or skip, but not x. Memory is
 * accessed in vectors of four, so the maps' frames and strides, n_in and n_out are multiples of 4. Exceptions: n_in of
 * at most 16 and n_out of at most 3, with their maps. All pointers are device pointers. Each product is three on tensor
 * cores (multiply.cuh), which clip weights at 65504. A row's result depends neither on other rows nor on their
 * number. */
#ifndef PRIMEKNET_LINEAR_CUDA_H
#define PRIMEKNET_LINEAR_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct linear_cuda {
    unsigned n_frames, n_rows, n_in, n_out; /* n_out: outputs of weight, before `gate` halves them */
    const float *x;
    size_t x_frame, x_stride;
    float norm_epsilon;  /* 0 means no norm */
    const float *scale;  /* [n_frames][n_in], or NULL; not together with a norm */
    const float *weight; /* packed by linear_cuda_put */
    const float *bias;   /* [linear_cuda_width(n_out)] */
    const float *prelu;  /* likewise; may be NULL */
    bool gate;
    const float *add; /* may be NULL */
    size_t add_frame, add_stride;
    const float *skip, *blend; /* skip is laid out like add, blend is [n_out]; both may be NULL */
    float *y;
    size_t y_frame, y_stride;
};

static inline unsigned linear_cuda_width(unsigned n_out) {
    return (n_out + 31) / 32 * 32;
}

/* Tiles of 8 outputs in a stage. */
static inline unsigned linear_cuda_tiles(unsigned n_out) {
    return n_out >= 64 ? 8 : (n_out + 15) / 16 * 2;
}

/* Return the floats that packed weights take; store one output's weights there, in host memory that starts as zeros. */
size_t linear_cuda_size(unsigned n_in, unsigned n_out);
void linear_cuda_put(float *packed, unsigned n_in, unsigned n_out, unsigned output, const float *weight);

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream);

/* Three or two layers in a row, for maps of C = 16, 32 or 64 channels [n_frames * n_rows][C]:
 *   v = gate(norm(x)), or factor * product;  y = x + proj(v);  z = out(norm(y)), 4 C outputs.
 * After a gate, input i of proj is packed as input linear_chain_cuda_input(i). y may be x. */
struct linear_chain_cuda {
    unsigned n_frames, n_rows, n_channels;
    float norm_epsilon;
    const float *x;
    const float *gate, *gate_bias; /* gate is NULL if there is none */
    const float *product, *factor; /* without a gate: [n_frames * n_rows][C], [n_frames][C] */
    const float *proj, *proj_bias, *out, *out_bias;
    float *y, *z;
};

enum { LINEAR_CHAIN_CUDA_CHANNELS = 64 }; /* at most */

static inline bool linear_chain_cuda_fits(unsigned n_channels, unsigned n_out) {
    return (n_channels == 16 || n_channels == 32 || n_channels == 64) && n_out == 4 * n_channels;
}

/* A lane computes outputs 2 t and 2 t + 1 of each eight gate outputs, but needs inputs 4 t to 4 t + 3 of each 16. */
static inline unsigned linear_chain_cuda_input(unsigned i) {
    return i / 16 * 16 + i % 8 / 2 * 4 + i % 16 / 8 * 2 + i % 2;
}

void linear_chain_cuda(const struct linear_chain_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
