/* One block per 16 channels of a position, from the first frame to the last; four threads per channel, each with a
 * quarter of the states in registers. Inputs are loaded for 16 frames at a time, and for the next 16 while these are
 * computed. */
#include "kernels/scan/scan_cuda.h"

#include "kernels/overlap.cuh"

#include <cuda_pipeline.h>
#include <math.h>

namespace {

/* A thread loads at most one piece each of u and z: FRAMES * CHANNELS / 4 == THREADS. */
enum { CHANNELS = 16, LANES = 4, THREADS = CHANNELS * LANES, FRAMES = 16, GROUPS = THREADS / CHANNELS };

/* For x <= 0, with a relative error of 2^-22. */
__device__ float exp2_negative(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log(1 + exp(v)). */
__device__ float softplus(float v) {
    const float e = exp2_negative(-(float)M_LOG2E * fabsf(v)), s = __fdividef(e, 2 + e), q = s * s; /* q <= 1/9 */
    const float series = 1 + q * (1.f / 3 +
                                  q * (1.f / 5 + q * (1.f / 7 + q * (1.f / 9 + q * (1.f / 11 + q * (1.f / 13))))));
    return fmaxf(v, 0) + 2 * s * series;
}

__device__ float silu(float v) {
    float e = exp2_negative(-(float)M_LOG2E * fabsf(v));
    return __fdividef(v < 0 ? v * e : v, 1 + e);
}

template <int STATES> __global__ __launch_bounds__(THREADS) void scan(const __grid_constant__ struct scan_cuda a) {
    constexpr int MINE = STATES / LANES, ROW = 2 * STATES + SCAN_CUDA_RANK;
    __shared__ __align__(16) float selects[2][FRAMES][ROW];
    __shared__ __align__(16) float us[2][FRAMES][CHANNELS], zs[2][FRAMES][CHANNELS];
    __shared__ float2 steps[FRAMES][CHANNELS];                                     /* dt, dt u */
    __shared__ float sums[FRAMES][CHANNELS + 8], weight[SCAN_CUDA_RANK][CHANNELS]; /* 8 avoids bank conflicts */
    const unsigned row = blockIdx.x, first_channel = blockIdx.y * CHANNELS, thread = threadIdx.x;
    const unsigned lane = thread % LANES, mine = thread / LANES, d = first_channel + mine;
    const unsigned width = 2 * STATES + a.rank;
    const size_t at = (size_t)d * STATES + lane * MINE, state = (size_t)row * a.n_channels * STATES + at;
    float h[MINE], decay[MINE];
#pragma unroll
    for (int s = 0; s < MINE; s++)
        decay[s] = a.decay[at + s];

    /* Outside the recurrence a thread has one channel, c, of the frames group, group + GROUPS, ... */
    const unsigned column = thread % CHANNELS, group = thread / CHANNELS, c = first_channel + column;
    const float bias = a.bias[c], pass = a.pass[c];
    for (unsigned r = group; r < a.rank; r += GROUPS)
        weight[r][column] = a.step[r * a.n_channels + c];
    await();
#pragma unroll
    for (int s = 0; s < MINE; s++)
        h[s] = a.h[state + s];

    auto fetch = [&](unsigned first) {
        const unsigned n = first < a.n_frames ? min((unsigned)FRAMES, a.n_frames - first) : 0,
                       buffer = first / FRAMES % 2;
        const size_t r = (size_t)first * a.n_rows + row; /* each further frame is n_rows further */
        for (unsigned f = group; f < n; f += GROUPS)
            for (unsigned piece = column * 4; piece < width; piece += CHANNELS * 4)
                __pipeline_memcpy_async(&selects[buffer][f][piece],
                                        a.select + (r + f * a.n_rows) * a.select_stride + piece, 16);
        const unsigned f = thread / (CHANNELS / 4), piece = thread % (CHANNELS / 4) * 4;
        if (f < n) {
            const size_t from = r + f * a.n_rows, channel = first_channel + piece;
            __pipeline_memcpy_async(&us[buffer][f][piece], a.u + from * a.n_channels + channel, 16);
            __pipeline_memcpy_async(&zs[buffer][f][piece], a.z + from * a.z_stride + channel, 16);
        }
        __pipeline_commit();
    };
    /* Writes what the recurrence has summed for the frames from `first` on. */
    auto write = [&](unsigned first) {
        const unsigned n = min((unsigned)FRAMES, a.n_frames - first), buffer = first / FRAMES % 2;
#pragma unroll
        for (unsigned i = 0; i < FRAMES / GROUPS; i++) {
            const unsigned f = group + i * GROUPS;
            if (f < n)
                a.y[((size_t)(first + f) * a.n_rows + row) * a.n_channels + c] = (sums[f][column] +
                                                                                  pass * us[buffer][f][column]) *
                                                                                 silu(zs[buffer][f][column]);
        }
    };

    fetch(0);
    for (unsigned first = 0; first < a.n_frames; first += FRAMES) {
        const unsigned n = min((unsigned)FRAMES, a.n_frames - first), buffer = first / FRAMES % 2;
        float(*select)[ROW] = selects[buffer], (*u)[CHANNELS] = us[buffer];
        __pipeline_wait_prior(0);
        __syncthreads();
        float v[FRAMES / GROUPS];
#pragma unroll
        for (int i = 0; i < FRAMES / GROUPS; i++)
            v[i] = bias;
        for (unsigned r = 0; r < a.rank; r++) {
            const float w = weight[r][column];
#pragma unroll
            for (int i = 0; i < FRAMES / GROUPS; i++)
                v[i] += select[group + i * GROUPS][2 * STATES + r] * w;
        }
#pragma unroll
        for (int i = 0; i < FRAMES / GROUPS; i++) {
            const unsigned f = group + i * GROUPS;
            const float dt = softplus(v[i]);
            steps[f][column] = make_float2(dt, dt * u[f][column]);
        }
        if (first > 0)
            write(first - FRAMES);
        __syncthreads();
        fetch(first + FRAMES); /* into the buffer that has been written out */
        auto step = [&](unsigned f) {
            const float2 dt = steps[f][mine];
            float sum = 0;
#pragma unroll
            for (int s = 0; s < MINE; s++) {
                h[s] = exp2_negative(dt.x * decay[s]) * h[s] + dt.y * select[f][lane * MINE + s];
                sum += select[f][STATES + lane * MINE + s] * h[s];
            }
            return sum;
        };
        unsigned f = 0;
        for (; f + LANES <= n; f += LANES) { /* each lane ends up with one frame's sum */
            float sum[LANES];
#pragma unroll
            for (int i = 0; i < LANES; i++)
                sum[i] = step(f + i);
            const bool odd = lane & 1, upper = lane & 2;
            float low = odd ? sum[1] : sum[0], high = odd ? sum[3] : sum[2];
            low += __shfl_xor_sync(~0u, odd ? sum[0] : sum[1], 1);
            high += __shfl_xor_sync(~0u, odd ? sum[2] : sum[3], 1);
            sums[f + lane][mine] = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, 2);
        }
        for (; f < n; f++) {
            float sum = step(f);
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane == 0)
                sums[f][mine] = sum;
        }
    }
    __syncthreads();
    if (a.n_frames > 0)
        write((a.n_frames - 1) / FRAMES * FRAMES);
#pragma unroll
    for (int s = 0; s < MINE; s++)
        a.h[state + s] = h[s];
}

} // namespace

void scan_cuda(const struct scan_cuda *a, cudaStream_t stream) {
    const dim3 grid(a->n_rows, a->n_channels / CHANNELS);
    switch (a->n_states) {
    case 16: start(scan<16>, grid, THREADS, 0, stream, *a); break;
    case 32: start(scan<32>, grid, THREADS, 0, stream, *a); break;
    case 48: start(scan<48>, grid, THREADS, 0, stream, *a); break;
    default: start(scan<64>, grid, THREADS, 0, stream, *a); break;
    }
}
