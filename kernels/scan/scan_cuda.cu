/* A block: 16 channels of a position, four threads a channel, each with a quarter of the states in registers, from the
 * first frame to the last. What a step needs comes in for 16 frames together, and for the next 16 while these are
 * computed. */
#include "kernels/scan/scan_cuda.h"

#include <cuda_pipeline.h>

namespace {

/* A thread fetches at most one piece of u and of z: FRAMES * CHANNELS / 4 == THREADS. */
enum { CHANNELS = 16, LANES = 4, THREADS = CHANNELS * LANES, FRAMES = 16, GROUPS = THREADS / CHANNELS };

/* For x <= 0, to 2^-22 of it. */
__device__ float exp2_negative(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <int STATES> __global__ __launch_bounds__(THREADS) void scan(const __grid_constant__ struct scan_cuda a) {
    constexpr int MINE = STATES / LANES, ROW = 2 * STATES + SCAN_CUDA_RANK;
    __shared__ __align__(16) float selects[2][FRAMES][ROW];
    __shared__ __align__(16) float us[2][FRAMES][CHANNELS], zs[2][FRAMES][CHANNELS];
    __shared__ float step[FRAMES][CHANNELS], y[FRAMES][CHANNELS], weight[SCAN_CUDA_RANK][CHANNELS];
    const unsigned row = blockIdx.x, first_channel = blockIdx.y * CHANNELS, thread = threadIdx.x;
    const unsigned lane = thread % LANES, mine = thread / LANES, d = first_channel + mine;
    const unsigned width = 2 * STATES + a.rank;
    const size_t at = (size_t)d * STATES + lane * MINE, state = (size_t)row * a.n_channels * STATES + at;
    float h[MINE], decay[MINE];
#pragma unroll
    for (int s = 0; s < MINE; s++) {
        h[s] = a.h[state + s];
        decay[s] = a.decay[at + s];
    }

    /* Outside the recurrence a thread has one channel, c, of the frames group, group + GROUPS, ... */
    const unsigned column = thread % CHANNELS, group = thread / CHANNELS, c = first_channel + column;
    const float bias = a.bias[c], pass = a.pass[c];
    for (unsigned r = group; r < a.rank; r += GROUPS)
        weight[r][column] = a.step[r * a.n_channels + c];

    auto fetch = [&](unsigned first, unsigned buffer) {
        const unsigned n = first < a.n_frames ? min((unsigned)FRAMES, a.n_frames - first) : 0, pieces = (width + 3) / 4;
        const size_t r = (size_t)first * a.n_rows + row; /* and n_rows on for each further frame */
        for (unsigned i = thread; i < n * pieces; i += THREADS) {
            const unsigned f = i / pieces, piece = i % pieces * 4;
            __pipeline_memcpy_async(&selects[buffer][f][piece], a.select + (r + f * a.n_rows) * a.select_stride + piece, 16);
        }
        const unsigned f = thread / (CHANNELS / 4), piece = thread % (CHANNELS / 4) * 4;
        if (f < n) {
            const size_t from = r + f * a.n_rows, channel = first_channel + piece;
            __pipeline_memcpy_async(&us[buffer][f][piece], a.u + from * a.n_channels + channel, 16);
            __pipeline_memcpy_async(&zs[buffer][f][piece], a.z + from * a.z_stride + channel, 16);
        }
        __pipeline_commit();
    };

    fetch(0, 0);
    for (unsigned first = 0, buffer = 0; first < a.n_frames; first += FRAMES, buffer ^= 1) {
        const unsigned n = min((unsigned)FRAMES, a.n_frames - first);
        float(*select)[ROW] = selects[buffer], (*u)[CHANNELS] = us[buffer], (*z)[CHANNELS] = zs[buffer];
        fetch(first + FRAMES, buffer ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (unsigned f = group; f < n; f += GROUPS) {
            float v = bias;
            for (unsigned r = 0; r < a.rank; r++)
                v += select[f][2 * STATES + r] * weight[r][column];
            step[f][column] = fmaxf(v, 0) + log1pf(expf(-fabsf(v)));
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned f = 0; f < n; f++) {
            const float dt = step[f][mine], dtu = dt * u[f][mine];
            float sum = 0;
#pragma unroll
            for (int s = 0; s < MINE; s++) {
                h[s] = exp2_negative(dt * decay[s]) * h[s] + dtu * select[f][lane * MINE + s];
                sum += select[f][STATES + lane * MINE + s] * h[s];
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane == 0)
                y[f][mine] = sum;
        }
        __syncthreads();
        for (unsigned f = group; f < n; f += GROUPS) {
            const float gate = z[f][column];
            a.y[((size_t)(first + f) * a.n_rows + row) * a.n_channels + c] =
                (y[f][column] + pass * u[f][column]) * (gate / (1 + expf(-gate)));
        }
        __syncthreads(); /* before this buffer is filled again */
    }
#pragma unroll
    for (int s = 0; s < MINE; s++)
        a.h[state + s] = h[s];
}

} // namespace

void scan_cuda(const struct scan_cuda *a, cudaStream_t stream) {
    const dim3 grid(a->n_rows, a->n_channels / CHANNELS);
    switch (a->n_states) {
    case 16: scan<16><<<grid, THREADS, 0, stream>>>(*a); break;
    case 32: scan<32><<<grid, THREADS, 0, stream>>>(*a); break;
    case 48: scan<48><<<grid, THREADS, 0, stream>>>(*a); break;
    default: scan<64><<<grid, THREADS, 0, stream>>>(*a); break;
    }
}
