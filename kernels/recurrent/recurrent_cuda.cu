/* One block per position, from the first frame to the last; one thread per gate of each channel, with its weights in
 * registers if they fit. The state is in shared memory, and the next frame's input is being loaded. */
#include "kernels/recurrent/recurrent_cuda.h"

namespace {

enum { MOST = 256 }; /* channels */

__device__ float sigmoid(float v) {
    return 1 / (1 + expf(-v));
}

/* CHANNELS is 0 if the weights do not fit in registers. */
template <int GATES, int CHANNELS>
__global__ __launch_bounds__(GATES *(CHANNELS ? CHANNELS
                                              : MOST)) void recur(const __grid_constant__ struct recurrent_cuda a) {
    __shared__ __align__(16) float state[MOST];
    __shared__ float gates[4 * MOST]; /* in a GRU the last part is the input's share of the third gate */
    const unsigned n = CHANNELS ? CHANNELS : a.n_channels, row = blockIdx.x, o = threadIdx.x, width = GATES * n;
    const size_t at = (size_t)row * n + o;
    const float bias = GATES == 3 ? a.bias[o] : 0;
    float weight[CHANNELS ? CHANNELS : 1], h = 0, cell = 0;
#pragma unroll
    for (int k = 0; k < CHANNELS; k++)
        weight[k] = a.weight[k * a.weight_stride + o];
    if (o < n) {
        state[o] = h = a.h[at];
        cell = GATES == 4 ? a.cell[at] : 0;
    }
    float next = a.in[(size_t)row * width + o];
    __syncthreads();
    for (unsigned f = 0; f < a.n_frames; f++) {
        const float in = next;
        if (f + 1 < a.n_frames)
            next = a.in[((size_t)(f + 1) * a.n_rows + row) * width + o];
        float sum[4] = {bias, 0, 0, 0};
        if (CHANNELS) {
#pragma unroll
            for (int k = 0; k < CHANNELS; k += 4) {
                const float4 s = *(const float4 *)(state + k);
                sum[0] += s.x * weight[k], sum[1] += s.y * weight[k + 1];
                sum[2] += s.z * weight[k + 2], sum[3] += s.w * weight[k + 3];
            }
        } else
            for (unsigned k = 0; k < n; k += 4)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[i] += state[k + i] * a.weight[(k + i) * a.weight_stride + o];
        const float mine = sum[0] + sum[1] + (sum[2] + sum[3]);
        if (GATES == 3 && o >= 2 * n) {
            gates[o] = mine;
            gates[o + n] = in;
        } else
            gates[o] = in + mine;
        __syncthreads();
        if (o < n) {
            if (GATES == 3) {
                const float keep = sigmoid(gates[n + o]);
                const float fresh = tanhf(gates[3 * n + o] + sigmoid(gates[o]) * gates[2 * n + o]);
                h = (1 - keep) * fresh + keep * h;
            } else {
                cell = sigmoid(gates[n + o]) * cell + sigmoid(gates[o]) * tanhf(gates[2 * n + o]);
                h = sigmoid(gates[3 * n + o]) * tanhf(cell);
            }
            state[o] = h;
            a.y[((size_t)f * a.n_rows + row) * n + o] = h;
        }
        __syncthreads();
    }
    if (o < n) {
        a.h[at] = h;
        if (GATES == 4)
            a.cell[at] = cell;
    }
}

template <int GATES> void launch(const struct recurrent_cuda *a, cudaStream_t stream) {
    switch (a->n_channels) {
    case 16: recur<GATES, 16><<<a->n_rows, GATES * 16, 0, stream>>>(*a); break;
    case 32: recur<GATES, 32><<<a->n_rows, GATES * 32, 0, stream>>>(*a); break;
    case 64: recur<GATES, 64><<<a->n_rows, GATES * 64, 0, stream>>>(*a); break;
    default: recur<GATES, 0><<<a->n_rows, GATES * a->n_channels, 0, stream>>>(*a); break;
    }
}

} // namespace

void gru_cuda(const struct recurrent_cuda *a, cudaStream_t stream) {
    launch<3>(a, stream);
}

void lstm_cuda(const struct recurrent_cuda *a, cudaStream_t stream) {
    launch<4>(a, stream);
}
