/* linear_cuda.h - the linear layer of linear.h on a GPU, for many frames at once, with what stands around it in the
 * network fused in:
 *   v = x, or its layer norm (norm.h), or x * scale;  y = f(bias + weight v) + add + blend * skip,
 * f being prelu or nothing, or the product of neighbours: gate's first output is that of the first two sums, and so on.
 *
 * A map's row r of frame f is at f * frame + r * stride; rows of x may overlap. y may be add or skip; it may not be x.
 * Vectors of four are read and written: a map's frame and stride, n_in and n_out are multiples of 4, but n_in of at most 16
 * and n_out of at most 3 may be any, and so the maps' then. All pointers are of the device. Each product is three of tensor
 * cores (multiply.cuh), which take inputs and weights up to 4094. The result of a row depends neither on the other rows nor
 * on their number. */
#ifndef PRIMEKNET_LINEAR_CUDA_H
#define PRIMEKNET_LINEAR_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct linear_cuda {
    unsigned n_frames, n_rows, n_in, n_out; /* n_out: weight's, before `gate` halves it */
    const float *x;
    size_t x_frame, x_stride;
    float norm_epsilon;          /* 0: no norm */
    const float *scale;          /* [n_frames][n_in], or NULL; not with a norm */
    const float *weight;         /* as linear_cuda_put packs it */
    const float *bias;           /* [linear_cuda_width(n_out)] */
    const float *prelu;          /* the same, or NULL */
    bool gate;
    const float *add;            /* or NULL */
    size_t add_frame, add_stride;
    const float *skip, *blend;   /* skip is laid out as add, blend is [n_out]; or NULL */
    float *y;
    size_t y_frame, y_stride;
};

static inline unsigned linear_cuda_width(unsigned n_out) {
    return (n_out + 31) / 32 * 32;
}

/* Packed weights: how many floats' room they take, and how an output's go there, on the host; what is not put is to be 0. */
size_t linear_cuda_size(unsigned n_in, unsigned n_out);
void linear_cuda_put(float *packed, unsigned n_in, unsigned n_out, unsigned output, const float *weight);

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
