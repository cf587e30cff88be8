#include "kernels/conv/conv_cuda.h"

#include "kernels/linear/stages.cuh"
#include "kernels/overlap.cuh"

namespace {

enum { THREADS = 256 };

/* Warps per block, blocks per multiprocessor. */
enum { WARPS = 8, BLOCKS = 3 };

__device__ float silu(float v) {
    return v / (1 + expf(-v));
}

/* Four channels of a row, from c on. */
__device__ float4 convolved(const struct conv_cuda &a, size_t row, unsigned c) {
    float4 sum = *(const float4 *)(a.bias + c);
#pragma unroll 4
    for (unsigned t = 0; t < a.n_taps; t++) {
        const size_t back = (size_t)(a.n_taps - 1 - t) * a.n_rows; /* in rows */
        const float *from = row >= back ? a.x + (row - back) * a.x_stride
                                        : a.past + (row + (size_t)(a.n_taps - 1) * a.n_rows - back) * a.n_channels;
        const float4 v = *(const float4 *)(from + c), w = *(const float4 *)(a.taps + t * a.n_channels + c);
        sum.x += v.x * w.x, sum.y += v.y * w.y, sum.z += v.z * w.z, sum.w += v.w * w.w;
    }
    return make_float4(silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w));
}

/* One thread per four channels of a row. */
__global__ __launch_bounds__(THREADS) void conv(const __grid_constant__ struct conv_cuda a) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, n = a.n_channels / 4, row = at / n;
    const unsigned c = (unsigned)(at % n) * 4;
    if (row >= (size_t)a.n_frames * a.n_rows)
        return;
    await();
    *(float4 *)(a.y + row * a.n_channels + c) = convolved(a, row, c);
}

/* With the linear layer: a warp has 16 rows, a lane four of 16 channels in two of them (multiply.cuh), and up to 64
 * outputs, the blockIdx.y-th. */
template <int N>
__global__ __launch_bounds__(32 * WARPS, BLOCKS) void conv_linear(const __grid_constant__ struct conv_cuda a) {
    __shared__ uint4 weights[2][STAGE * N * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    const stages<N, 32 * WARPS> stages(a.weight, a.n_channels / 16, weights);
    const unsigned total = a.n_frames * a.n_rows, first = (blockIdx.x * WARPS + thread / 32) * 16 + g;
    await();
    float c[N][4] = {};
    for (unsigned step = 0; step < stages.n_steps; step++) {
        const uint4 *w = stages.next(step) + lane;
        const unsigned n_here = stages.steps_of(step);
#pragma unroll 1
        for (unsigned k = 0; k < n_here; k++) {
            const unsigned channel = 16 * (step * STAGE + k) + 4 * t;
            float4 v[2][1];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                v[i][0] = convolved(a, min(first + 8 * i, total - 1), channel);
                if (blockIdx.y == 0 && first + 8 * i < total)
                    *(float4 *)(a.y + (size_t)(first + 8 * i) * a.n_channels + channel) = v[i][0];
            }
            multiply_rows<1> rows;
            multiply_split(&rows, v);
#pragma unroll
            for (int tile = 0; tile < N; tile += 2)
                multiply<2>(&c[tile], rows, 0, w + (k * N + tile) * 32);
        }
    }
#pragma unroll
    for (int tile = 0; tile < N; tile += 2) {
        const unsigned o = 8 * (blockIdx.y * N + tile) + 4 * t;
        if (o >= a.z_stride)
            break;
        const float4 bias = *(const float4 *)(a.z_bias + o);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + 8 * i < total)
                *(float4 *)(a.z + (first + 8 * i) * a.z_stride + o) = multiply_biased(&c[tile], i, bias);
    }
}

template <int N> void launch_linear(const struct conv_cuda *a, cudaStream_t stream) {
    const unsigned n_rows = a->n_frames * a->n_rows, each = 16 * WARPS;
    start(conv_linear<N>, dim3(blocks_of(n_rows, each), blocks_of(a->n_out, 8 * N)), 32 * WARPS, 0, stream, *a);
}

} // namespace

void conv_cuda(const struct conv_cuda *a, cudaStream_t stream) {
    if (a->weight) {
        with_tiles(a->n_out, [&](auto tiles) { launch_linear<tiles.n>(a, stream); });
        return;
    }
    size_t n = (size_t)a->n_frames * a->n_rows * a->n_channels / 4;
    start(conv, (unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream, *a);
}
