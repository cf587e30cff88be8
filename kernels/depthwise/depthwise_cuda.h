/* depthwise_cuda.h - the convolutions of depthwise.h on a GPU, for many frames. Frames are zero beyond their edges. All
 * pointers are device pointers; channels are multiples of 16.
 *
 * dense_cuda: a dense block's layer (docs/model-format.md), 3 x 3 over the maps so far, 2^layer frames apart, latest
 * map first, then a linear layer (linear_cuda.h) and its prelu:
 *   v[(layer - j) C + c] = sum_t sum_k map_j[f - (2 - t) 2^layer][r + k - 1][c] taps[t][k][(layer - j) C + c],
 *   y[f][r] = prelu(bias + weight v),
 * where past_j has the frames before the first, oldest first.
 *
 * over_frequency_cuda: within one frame, y[r] = times[r] sum_k x[r + k - n_taps / 2] taps[k]. */
#ifndef PRIMEKNET_DEPTHWISE_CUDA_H
#define PRIMEKNET_DEPTHWISE_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DENSE_CUDA_MAPS = 5 };

struct dense_cuda {
    unsigned n_frames, n_rows, n_channels, layer, n_past;
    const float *map[DENSE_CUDA_MAPS];  /* layer + 1 of them, [n_frames][n_rows][n_channels] */
    const float *past[DENSE_CUDA_MAPS]; /* [n_past][n_rows][n_channels] */
    const float *taps;                  /* [3][3][(layer + 1) * n_channels] */
    const float *weight, *bias, *prelu; /* of n_channels outputs, as in linear_cuda.h */
    float *y;                           /* [n_rows][n_channels], frames y_frame apart */
    size_t y_frame;
};

struct over_frequency_cuda {
    unsigned n_frames, n_rows, n_channels, n_taps;
    const float *x; /* [n_frames * n_rows][x_stride] */
    size_t x_stride;
    const float *taps;  /* [n_taps][n_channels] */
    const float *times; /* [n_frames * n_rows][n_channels]; may be NULL */
    float *y;           /* [n_frames * n_rows][y_stride] */
    size_t y_stride;
};

void dense_cuda(const struct dense_cuda *a, cudaStream_t stream);
void over_frequency_cuda(const struct over_frequency_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
