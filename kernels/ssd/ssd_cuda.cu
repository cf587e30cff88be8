/* One block per 32 channels of a position, from the first frame to the last; four threads per channel, each with a
 * quarter of the states in registers; inputs of 16 frames at a time in shared memory (as scan_cuda.cu). The norm needs
 * all channels, so it is a separate kernel. */
#include "kernels/ssd/ssd_cuda.h"

#include <cuda_pipeline.h>

namespace {

enum { CHANNELS = 32, LANES = 4, THREADS = CHANNELS * LANES, FRAMES = 16, GROUPS = THREADS / CHANNELS, WARP = 32 };

template <int STATES> __global__ __launch_bounds__(THREADS) void ssd(const __grid_constant__ struct ssd_cuda a) {
    constexpr int MINE = STATES / LANES, ROW = 2 * STATES;
    __shared__ __align__(16) float selects[2][FRAMES][ROW];
    __shared__ __align__(16) float us[2][FRAMES][CHANNELS], zs[2][FRAMES][CHANNELS], steps[2][FRAMES][CHANNELS];
    __shared__ float keep[FRAMES][CHANNELS], y[FRAMES][CHANNELS];
    const unsigned row = blockIdx.x, first_channel = blockIdx.y * CHANNELS, thread = threadIdx.x;
    const unsigned lane = thread % LANES, mine = thread / LANES, d = first_channel + mine;
    const bool exists = d < a.n_channels;
    const size_t state = ((size_t)row * a.n_channels + d) * STATES + lane * MINE;
    float h[MINE];
#pragma unroll
    for (int s = 0; s < MINE; s++)
        h[s] = exists ? a.h[state + s] : 0;

    /* Outside the recurrence a thread has one channel, c, of the frames group, group + GROUPS, ... */
    const unsigned column = thread % CHANNELS, group = thread / CHANNELS, c = first_channel + column,
                   head = c / a.head_dim;
    const bool has = c < a.n_channels;
    const float decay = has ? a.decay[head] : 0, pass = has ? a.pass[head] : 0;

    auto fetch = [&](unsigned first, unsigned buffer) {
        const unsigned n = first < a.n_frames ? min((unsigned)FRAMES, a.n_frames - first) : 0;
        for (unsigned f = group; f < n; f += GROUPS) {
            const size_t r = (size_t)(first + f) * a.n_rows + row;
            for (unsigned i = column; i < ROW; i += CHANNELS)
                __pipeline_memcpy_async(&selects[buffer][f][i], a.u + r * a.u_stride + a.n_channels + i, sizeof(float));
            if (has) {
                __pipeline_memcpy_async(&us[buffer][f][column], a.u + r * a.u_stride + c, sizeof(float));
                __pipeline_memcpy_async(&zs[buffer][f][column], a.z + r * a.z_stride + c, sizeof(float));
                __pipeline_memcpy_async(&steps[buffer][f][column], a.step + r * a.z_stride + head, sizeof(float));
            }
        }
        __pipeline_commit();
    };

    fetch(0, 0);
    for (unsigned first = 0, buffer = 0; first < a.n_frames; first += FRAMES, buffer ^= 1) {
        const unsigned n = min((unsigned)FRAMES, a.n_frames - first);
        float(*select)[ROW] = selects[buffer], (*u)[CHANNELS] = us[buffer], (*z)[CHANNELS] = zs[buffer];
        float(*step)[CHANNELS] = steps[buffer];
        fetch(first + FRAMES, buffer ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (unsigned f = group; has && f < n; f += GROUPS) {
            const float v = step[f][column], dt = fmaxf(v, 0) + log1pf(expf(-fabsf(v)));
            step[f][column] = dt;
            keep[f][column] = exp2f(dt * decay);
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned f = 0; f < n; f++) {
            const float fall = keep[f][mine], dtu = step[f][mine] * u[f][mine];
            float sum = 0;
#pragma unroll
            for (int s = 0; s < MINE; s++) {
                h[s] = fall * h[s] + dtu * select[f][lane * MINE + s];
                sum += select[f][STATES + lane * MINE + s] * h[s];
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane == 0)
                y[f][mine] = sum;
        }
        __syncthreads();
        for (unsigned f = group; has && f < n; f += GROUPS) {
            const float gate = z[f][column];
            a.y[((size_t)(first + f) * a.n_rows + row) * a.n_channels + c] = (y[f][column] + pass * u[f][column]) *
                                                                             (gate / (1 + expf(-gate)));
        }
        __syncthreads(); /* before this buffer is refilled */
    }
    if (exists)
#pragma unroll
        for (int s = 0; s < MINE; s++)
            a.h[state + s] = h[s];
}

/* One warp per row. */
__global__ __launch_bounds__(THREADS) void norm(float *y, unsigned n_rows, unsigned n_channels, float epsilon) {
    const unsigned row = blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= n_rows)
        return;
    float *v = y + (size_t)row * n_channels, squares = 0;
    for (unsigned c = lane; c < n_channels; c += WARP)
        squares += v[c] * v[c];
    for (int d = 1; d < WARP; d *= 2)
        squares += __shfl_xor_sync(~0u, squares, d);
    const float scale = 1 / sqrtf(squares / n_channels + epsilon);
    for (unsigned c = lane; c < n_channels; c += WARP)
        v[c] *= scale;
}

} // namespace

void ssd_cuda(const struct ssd_cuda *a, cudaStream_t stream) {
    const dim3 grid(a->n_rows, (a->n_channels + CHANNELS - 1) / CHANNELS);
    const unsigned n_rows = a->n_frames * a->n_rows, n_blocks = (n_rows + THREADS / WARP - 1) / (THREADS / WARP);
    switch (a->n_states) {
    case 16: ssd<16><<<grid, THREADS, 0, stream>>>(*a); break;
    case 32: ssd<32><<<grid, THREADS, 0, stream>>>(*a); break;
    case 48: ssd<48><<<grid, THREADS, 0, stream>>>(*a); break;
    default: ssd<64><<<grid, THREADS, 0, stream>>>(*a); break;
    }
    norm<<<n_blocks, THREADS, 0, stream>>>(a->y, n_rows, a->n_channels, a->epsilon);
}
