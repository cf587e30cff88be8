/* A block: 32 channels of a position, four threads a channel, each with a quarter of the states in registers, from the
 * first frame to the last. What a step needs is fetched for 16 frames together. */
#include "kernels/scan/scan_cuda.h"

namespace {

enum { CHANNELS = 32, LANES = 4, THREADS = CHANNELS * LANES, FRAMES = 16 };

template <int STATES> __global__ __launch_bounds__(THREADS) void scan(const __grid_constant__ struct scan_cuda a) {
    constexpr int MINE = STATES / LANES, ROW = 2 * STATES + SCAN_CUDA_RANK;
    __shared__ __align__(16) float select[FRAMES][ROW];
    __shared__ float step[FRAMES][CHANNELS], u[FRAMES][CHANNELS], y[FRAMES][CHANNELS];
    const unsigned row = blockIdx.x, first_channel = blockIdx.y * CHANNELS, thread = threadIdx.x;
    const unsigned lane = thread % LANES, mine = thread / LANES, d = first_channel + mine;
    const unsigned width = 2 * STATES + a.rank;
    const bool exists = d < a.n_channels;
    const size_t at = (size_t)d * STATES + lane * MINE, state = (size_t)row * a.n_channels * STATES + at;
    float h[MINE], decay[MINE];
#pragma unroll
    for (int s = 0; s < MINE; s++) {
        h[s] = exists ? a.h[state + s] : 0;
        decay[s] = exists ? a.decay[at + s] : 0;
    }

    for (unsigned first = 0; first < a.n_frames; first += FRAMES) {
        const unsigned n = min((unsigned)FRAMES, a.n_frames - first);
        const size_t first_row = (size_t)first * a.n_rows + row; /* and n_rows on for each further frame */
        __syncthreads();
        for (unsigned i = thread; i < n * width; i += THREADS)
            select[i / width][i % width] = a.select[(first_row + i / width * a.n_rows) * a.select_stride + i % width];
        __syncthreads();
        for (unsigned i = thread; i < n * CHANNELS; i += THREADS) {
            const unsigned f = i / CHANNELS, c = first_channel + i % CHANNELS;
            if (c >= a.n_channels)
                continue;
            float v = a.bias[c];
            for (unsigned r = 0; r < a.rank; r++)
                v += select[f][2 * STATES + r] * a.step[r * a.n_channels + c];
            step[f][i % CHANNELS] = fmaxf(v, 0) + log1pf(expf(-fabsf(v)));
            u[f][i % CHANNELS] = a.u[(first_row + f * a.n_rows) * a.n_channels + c];
        }
        __syncthreads();
        for (unsigned f = 0; f < n; f++) {
            const float dt = step[f][mine], dtu = dt * u[f][mine];
            float sum = 0;
#pragma unroll
            for (int s = 0; s < MINE; s++) {
                h[s] = exp2f(dt * decay[s]) * h[s] + dtu * select[f][lane * MINE + s];
                sum += select[f][STATES + lane * MINE + s] * h[s];
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane == 0)
                y[f][mine] = sum;
        }
        __syncthreads();
        for (unsigned i = thread; i < n * CHANNELS; i += THREADS) {
            const unsigned f = i / CHANNELS, c = first_channel + i % CHANNELS;
            if (c >= a.n_channels)
                continue;
            const size_t r = first_row + f * a.n_rows;
            const float z = a.z[r * a.z_stride + c];
            a.y[r * a.n_channels + c] = (y[f][i % CHANNELS] + a.pass[c] * u[f][i % CHANNELS]) * (z / (1 + expf(-z)));
        }
    }
    if (exists)
#pragma unroll
        for (int s = 0; s < MINE; s++)
            a.h[state + s] = h[s];
}

} // namespace

void scan_cuda(const struct scan_cuda *a, cudaStream_t stream) {
    const dim3 grid(a->n_rows, (a->n_channels + CHANNELS - 1) / CHANNELS);
    switch (a->n_states) {
    case 16: scan<16><<<grid, THREADS, 0, stream>>>(*a); break;
    case 32: scan<32><<<grid, THREADS, 0, stream>>>(*a); break;
    case 48: scan<48><<<grid, THREADS, 0, stream>>>(*a); break;
    default: scan<64><<<grid, THREADS, 0, stream>>>(*a); break;
    }
}
