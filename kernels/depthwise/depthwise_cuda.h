/* depthwise_cuda.h - the convolutions of depthwise.h on a GPU, for many frames at once. Taps beyond a frame's edges see
 * zeros. All pointers are of the device; channels are multiples of 16.
 *
 * dense_cuda: what a dense block (docs/model-format.md) does before its linear layer: 3 x 3 over the maps so far, 2^layer
 * frames apart, latest map first:
 *   y[f][r][(layer - j) C + c] = sum_t sum_k map_j[f - (2 - t) 2^layer][r + k - 1][c] taps[t][k][(layer - j) C + c],
 * frames before the first being the last of past_j, oldest first.
 * over_frequency_cuda: one frame at a time, y[r] = times[r] sum_k x[r + k - n_taps / 2] taps[k]; with `gate`, y has half
 * the channels: the product of the halves. */
#ifndef PRIMEKNET_DEPTHWISE_CUDA_H
#define PRIMEKNET_DEPTHWISE_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
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
    float *y;                           /* [n_frames][n_rows][(layer + 1) * n_channels] */
};

struct over_frequency_cuda {
    unsigned n_frames, n_rows, n_channels, n_taps;
    const float *x; /* [n_frames * n_rows][x_stride] */
    size_t x_stride;
    const float *taps;  /* [n_taps][n_channels] */
    const float *times; /* [n_frames * n_rows][n_channels], or NULL */
    bool gate;
    float *y; /* [n_frames * n_rows][y_stride] */
    size_t y_stride;
};

void dense_cuda(const struct dense_cuda *a, cudaStream_t stream);
void over_frequency_cuda(const struct over_frequency_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
