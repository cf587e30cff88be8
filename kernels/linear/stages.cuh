/* stages.cuh - shared by linear layers: streams packed weights (linear_cuda_put) through shared memory. */
#ifndef PRIMEKNET_STAGES_CUH
#define PRIMEKNET_STAGES_CUH

#include "kernels/linear/linear_cuda.h"
#include "kernels/linear/multiply.cuh"

#include <cuda_pipeline.h>

enum { STAGE = 4 }; /* steps of 16 inputs */

static inline __host__ __device__ unsigned blocks_of(unsigned n, unsigned of) {
    return (n + of - 1) / of;
}

/* The weights of the blockIdx.y-th 8 N outputs, in two stages of 64 inputs: a block of THREADS uses one while the other
 * one is loaded. */
template <int N, int THREADS> struct stages {
    const uint4 *weight;
    uint4 (&shared)[2][STAGE * N * 32];
    unsigned n_k, n_steps; /* 16 inputs; stages of them */

    /* Starts to load the first stage. */
    __device__ stages(const float *weight, unsigned n_k, uint4 (&shared)[2][STAGE * N * 32])
        : shared(shared), n_k(n_k), n_steps(blocks_of(n_k, STAGE)) {
        this->weight = (const uint4 *)weight + (size_t)blockIdx.y * n_k * N * 32;
        load(0);
    }
    __device__ unsigned steps_of(unsigned step) const {
        return min((unsigned)STAGE, n_k - step * STAGE);
    }
    __device__ void load(unsigned step) const {
        if (step < n_steps)
            for (unsigned i = threadIdx.x; i < steps_of(step) * N * 32; i += THREADS)
                __pipeline_memcpy_async(&shared[step % 2][i], weight + step * STAGE * N * 32 + i, 16);
        __pipeline_commit();
    }
    /* Makes a stage visible, [steps_of(step)][N][32], and starts to load the next one. */
    __device__ const uint4 *next(unsigned step) const {
        __pipeline_wait_prior(0);
        __syncthreads();
        load(step + 1);
        return shared[step % 2];
    }
};

static __device__ float4 prelu(float4 v, float4 slope) {
    v.x = v.x < 0 ? v.x * slope.x : v.x, v.y = v.y < 0 ? v.y * slope.y : v.y;
    v.z = v.z < 0 ? v.z * slope.z : v.z, v.w = v.w < 0 ? v.w * slope.w : v.w;
    return v;
}

/* A number of tiles that is known when a kernel is compiled. */
template <int N> struct tiles { static constexpr int n = N; };

/* Calls f with linear_cuda_tiles(n_out). */
template <class F> static void with_tiles(unsigned n_out, F f) {
    switch (linear_cuda_tiles(n_out)) {
    case 2: f(tiles<2>()); break;
    case 4: f(tiles<4>()); break;
    case 6: f(tiles<6>()); break;
    default: f(tiles<8>()); break;
    }
}

#endif
