/* conv_cuda.h - the causal convolution of conv.h on a GPU, for many frames (causal_conv1d with its activation):
 * y[f][r][c] = silu(bias[c] + sum_t taps[t][c] x[f - n_taps + 1 + t][r][c]). `past` has the n_taps - 1 frames before
 * the first, oldest first. If weight is not NULL, a linear layer (linear_cuda.h) of y follows: z = z_bias + weight y.
 * All pointers are device pointers. */
#ifndef PRIMEKNET_CONV_CUDA_H
#define PRIMEKNET_CONV_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conv_cuda {
    unsigned n_frames, n_rows, n_channels, n_taps; /* n_channels is a multiple of 16 */
    const float *x;                                /* [n_frames * n_rows][x_stride] */
    size_t x_stride;
    const float *past;            /* [n_taps - 1][n_rows][n_channels] */
    const float *taps;            /* [n_taps][n_channels] */
    const float *bias;            /* [n_channels] */
    float *y;                     /* [n_frames * n_rows][n_channels] */
    const float *weight, *z_bias; /* of n_out outputs, as in linear_cuda.h; weight may be NULL */
    unsigned n_out;
    float *z; /* [n_frames * n_rows][z_stride]; z_stride is n_out, rounded up to a multiple of 4 */
    size_t z_stride;
};

void conv_cuda(const struct conv_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
