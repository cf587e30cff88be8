#include "kernels/attend/attend_cuda.h"

namespace {

enum { GROUPS = 4 };

/* One block per frame. Threads are [GROUPS][n_channels]: groups first share the rows, then the inputs of the sums. */
__global__ void attend(const __grid_constant__ struct attend_cuda a) {
    __shared__ float part[GROUPS][ATTEND_CUDA_CHANNELS], mean[ATTEND_CUDA_CHANNELS];
    const unsigned c = threadIdx.x, group = threadIdx.y, n = a.n_channels;
    const float *x = a.x + (size_t)blockIdx.x * a.n_rows * n + c;
    float sum = 0;
#pragma unroll 4
    for (unsigned r = group; r < a.n_rows; r += GROUPS)
        sum += x[(size_t)r * n];
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
    attend<<<a->n_frames, dim3(a->n_channels, GROUPS), 0, stream>>>(*a);
}
