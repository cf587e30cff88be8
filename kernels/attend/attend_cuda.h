/* attend_cuda.h - the gate and the factors of attend.h on a GPU, for many frames:
 *   y[r][c] = the product of sum_k x[r + k - 1][c] taps[k][c] and the same of channel n_channels + c,
 *   factor[f] = bias + weight . (mean over r of y[f][r]),
 * with zeros beyond a frame's edges. All pointers are device pointers. */
#ifndef PRIMEKNET_ATTEND_CUDA_H
#define PRIMEKNET_ATTEND_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEND_CUDA_CHANNELS = 256 }; /* at most */

struct attend_cuda {
    unsigned n_frames, n_rows, n_channels, weight_stride; /* n_channels is a multiple of 16 */
    const float *weight;                                  /* [n_channels of y][weight_stride], as in linear_cuda.h */
    const float *bias;                                    /* [n_channels] */
    const float *x;                                       /* [n_frames][n_rows][2 n_channels] */
    const float *taps;                                    /* [3][2 n_channels] */
    float *y;                                             /* [n_frames][n_rows][n_channels] */
    float *factor;                                        /* [n_frames][n_channels] */
};

void attend_cuda(const struct attend_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
