#include "kernels/conv/conv_cuda.h"

namespace {

enum { THREADS = 256 };

__device__ float silu(float v) {
    return v / (1 + expf(-v));
}

/* One thread per four channels of a row. */
__global__ __launch_bounds__(THREADS) void conv(const __grid_constant__ struct conv_cuda a) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, n = a.n_channels / 4, row = at / n;
    const unsigned c = (unsigned)(at % n) * 4;
    if (row >= (size_t)a.n_frames * a.n_rows)
        return;
    float4 sum = *(const float4 *)(a.bias + c);
    for (unsigned t = 0; t < a.n_taps; t++) {
        const size_t back = (size_t)(a.n_taps - 1 - t) * a.n_rows; /* in rows */
        const float *from = row >= back ? a.x + (row - back) * a.x_stride
                                        : a.past + (row + (size_t)(a.n_taps - 1) * a.n_rows - back) * a.n_channels;
        const float4 v = *(const float4 *)(from + c), w = *(const float4 *)(a.taps + t * a.n_channels + c);
        sum.x += v.x * w.x, sum.y += v.y * w.y, sum.z += v.z * w.z, sum.w += v.w * w.w;
    }
    *(float4 *)(a.y + row * a.n_channels + c) = make_float4(silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w));
}

} // namespace

void conv_cuda(const struct conv_cuda *a, cudaStream_t stream) {
    size_t n = (size_t)a->n_frames * a->n_rows * a->n_channels / 4;
    conv<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*a);
}
