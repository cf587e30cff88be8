/* A warp has 16 rows, which are loaded into its registers once and used for all outputs. Weights pass through shared
 * memory in two stages of 64 inputs by up to 64 outputs. */
#include "kernels/linear/linear_cuda.h"

#include "kernels/linear/multiply.cuh"

#include <cuda_pipeline.h>

namespace {

/* Warps per block, blocks per multiprocessor; steps of 16 inputs in a stage. */
enum { FEW_WARPS = 6, FEW_BLOCKS = 4, MANY_WARPS = 8, MANY_BLOCKS = 2, STAGE = 4 };

/* Tiles of 8 outputs in a stage. */
__host__ __device__ unsigned tiles(unsigned n_out) {
    return n_out >= 64 ? 8 : (n_out + 15) / 16 * 2;
}

__host__ __device__ unsigned blocks_of(unsigned n, unsigned of) {
    return (n + of - 1) / of;
}

/* Where a lane's two rows are. */
struct place {
    unsigned frame[2], row[2];
    bool real[2];
};

__device__ struct place place_of(const struct linear_cuda &a, unsigned first_row) {
    struct place p;
    const unsigned total = a.n_frames * a.n_rows;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned m = first_row + 8 * i, r = min(m, total - 1);
        p.frame[i] = r / a.n_rows;
        p.row[i] = r - p.frame[i] * a.n_rows;
        p.real[i] = m < total;
    }
    return p;
}

/* Loads four neighbours; zeros from n on. */
__device__ float4 load4(const float *x, unsigned first, unsigned n) {
    return first < n ? *(const float4 *)(x + first) : make_float4(0, 0, 0, 0);
}

/* The start of a lane's row i. */
__device__ const float *row_of(const struct linear_cuda &a, const struct place &p, int i) {
    return a.x + p.frame[i] * a.x_frame + p.row[i] * a.x_stride;
}

__device__ float4 times(float4 v, float4 w) {
    return make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
}

__device__ float4 times(float4 v, float w) {
    return make_float4(v.x * w, v.y * w, v.z * w, v.w * w);
}

/* The sum over the four lanes that share a row. */
__device__ float row_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

__device__ float sum4(float4 v) {
    return v.x + v.y + (v.z + v.w);
}

__device__ float4 less(float4 v, float mean) {
    return make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
}

__device__ float squares4(float4 v) {
    return v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
}

/* Finishes the sums of two neighbouring tiles: four outputs from o on, for each of a lane's rows. */
__device__ void finish(const struct linear_cuda &a, const float (*c)[4], const struct place &p, unsigned o) {
    if (o >= a.n_out)
        return;
    const float4 bias = *(const float4 *)(a.bias + o);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (!p.real[i])
            continue;
        float4 v = make_float4(c[0][2 * i] + bias.x, c[0][2 * i + 1] + bias.y, c[1][2 * i] + bias.z,
                               c[1][2 * i + 1] + bias.w);
        if (a.prelu) {
            const float4 slope = *(const float4 *)(a.prelu + o);
            v.x = v.x < 0 ? v.x * slope.x : v.x, v.y = v.y < 0 ? v.y * slope.y : v.y;
            v.z = v.z < 0 ? v.z * slope.z : v.z, v.w = v.w < 0 ? v.w * slope.w : v.w;
        }
        float *y = a.y + p.frame[i] * a.y_frame + p.row[i] * a.y_stride;
        if (a.gate) {
            *(float2 *)(y + o / 2) = make_float2(v.x * v.y, v.z * v.w);
            continue;
        }
        const size_t added = p.frame[i] * a.add_frame + p.row[i] * a.add_stride + o;
        if (a.add) {
            const float4 add = *(const float4 *)(a.add + added);
            v.x += add.x, v.y += add.y, v.z += add.z, v.w += add.w;
        }
        if (a.skip) {
            const float4 skip = *(const float4 *)(a.skip + added), blend = *(const float4 *)(a.blend + o);
            v.x += skip.x * blend.x, v.y += skip.y * blend.y, v.z += skip.z * blend.z, v.w += skip.w * blend.w;
        }
        if (o + 4 <= a.n_out) {
            *(float4 *)(y + o) = v;
            continue;
        }
        y[o] = v.x;
        if (o + 1 < a.n_out)
            y[o + 1] = v.y;
        if (o + 2 < a.n_out)
            y[o + 2] = v.z;
    }
}

/* For up to 64 inputs; all outputs. */
template <int N> __global__ __launch_bounds__(32 * FEW_WARPS, FEW_BLOCKS) void
few(const __grid_constant__ struct linear_cuda a) {
    __shared__ uint4 weights[2][STAGE * N * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    const unsigned n_k = blocks_of(a.n_in, 16), n_steps = blocks_of(a.n_out, 8 * N), size = n_k * N * 32;
    auto bring = [&](unsigned step) {
        if (step < n_steps)
            for (unsigned i = thread; i < size; i += 32 * FEW_WARPS)
                __pipeline_memcpy_async(&weights[step % 2][i], (const uint4 *)a.weight + step * size + i, 16);
        __pipeline_commit();
    };
    bring(0);

    const struct place p = place_of(a, (blockIdx.x * FEW_WARPS + thread / 32) * 16 + g);
    const unsigned n_whole = a.n_in % 4 ? 0 : a.n_in;
    float4 x[2][STAGE];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < STAGE; k++)
            x[i][k] = load4(row_of(a, p, i), 16 * k + 4 * t, n_whole);
    if (n_whole < a.n_in) /* at most 16 inputs, in rows of any length */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float *row = row_of(a, p, i);
            const unsigned k = 4 * t, n = a.n_in;
            x[i][0] = make_float4(k < n ? row[k] : 0, k + 1 < n ? row[k + 1] : 0, k + 2 < n ? row[k + 2] : 0,
                                  k + 3 < n ? row[k + 3] : 0);
        }
    if (a.scale)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int k = 0; k < STAGE; k++)
                x[i][k] = times(x[i][k], load4(a.scale + (size_t)p.frame[i] * a.n_in, 16 * k + 4 * t, a.n_in));
    if (a.norm_epsilon > 0)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = 0, squares = 0;
#pragma unroll
            for (int k = 0; k < STAGE; k++)
                sum += sum4(x[i][k]);
            const float mean = row_sum(sum) / a.n_in;
#pragma unroll
            for (int k = 0; k < STAGE; k++)
                if (16 * k + 4 * t < a.n_in) {
                    x[i][k] = less(x[i][k], mean);
                    squares += squares4(x[i][k]);
                }
            const float factor = 1 / sqrtf(row_sum(squares) / a.n_in + a.norm_epsilon);
#pragma unroll
            for (int k = 0; k < STAGE; k++)
                x[i][k] = times(x[i][k], factor);
        }
    uint32_t high[STAGE][4], low[STAGE][4];
#pragma unroll
    for (int k = 0; k < STAGE; k++)
        multiply_split(high[k], low[k], x[0][k], x[1][k]);

    for (unsigned step = 0; step < n_steps; step++) {
        __pipeline_wait_prior(0);
        __syncthreads();
        bring(step + 1);
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            float c[2][4] = {};
#pragma unroll
            for (int k = 0; k < STAGE; k++)
                if (k < n_k)
                    multiply<2>(c, high[k], low[k], &weights[step % 2][(k * N + j) * 32 + lane]);
            finish(a, c, p, step * 8 * N + 8 * j + 4 * t);
        }
    }
}

/* For any number of inputs; up to 64 outputs, the blockIdx.y-th 64. A stage is overwritten once its products are
 * done. */
template <int N> __global__ __launch_bounds__(32 * MANY_WARPS, MANY_BLOCKS) void
many(const __grid_constant__ struct linear_cuda a) {
    __shared__ uint4 weights[2][STAGE * N * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    const unsigned n_k = blocks_of(a.n_in, 16), n_steps = blocks_of(n_k, STAGE);
    const uint4 *weight = (const uint4 *)a.weight + (size_t)blockIdx.y * n_k * N * 32;
    auto bring = [&](unsigned step) {
        if (step < n_steps)
            for (unsigned i = thread; i < min((unsigned)STAGE, n_k - step * STAGE) * N * 32; i += 32 * MANY_WARPS)
                __pipeline_memcpy_async(&weights[step % 2][i], weight + step * STAGE * N * 32 + i, 16);
        __pipeline_commit();
    };
    bring(0);

    const struct place p = place_of(a, (blockIdx.x * MANY_WARPS + thread / 32) * 16 + g);
    const float *row[2] = {row_of(a, p, 0), row_of(a, p, 1)};
    auto load = [&](int i, unsigned k) {
        const float4 v = load4(row[i], k, a.n_in);
        return a.scale ? times(v, load4(a.scale + (size_t)p.frame[i] * a.n_in, k, a.n_in)) : v;
    };
    float mean[2] = {0, 0}, factor[2] = {1, 1};
    if (a.norm_epsilon > 0)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = 0, squares = 0;
            for (unsigned k = 4 * t; k < a.n_in; k += 16)
                sum += sum4(load(i, k));
            mean[i] = row_sum(sum) / a.n_in;
            for (unsigned k = 4 * t; k < a.n_in; k += 16)
                squares += squares4(less(load(i, k), mean[i]));
            factor[i] = 1 / sqrtf(row_sum(squares) / a.n_in + a.norm_epsilon);
        }
    float4 x[STAGE][2];
#pragma unroll
    for (int k = 0; k < STAGE; k++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            x[k][i] = load(i, 16 * k + 4 * t);

    float c[N][4] = {};
    for (unsigned step = 0; step < n_steps; step++) {
        __pipeline_wait_prior(0);
        __syncthreads();
        bring(step + 1);
#pragma unroll
        for (int k = 0; k < STAGE; k++) {
            if (step * STAGE + k >= n_k)
                break;
            uint32_t high[4], low[4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[k][i] = times(less(x[k][i], mean[i]), factor[i]);
            multiply_split(high, low, x[k][0], x[k][1]);
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[k][i] = load(i, ((step + 1) * STAGE + k) * 16 + 4 * t);
#pragma unroll
            for (int j = 0; j < N; j += 2)
                multiply<2>(&c[j], high, low, &weights[step % 2][(k * N + j) * 32 + lane]);
        }
    }
#pragma unroll
    for (int j = 0; j < N; j += 2)
        finish(a, &c[j], p, blockIdx.y * 8 * N + 8 * j + 4 * t);
}

template <int N> void launch(const struct linear_cuda *a, cudaStream_t stream) {
    const unsigned n_warps = blocks_of(a->n_frames * a->n_rows, 16);
    if (a->n_in <= 16 * STAGE)
        few<N><<<blocks_of(n_warps, FEW_WARPS), 32 * FEW_WARPS, 0, stream>>>(*a);
    else
        many<N><<<dim3(blocks_of(n_warps, MANY_WARPS), blocks_of(a->n_out, 8 * N)), 32 * MANY_WARPS, 0, stream>>>(*a);
}

} // namespace

size_t linear_cuda_size(unsigned n_in, unsigned n_out) {
    return (size_t)blocks_of(n_in, 16) * 16 * blocks_of(n_out, 8 * tiles(n_out)) * 8 * tiles(n_out);
}

void linear_cuda_put(float *packed, unsigned n_in, unsigned n_out, unsigned output, const float *weight) {
    const unsigned n = tiles(n_out), n_k = blocks_of(n_in, 16), stage = output / (8 * n), local = output % (8 * n);
    const unsigned tile = local / 16 * 2 + local % 4 / 2, g = local % 16 / 4 * 2 + local % 2;
    __half *halves = (__half *)packed;
    for (unsigned k = 0; k < n_in; k++) {
        const unsigned t = k % 16 / 4, pair = k % 4 / 2;
        const size_t lane = (((size_t)stage * n_k + k / 16) * n + tile) * 32 + 4 * g + t;
        const float w = multiply_scaled(weight[k]);
        const __half high = __float2half_rn(w);
        halves[lane * 8 + pair * 2 + k % 2] = high;
        halves[lane * 8 + 4 + pair * 2 + k % 2] = __float2half_rn(w - __half2float(high));
    }
}

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream) {
    switch (tiles(a->n_out)) {
    case 2: launch<2>(a, stream); break;
    case 4: launch<4>(a, stream); break;
    case 6: launch<6>(a, stream); break;
    default: launch<8>(a, stream); break;
    }
}
