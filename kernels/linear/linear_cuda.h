/* linear_cuda.h - the linear layer of linear.h on a GPU, for many frames, fused with its neighbours in the network:
 *   v = x, or its layer norm (linear.h), or x * scale;  y = f(bias + weight v) + add + blend * skip,
 * where f is prelu, or nothing, or with `gate` the product of neighbours: the first output is that of the first two
 * sums, and so on.
 *
 * Row r of frame f starts at f * frame + r * stride; rows of x may overlap. y may be add or skip, but not x. Memory is
 * accessed in vectors of four, so the maps' frames and strides, n_in and n_out are multiples of 4. Exceptions: n_in of
 * at most 16 and n_out of at most 3, with their maps. All pointers are device pointers. Each product is three on tensor
 * cores (multiply.cuh), which clip inputs and weights at 4094. A row's result depends neither on other rows nor on
 * their number. */
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
    float norm_epsilon;          /* 0 means no norm */
    const float *scale;          /* [n_frames][n_in], or NULL; not together with a norm */
    const float *weight;         /* packed by linear_cuda_put */
    const float *bias;           /* [linear_cuda_width(n_out)] */
    const float *prelu;          /* likewise; may be NULL */
    bool gate;
    const float *add;            /* may be NULL */
    size_t add_frame, add_stride;
    const float *skip, *blend;   /* skip is laid out like add, blend is [n_out]; both may be NULL */
    float *y;
    size_t y_frame, y_stride;
};

static inline unsigned linear_cuda_width(unsigned n_out) {
    return (n_out + 31) / 32 * 32;
}

/* The floats that packed weights take, and how to store one output's weights there, in host memory. The rest must be
 * 0. */
size_t linear_cuda_size(unsigned n_in, unsigned n_out);
void linear_cuda_put(float *packed, unsigned n_in, unsigned n_out, unsigned output, const float *weight);

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
