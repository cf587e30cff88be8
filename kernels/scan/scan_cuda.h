/* scan_cuda.h - the selective scan of scan.h on a GPU, over many frames (selective_scan), including the linear layer
 * that gives the step sizes:
 *   dt = log(1 + exp(bias[d] + sum_i select[2 n_states + i] step[i][d])), the rest as in scan.h.
 *
 * Strides are multiples of 4, n_channels is a multiple of 16. Results and state do not depend on how frames are divided
 * into calls. All pointers are device pointers. */
#ifndef PRIMEKNET_SCAN_CUDA_H
#define PRIMEKNET_SCAN_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SCAN_CUDA_STATES = 64, SCAN_CUDA_RANK = 64 }; /* at most */

struct scan_cuda {
    unsigned n_frames, n_rows, n_channels, n_states, rank; /* n_states: 16, 32, 48 or 64 */
    const float *u;                                        /* [n_frames * n_rows][n_channels] */
    const float *select; /* [n_frames * n_rows][select_stride]: B, C, input of `step` */
    size_t select_stride;
    const float *step, *bias; /* [rank][n_channels], [n_channels] */
    const float *z;           /* [n_frames * n_rows][z_stride] */
    size_t z_stride;
    const float *decay; /* [n_channels][n_states], times log2 e */
    const float *pass;  /* [n_channels] */
    float *h;           /* [n_rows][n_channels][n_states]: the state */
    float *y;           /* [n_frames * n_rows][n_channels]; may be u */
};

void scan_cuda(const struct scan_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
