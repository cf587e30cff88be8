#include "kernels/depthwise/depthwise_cuda.h"

#include "kernels/linear/stages.cuh"
#include "kernels/overlap.cuh"

namespace {

enum { THREADS = 256, STRIP = 8 };

/* Warps per block, blocks per multiprocessor. */
enum { DENSE_WARPS = 8, DENSE_BLOCKS = 2 };

__device__ void multiply_add(float4 *sum, float4 x, float4 w) {
    sum->x += x.x * w.x, sum->y += x.y * w.y, sum->z += x.z * w.z, sum->w += x.w * w.w;
}

/* A warp has 16 rows of the maps, one lane two rows and four channels of each 16 (multiply.cuh). The convolution of 16
 * channels goes straight into the products with all outputs, or 64 of them, the blockIdx.y-th. */
template <int N>
__global__ __launch_bounds__(32 * DENSE_WARPS, DENSE_BLOCKS) void dense(const __grid_constant__ struct dense_cuda a) {
    __shared__ uint4 weights[2][STAGE * N * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    const unsigned n = a.n_channels, width = (a.layer + 1) * n;
    const stages<N, 32 * DENSE_WARPS> stages(a.weight, width / 16, weights);

    const unsigned total = a.n_frames * a.n_rows, first = (blockIdx.x * DENSE_WARPS + thread / 32) * 16 + g;
    unsigned frame[2], row[2], from[2][3]; /* from: where a row starts, in a map or in its past */
    bool is_past[2][3];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned m = min(first + 8 * i, total - 1);
        frame[i] = m / a.n_rows;
        row[i] = m - frame[i] * a.n_rows;
#pragma unroll
        for (int f = 0; f < 3; f++) {
            const unsigned back = (2 - f) << a.layer;
            is_past[i][f] = frame[i] < back;
            from[i][f] = (((is_past[i][f] ? a.n_past : 0) + frame[i] - back) * a.n_rows + row[i]) * n;
        }
    }
    await();
    float c[N][4] = {};
    for (unsigned step = 0; step < stages.n_steps; step++) {
        const uint4 *weight = stages.next(step) + lane;
        const unsigned n_here = stages.steps_of(step);
#pragma unroll 1
        for (unsigned k = 0; k < n_here; k++) {
            const unsigned first_channel = 16 * (step * STAGE + k), back = first_channel / n, j = a.layer - back;
            const float *map = a.map[j] + first_channel - back * n + 4 * t,
                        *past = a.past[j] + first_channel - back * n + 4 * t, *taps = a.taps + first_channel + 4 * t;
            float4 v[2][1] = {};
#pragma unroll
            for (int f = 0; f < 3; f++) {
                float4 w[3];
#pragma unroll
                for (int d = 0; d < 3; d++)
                    w[d] = __ldg((const float4 *)(taps + (3 * f + d) * width));
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float *x = (is_past[i][f] ? past : map) + from[i][f];
                    const float4 zero = make_float4(0, 0, 0, 0);
                    multiply_add(&v[i][0], row[i] > 0 ? *(const float4 *)(x - n) : zero, w[0]);
                    multiply_add(&v[i][0], *(const float4 *)x, w[1]);
                    multiply_add(&v[i][0], row[i] + 1 < a.n_rows ? *(const float4 *)(x + n) : zero, w[2]);
                }
            }
            multiply_rows<1> rows;
            multiply_split(&rows, v);
#pragma unroll
            for (int tile = 0; tile < N; tile += 2)
                multiply<2>(&c[tile], rows, 0, weight + (k * N + tile) * 32);
        }
    }
#pragma unroll
    for (int tile = 0; tile < N; tile += 2) {
        const unsigned o = 8 * (blockIdx.y * N + tile) + 4 * t;
        if (o >= n)
            break;
        const float4 bias = *(const float4 *)(a.bias + o), slope = *(const float4 *)(a.prelu + o);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + 8 * i < total)
                *(float4 *)(a.y + frame[i] * a.y_frame + row[i] * n + o) = prelu(multiply_biased(&c[tile], i, bias),
                                                                                 slope);
    }
}

template <int N> void launch_dense(const struct dense_cuda *a, cudaStream_t stream) {
    const unsigned n_rows = a->n_frames * a->n_rows, each = 16 * DENSE_WARPS;
    start(dense<N>, dim3(blocks_of(n_rows, each), blocks_of(a->n_channels, 8 * N)), 32 * DENSE_WARPS, 0, stream, *a);
}

/* sum[s] = sum_k x[row + s + k - n_taps / 2] taps[k]. The rows under the taps are a ring of registers. */
__device__ void strip(float sum[STRIP], const float *x, size_t stride, int row, int n_rows, const float *taps,
                      unsigned n_taps, unsigned n_channels) {
    const int first = row - (int)n_taps / 2;
    float ring[STRIP];
#pragma unroll
    for (int s = 0; s < STRIP; s++) {
        sum[s] = 0;
        ring[s] = s + 1 < STRIP && first + s >= 0 && first + s < n_rows ? x[(first + s) * (long)stride] : 0;
    }
    for (unsigned base = 0; base < n_taps; base += STRIP)
#pragma unroll
        for (int k = 0; k < STRIP; k++) {
            if (base + k >= n_taps)
                break;
            const int r = first + (int)base + k + STRIP - 1;
            ring[(k + STRIP - 1) % STRIP] = r >= 0 && r < n_rows ? x[r * (long)stride] : 0;
            const float w = taps[(size_t)(base + k) * n_channels];
#pragma unroll
            for (int s = 0; s < STRIP; s++)
                sum[s] += ring[(k + s) % STRIP] * w;
        }
}

/* One thread per channel of y and STRIP rows of a frame. */
__global__ __launch_bounds__(THREADS) void over_frequency(const __grid_constant__ struct over_frequency_cuda a) {
    const unsigned n_strips = (a.n_rows + STRIP - 1) / STRIP;
    unsigned at = blockIdx.x * THREADS + threadIdx.x;
    const unsigned c = at % a.n_channels;
    at /= a.n_channels;
    const unsigned row = at % n_strips * STRIP, frame = at / n_strips;
    if (frame >= a.n_frames)
        return;
    const size_t first = (size_t)frame * a.n_rows;
    const float *x = a.x + first * a.x_stride + c;
    float sum[STRIP];
    await();
    strip(sum, x, a.x_stride, (int)row, (int)a.n_rows, a.taps + c, a.n_taps, a.n_channels);
#pragma unroll
    for (int s = 0; s < STRIP; s++) {
        if (row + s >= a.n_rows)
            break;
        const size_t r = first + row + s;
        a.y[r * a.y_stride + c] = a.times ? sum[s] * a.times[r * a.n_channels + c] : sum[s];
    }
}

} // namespace

void dense_cuda(const struct dense_cuda *a, cudaStream_t stream) {
    with_tiles(a->n_channels, [&](auto tiles) { launch_dense<tiles.n>(a, stream); });
}

void over_frequency_cuda(const struct over_frequency_cuda *a, cudaStream_t stream) {
    size_t n = (size_t)a->n_frames * ((a->n_rows + STRIP - 1) / STRIP) * a->n_channels;
    start(over_frequency, (unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream, *a);
}
