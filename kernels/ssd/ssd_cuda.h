/* ssd_cuda.h - Mamba-2's recurrence of ssd.h on a GPU, over many frames. Results and state do not depend on how frames
 * are divided into calls. All pointers are device pointers. */
#ifndef PRIMEKNET_SSD_CUDA_H
#define PRIMEKNET_SSD_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ssd_cuda {
    unsigned n_frames, n_rows, n_channels, head_dim, n_states; /* n_states: 16, 32, 48 or 64 */
    float epsilon;
    const float *u; /* [n_frames * n_rows][u_stride]: u, B, C */
    size_t u_stride;
    const float *step, *z; /* [n_frames * n_rows][z_stride]; step: before its softplus, one number per head */
    size_t z_stride;
    const float *decay, *pass; /* [heads]; decay times log2 e */
    float *h;                  /* [n_rows][n_channels][n_states]: the state */
    float *y;                  /* [n_frames * n_rows][n_channels]; may not be u */
};

void ssd_cuda(const struct ssd_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
