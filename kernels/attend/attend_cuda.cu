#include "kernels/attend/attend_cuda.h"

#include "kernels/overlap.cuh"

namespace {

enum { GROUPS = 4, AT_ONCE = 5 };

/* One block per frame. Threads are [GROUPS][n_channels]: groups first share the rows, each a strip of them, then the
 * inputs of the sums. */
__global__ void attend(const __grid_constant__ struct attend_cuda a) {
    __shared__ float part[GROUPS][ATTEND_CUDA_CHANNELS], mean[ATTEND_CUDA_CHANNELS];
    const unsigned c = threadIdx.x, group = threadIdx.y, n = a.n_channels;
    const unsigned share = (a.n_rows + GROUPS - 1) / GROUPS, begin = group * share, end = min(begin + share, a.n_rows);
    const float *x = a.x + (size_t)blockIdx.x * a.n_rows * 2 * n + c;
    float *y = a.y + (size_t)blockIdx.x * a.n_rows * n + c;
    float taps[3][2];
    for (unsigned k = 0; k < 3; k++)
        for (unsigned half = 0; half < 2; half++)
            taps[k][half] = a.taps[(2 * k + half) * n + c];
    await();
    auto load = [&](unsigned r, float(&to)[2]) {
#pragma unroll
        for (unsigned half = 0; half < 2; half++)
            to[half] = r < a.n_rows ? x[(size_t)(2 * r + half) * n] : 0;
    };
    float rows[AT_ONCE + 2][2], sum = 0;
    load(begin - 1, rows[0]); /* row -1 is beyond the last, too */
    load(begin, rows[1]);
    for (unsigned first = begin; first < end; first += AT_ONCE) {
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++)
            load(first + i + 1, rows[i + 2]);
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            float sums[2] = {};
#pragma unroll
            for (unsigned k = 0; k < 3; k++)
#pragma unroll
                for (unsigned half = 0; half < 2; half++)
                    sums[half] += rows[i + k][half] * taps[k][half];
            if (first + i < end) {
                y[(size_t)(first + i) * n] = sums[0] * sums[1];
                sum += sums[0] * sums[1];
            }
        }
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            rows[0][half] = rows[AT_ONCE][half];
            rows[1][half] = rows[AT_ONCE + 1][half];
        }
    }
    part[group][c] = sum;
    __syncthreads();
    if (group == 0)
        mean[c] = (part[0][c] + part[1][c] + (part[2][c] + part[3][c])) / a.n_rows;
    __syncthreads();
    sum = 0;
#pragma unroll 4
    for (unsigned k = group; k < n; k += GROUPS)
        sum += mean[k] * a.weight[(size_t)k * a.weight_stride + c];
    part[group][c] = sum;
    __syncthreads();
    if (group == 0)
        a.factor[(size_t)blockIdx.x * n + c] = part[0][c] + part[1][c] + (part[2][c] + part[3][c]) + a.bias[c];
}

} // namespace

void attend_cuda(const struct attend_cuda *a, cudaStream_t stream) {
    start(attend, a->n_frames, dim3(a->n_channels, GROUPS), 0, stream, *a);
}
