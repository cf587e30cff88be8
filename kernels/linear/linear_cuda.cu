/* A warp has 16 rows, which are loaded into its registers once and used for all outputs. Weights pass through shared
 * memory in two stages of 64 inputs by up to 64 outputs. */
#include "kernels/linear/linear_cuda.h"

#include "kernels/linear/stages.cuh"
#include "kernels/overlap.cuh"

namespace {

/* Warps per block, blocks per multiprocessor. */
enum { FEW_WARPS = 6, FEW_BLOCKS = 4, MANY_WARPS = 8, MANY_BLOCKS = 2, CHAIN_WARPS = 8, CHAIN_BLOCKS = 2 };

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

/* Normalises the n inputs, at most 16 K, of a lane's two rows; zeros stay behind them. */
template <int K> __device__ void normalise(float4 (&x)[2][K], unsigned t, unsigned n, float epsilon) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < K; k++)
            sum += sum4(x[i][k]);
        const float mean = row_sum(sum) / n;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (16 * k + 4 * t < n) {
                x[i][k] = less(x[i][k], mean);
                squares += squares4(x[i][k]);
            }
        const float factor = 1 / sqrtf(row_sum(squares) / n + epsilon);
#pragma unroll
        for (int k = 0; k < K; k++)
            x[i][k] = times(x[i][k], factor);
    }
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
        float4 v = multiply_biased(c, i, bias);
        if (a.prelu)
            v = prelu(v, *(const float4 *)(a.prelu + o));
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
template <int N>
__global__ __launch_bounds__(32 * FEW_WARPS, FEW_BLOCKS) void few(const __grid_constant__ struct linear_cuda a) {
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
    await();
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
        normalise(x, t, a.n_in, a.norm_epsilon);
    multiply_rows<STAGE> rows;
    multiply_split(&rows, x);

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
                    multiply<2>(c, rows, k, &weights[step % 2][(k * N + j) * 32 + lane]);
            finish(a, c, p, step * 8 * N + 8 * j + 4 * t);
        }
    }
}

/* For any number of inputs; up to 64 outputs, the blockIdx.y-th 64. A stage is overwritten once its products are
 * done. */
template <int N>
__global__ __launch_bounds__(32 * MANY_WARPS, MANY_BLOCKS) void many(const __grid_constant__ struct linear_cuda a) {
    __shared__ uint4 weights[2][STAGE * N * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    const stages<N, 32 * MANY_WARPS> stages(a.weight, blocks_of(a.n_in, 16), weights);

    const struct place p = place_of(a, (blockIdx.x * MANY_WARPS + thread / 32) * 16 + g);
    const float *row[2] = {row_of(a, p, 0), row_of(a, p, 1)};
    auto load = [&](int i, unsigned k) {
        const float4 v = load4(row[i], k, a.n_in);
        return a.scale ? times(v, load4(a.scale + (size_t)p.frame[i] * a.n_in, k, a.n_in)) : v;
    };
    float mean[2] = {0, 0}, factor[2] = {1, 1};
    await();
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
    float4 x[STAGE][2][1];
#pragma unroll
    for (int k = 0; k < STAGE; k++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            x[k][i][0] = load(i, 16 * k + 4 * t);

    float c[N][4] = {};
    for (unsigned step = 0; step < stages.n_steps; step++) {
        const uint4 *w = stages.next(step) + lane;
#pragma unroll
        for (int k = 0; k < STAGE; k++) {
            if (step * STAGE + k >= stages.n_k)
                break;
            multiply_rows<1> rows;
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[k][i][0] = times(less(x[k][i][0], mean[i]), factor[i]);
            multiply_split(&rows, x[k]);
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[k][i][0] = load(i, ((step + 1) * STAGE + k) * 16 + 4 * t);
#pragma unroll
            for (int j = 0; j < N; j += 2)
                multiply<2>(&c[j], rows, 0, w + (k * N + j) * 32);
        }
    }
#pragma unroll
    for (int j = 0; j < N; j += 2)
        finish(a, &c[j], p, blockIdx.y * 8 * N + 8 * j + 4 * t);
}

/* The rows that a warp has stay in its registers from the first layer to the last: a lane's four sums of 16 outputs are
 * the four inputs that it needs of the next layer. */
template <int C, bool GATE>
__global__ __launch_bounds__(32 * CHAIN_WARPS,
                             CHAIN_BLOCKS) void chain(const __grid_constant__ struct linear_chain_cuda a) {
    constexpr int K = C / 16, GATE_TILES = C > 16 ? 8 : 4, GATE_STEPS = GATE ? C / 4 / GATE_TILES : 0,
                  PROJ_TILES = C / 8, OUT_TILES = 8, OUT_STEPS = C / 16;
    __shared__ uint4 weights[2][K * 8 * 32];
    const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
    auto copy = [&](int buffer, const float *from, int n_tiles, int step) {
        const uint4 *weight = (const uint4 *)from + step * K * n_tiles * 32;
        for (int i = (int)thread; i < K * n_tiles * 32; i += 32 * CHAIN_WARPS)
            __pipeline_memcpy_async(&weights[buffer][i], weight + i, 16);
    };
    auto bring = [&](int step) {
        if (step < GATE_STEPS)
            copy(step % 2, a.gate, GATE_TILES, step);
        else if (step == GATE_STEPS)
            copy(step % 2, a.proj, PROJ_TILES, 0);
        else if (step <= GATE_STEPS + OUT_STEPS)
            copy(step % 2, a.out, OUT_TILES, step - GATE_STEPS - 1);
        __pipeline_commit();
    };
    /* Makes a step's weights visible, and starts to load the next step's. */
    auto next = [&](int step) {
        __pipeline_wait_prior(0);
        __syncthreads();
        bring(step + 1);
        return &weights[step % 2][lane];
    };
    bring(0);

    const unsigned total = a.n_frames * a.n_rows, first = (blockIdx.x * CHAIN_WARPS + thread / 32) * 16 + g;
    const unsigned row[2] = {min(first, total - 1), min(first + 8, total - 1)};
    const bool real[2] = {first < total, first + 8 < total};
    float4 v[2][K];
    multiply_rows<K> rows;
    await();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < K; k++) {
            v[i][k] = *(const float4 *)((GATE ? a.x : a.product) + (size_t)row[i] * C + 16 * k + 4 * t);
            if (!GATE)
                v[i][k] = times(v[i][k],
                                *(const float4 *)(a.factor + (size_t)(row[i] / a.n_rows) * C + 16 * k + 4 * t));
        }
    if (GATE)
        normalise(v, t, C, a.norm_epsilon);
    multiply_split(&rows, v);

    if constexpr (GATE) {
#pragma unroll
        for (int step = 0; step < GATE_STEPS; step++) {
            const uint4 *w = next(step);
#pragma unroll
            for (int j = 0; j < GATE_TILES; j += 2) {
                float c[2][4] = {};
#pragma unroll
                for (int k = 0; k < K; k++)
                    multiply<2>(c, rows, k, w + (k * GATE_TILES + j) * 32);
                const int pair = (step * GATE_TILES + j) / 2;
                const float4 bias = *(const float4 *)(a.gate_bias + 16 * pair + 4 * t);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float2 two = make_float2((c[0][2 * i] + bias.x) * (c[0][2 * i + 1] + bias.y),
                                                   (c[1][2 * i] + bias.z) * (c[1][2 * i + 1] + bias.w));
                    float4 *products = &v[i][pair / 2];
                    if (pair % 2)
                        products->z = two.x, products->w = two.y;
                    else
                        products->x = two.x, products->y = two.y;
                }
            }
        }
        multiply_split(&rows, v);
    }

    const uint4 *w = next(GATE_STEPS);
#pragma unroll
    for (int j = 0; j < PROJ_TILES; j += 2) {
        float c[2][4] = {};
#pragma unroll
        for (int k = 0; k < K; k++)
            multiply<2>(c, rows, k, w + (k * PROJ_TILES + j) * 32);
        const unsigned o = 8 * j + 4 * t;
        const float4 bias = *(const float4 *)(a.proj_bias + o);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const size_t at = (size_t)row[i] * C + o;
            const float4 add = *(const float4 *)(a.x + at);
            const float4 y = make_float4(c[0][2 * i] + bias.x + add.x, c[0][2 * i + 1] + bias.y + add.y,
                                         c[1][2 * i] + bias.z + add.z, c[1][2 * i + 1] + bias.w + add.w);
            if (real[i])
                *(float4 *)(a.y + at) = y;
            v[i][j / 2] = y;
        }
    }
    normalise(v, t, C, a.norm_epsilon);
    multiply_split(&rows, v);

#pragma unroll 1
    for (int step = 0; step < OUT_STEPS; step++) {
        w = next(GATE_STEPS + 1 + step);
#pragma unroll
        for (int j = 0; j < OUT_TILES; j += 2) {
            float c[2][4] = {};
#pragma unroll
            for (int k = 0; k < K; k++)
                multiply<2>(c, rows, k, w + (k * OUT_TILES + j) * 32);
            const unsigned o = 8 * (unsigned)(step * OUT_TILES + j) + 4 * t;
            const float4 bias = *(const float4 *)(a.out_bias + o);
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (real[i])
                    *(float4 *)(a.z + (size_t)row[i] * 4 * C + o) = multiply_biased(c, i, bias);
        }
    }
}

template <int C> void launch_chain(const struct linear_chain_cuda *a, cudaStream_t stream) {
    start(a->gate ? chain<C, true> : chain<C, false>, blocks_of(a->n_frames * a->n_rows, 16 * CHAIN_WARPS),
          32 * CHAIN_WARPS, 0, stream, *a);
}

template <int N> void launch(const struct linear_cuda *a, cudaStream_t stream) {
    const unsigned n_warps = blocks_of(a->n_frames * a->n_rows, 16);
    if (a->n_in <= 16 * STAGE)
        start(few<N>, blocks_of(n_warps, FEW_WARPS), 32 * FEW_WARPS, 0, stream, *a);
    else
        start(many<N>, dim3(blocks_of(n_warps, MANY_WARPS), blocks_of(a->n_out, 8 * N)), 32 * MANY_WARPS, 0, stream,
              *a);
}

} // namespace

size_t linear_cuda_size(unsigned n_in, unsigned n_out) {
    const unsigned width = 8 * linear_cuda_tiles(n_out);
    return (size_t)blocks_of(n_in, 16) * 16 * blocks_of(n_out, width) * width;
}

void linear_cuda_put(float *packed, unsigned n_in, unsigned n_out, unsigned output, const float *weight) {
    const unsigned n = linear_cuda_tiles(n_out), n_k = blocks_of(n_in, 16), stage = output / (8 * n),
                   local = output % (8 * n);
    const unsigned tile = local / 16 * 2 + local % 4 / 2, g = local % 16 / 4 * 2 + local % 2;
    __half *halves = (__half *)packed;
    for (unsigned k = 0; k < n_in; k++) {
        const unsigned t = k % 16 / 4, pair = k % 4 / 2;
        const size_t lane = (((size_t)stage * n_k + k / 16) * n + tile) * 32 + 4 * g + t;
        const float w = fminf(fmaxf(weight[k], -65504.f), 65504.f); /* half's range */
        const __half high = __float2half_rn(w);
        halves[lane * 8 + pair * 2 + k % 2] = high;
        halves[lane * 8 + 4 + pair * 2 + k % 2] = __float2half_rn(MULTIPLY_REST * (w - __half2float(high)));
    }
}

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream) {
    with_tiles(a->n_out, [&](auto tiles) { launch<tiles.n>(a, stream); });
}

void linear_chain_cuda(const struct linear_chain_cuda *a, cudaStream_t stream) {
    switch (a->n_channels) {
    case 16: launch_chain<16>(a, stream); break;
    case 32: launch_chain<32>(a, stream); break;
    default: launch_chain<64>(a, stream); break;
    }
}
