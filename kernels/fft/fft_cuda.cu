#include "fft_cuda.h"

#include "fft.cuh"

#include <math.h>

void fft_roots(float *roots, unsigned n_points) {
    for (unsigned j = 0; j < n_points; j++) {
        double angle = 2 * M_PI * j / n_points;
        roots[2 * j] = (float)cos(angle);
        roots[2 * j + 1] = (float)-sin(angle);
    }
}

static __global__ void forward(unsigned n, const float2 *roots, const float2 *x, float2 *X) {
    extern __shared__ float2 points[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        points[i] = x[(size_t)blockIdx.x * n + i];
    const float2 *z = fft_complex<false>(points, points + n, n, roots);
    for (unsigned i = threadIdx.x; i <= n; i += blockDim.x)
        X[(size_t)blockIdx.x * (n + 1) + i] = fft_bin(z, n, i, roots);
}

static __global__ void inverse(unsigned n, const float2 *roots, const float2 *X, float2 *x) {
    extern __shared__ float2 points[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        points[i] = fft_point(X + (size_t)blockIdx.x * (n + 1), n, i, roots);
    const float2 *z = fft_complex<true>(points, points + n, n, roots);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        x[(size_t)blockIdx.x * n + i] = z[i];
}

enum { N_THREADS = 128 };

int fft_forward_cuda(const struct fft_cuda *a, struct CUstream_st *stream) {
    const unsigned n = a->n_points / 2;
    forward<<<a->n_frames, N_THREADS, 2 * n * sizeof(float2), stream>>>(n, (const float2 *)a->roots,
                                                                        (const float2 *)a->x, (float2 *)a->X);
    return cudaGetLastError();
}

int fft_inverse_cuda(const struct fft_cuda *a, struct CUstream_st *stream) {
    const unsigned n = a->n_points / 2;
    inverse<<<a->n_frames, N_THREADS, 2 * n * sizeof(float2), stream>>>(n, (const float2 *)a->roots,
                                                                        (const float2 *)a->X, (float2 *)a->x);
    return cudaGetLastError();
}
