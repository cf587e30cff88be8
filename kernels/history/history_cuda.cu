#include "kernels/history/history_cuda.h"

#include "kernels/overlap.cuh"

namespace {

enum { THREADS = 256 };

/* One thread per four channels of a row, in all frames of `past`: it reads what it shifts before overwriting it. */
__global__ __launch_bounds__(THREADS) void history(const __grid_constant__ struct history_cuda a) {
    const unsigned at = blockIdx.x * THREADS + threadIdx.x, n = a.n_channels / 4, row = at / n, c = at % n * 4;
    if (row >= a.n_rows)
        return;
    await();
    for (unsigned p = 0; p < a.n_past; p++) {
        const unsigned from = p + a.n_frames; /* counted from the oldest frame of `past` */
        const float *x = from < a.n_past ? a.past + ((size_t)from * a.n_rows + row) * a.n_channels
                                         : a.x + ((size_t)(from - a.n_past) * a.n_rows + row) * a.x_stride;
        *(float4 *)(a.past + ((size_t)p * a.n_rows + row) * a.n_channels + c) = *(const float4 *)(x + c);
    }
}

} // namespace

void history_cuda(const struct history_cuda *a, cudaStream_t stream) {
    unsigned n = a->n_rows * a->n_channels / 4;
    start(history, (n + THREADS - 1) / THREADS, THREADS, 0, stream, *a);
}
