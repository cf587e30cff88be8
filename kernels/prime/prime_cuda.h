/* prime_cuda.h - the group prime kernels of a frequency layer (docs/model-format.md) on a GPU, fused, for many frames.
 * For each chunk k of n_channels channels:
 *   y = taps_k(x) * (bias_k + weight_k mixed_taps_k(x)),
 * where both convolutions are depthwise over frequency, with zeros beyond the edges. A block holds one chunk of a frame
 * in shared memory. All pointers are device pointers. */
#ifndef PRIMEKNET_PRIME_CUDA_H
#define PRIMEKNET_PRIME_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PRIME_CUDA_KERNELS = 8 };

struct prime_cuda {
    unsigned n_frames, n_rows, n_channels, n_kernels;
    const float *x; /* [n_frames * n_rows][n_kernels * n_channels] */
    struct {
        unsigned n_taps;
        const float *mixed_taps, *taps; /* [n_taps][n_channels] */
        const float *weight, *bias;     /* as in linear_cuda.h */
    } kernel[PRIME_CUDA_KERNELS];
    float *y; /* laid out like x; may not be x */
};

/* Whether this shape fits a block of the current device: 16, 32 or 64 channels, about 100 rows. If not, use the
 * separate kernels for its parts. */
bool prime_cuda_fits(unsigned n_rows, unsigned n_channels, unsigned most_taps);
void prime_cuda(const struct prime_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
