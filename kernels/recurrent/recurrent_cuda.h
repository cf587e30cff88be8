/* recurrent_cuda.h - a GRU (gru.h) or an LSTM (lstm.h) on a GPU, over many frames, including the matrix product with
 * its state: b = bias + weight h for a GRU, gates = in + weight h for an LSTM. Results and state do not depend on how
 * frames are divided into calls. All pointers are device pointers. */
#ifndef PRIMEKNET_RECURRENT_CUDA_H
#define PRIMEKNET_RECURRENT_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct recurrent_cuda {
    unsigned n_frames, n_rows, n_channels; /* n_channels: a multiple of 16, at most 256 */
    const float *in;                       /* [n_frames * n_rows][gates * n_channels]; 3 gates in a GRU, 4 in an LSTM */
    const float *weight;                   /* [n_channels][weight_stride], of which gates * n_channels are used */
    size_t weight_stride;
    const float *bias; /* [gates * n_channels]; unused by an LSTM */
    float *h, *cell;   /* [n_rows][n_channels]: the state; a GRU has no cell */
    float *y;          /* [n_frames * n_rows][n_channels] */
};

void gru_cuda(const struct recurrent_cuda *a, cudaStream_t stream);
void lstm_cuda(const struct recurrent_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
