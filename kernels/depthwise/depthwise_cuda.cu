#include "kernels/depthwise/depthwise_cuda.h"

namespace {

enum { THREADS = 256, DENSE_ROWS = 4, STRIP = 8 };

__device__ void multiply_add(float4 *sum, float4 x, float4 w) {
    sum->x += x.x * w.x, sum->y += x.y * w.y, sum->z += x.z * w.z, sum->w += x.w * w.w;
}

/* One thread per four channels and four rows of a frame. */
__global__ __launch_bounds__(THREADS) void dense(const __grid_constant__ struct dense_cuda a) {
    const unsigned width = (a.layer + 1) * a.n_channels, n_strips = (a.n_rows + DENSE_ROWS - 1) / DENSE_ROWS;
    unsigned at = blockIdx.x * THREADS + threadIdx.x;
    const unsigned channel = at % (width / 4) * 4;
    at /= width / 4;
    const unsigned row = at % n_strips * DENSE_ROWS, frame = at / n_strips;
    if (frame >= a.n_frames)
        return;
    const unsigned j = a.layer - channel / a.n_channels, c = channel % a.n_channels;
    const float *map = a.map[0], *past = a.past[0];
#pragma unroll
    for (unsigned i = 1; i < DENSE_CUDA_MAPS; i++)
        if (i == j) {
            map = a.map[i];
            past = a.past[i];
        }
    float4 sum[DENSE_ROWS] = {};
    for (int t = 0; t < 3; t++) {
        const int f = (int)frame - ((2 - t) << a.layer);
        const float *x = (f >= 0 ? map + (size_t)f * a.n_rows * a.n_channels
                                 : past + (size_t)(a.n_past + f) * a.n_rows * a.n_channels) + c;
        float4 w[3];
#pragma unroll
        for (int k = 0; k < 3; k++)
            w[k] = *(const float4 *)(a.taps + (size_t)(t * 3 + k) * width + channel);
#pragma unroll
        for (int i = -1; i <= DENSE_ROWS; i++) {
            const int r = (int)row + i;
            if (r < 0 || r >= (int)a.n_rows)
                continue;
            const float4 v = *(const float4 *)(x + (size_t)r * a.n_channels);
#pragma unroll
            for (int k = 0; k < 3; k++)
                if (i + 1 - k >= 0 && i + 1 - k < DENSE_ROWS)
                    multiply_add(&sum[i + 1 - k], v, w[k]);
        }
    }
#pragma unroll
    for (int i = 0; i < DENSE_ROWS; i++)
        if (row + i < a.n_rows)
            *(float4 *)(a.y + ((size_t)frame * a.n_rows + row + i) * width + channel) = sum[i];
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
    const unsigned n_out = a.gate ? a.n_channels / 2 : a.n_channels, n_strips = (a.n_rows + STRIP - 1) / STRIP;
    unsigned at = blockIdx.x * THREADS + threadIdx.x;
    const unsigned c = at % n_out;
    at /= n_out;
    const unsigned row = at % n_strips * STRIP, frame = at / n_strips;
    if (frame >= a.n_frames)
        return;
    const size_t first = (size_t)frame * a.n_rows;
    const float *x = a.x + first * a.x_stride + c;
    float sum[STRIP], other[STRIP];
    strip(sum, x, a.x_stride, (int)row, (int)a.n_rows, a.taps + c, a.n_taps, a.n_channels);
    if (a.gate)
        strip(other, x + n_out, a.x_stride, (int)row, (int)a.n_rows, a.taps + n_out + c, a.n_taps, a.n_channels);
#pragma unroll
    for (int s = 0; s < STRIP; s++) {
        if (row + s >= a.n_rows)
            break;
        const size_t r = first + row + s;
        a.y[r * a.y_stride + c] = a.gate    ? sum[s] * other[s]
                                  : a.times ? sum[s] * a.times[r * a.n_channels + c]
                                            : sum[s];
    }
}

} // namespace

void dense_cuda(const struct dense_cuda *a, cudaStream_t stream) {
    size_t n = (size_t)a->n_frames * ((a->n_rows + DENSE_ROWS - 1) / DENSE_ROWS) * (a->layer + 1) * a->n_channels / 4;
    dense<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*a);
}

void over_frequency_cuda(const struct over_frequency_cuda *a, cudaStream_t stream) {
    unsigned n_out = a->gate ? a->n_channels / 2 : a->n_channels;
    size_t n = (size_t)a->n_frames * ((a->n_rows + STRIP - 1) / STRIP) * n_out;
    over_frequency<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*a);
}
