/* history_cuda.h - stores the last frames of a map for a convolution over time in the next call. `past` has the oldest
 * frame first. A call with fewer than n_past frames shifts the older ones. All pointers are device pointers. */
#ifndef PRIMEKNET_HISTORY_CUDA_H
#define PRIMEKNET_HISTORY_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct history_cuda {
    unsigned n_frames, n_rows, n_channels, n_past; /* n_channels is a multiple of 16 */
    const float *x;                                /* [n_frames * n_rows][x_stride] */
    size_t x_stride;
    float *past; /* [n_past][n_rows][n_channels] */
};

void history_cuda(const struct history_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
