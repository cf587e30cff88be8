/* Tiles of 128 rows by `width` outputs, a warp 32 by 32 of them; weights and inputs go through shared memory 32 inputs at
 * a time, the next 32 being on their way in registers meanwhile. Strides in shared memory keep the fragments' loads free
 * of bank conflicts. */
#include "kernels/linear/linear_cuda.h"

#include "kernels/linear/multiply.cuh"

namespace {

enum { TILE = 128, DEPTH = 32, A_STRIDE = DEPTH + 4, WARP_ROWS = 32, WARP_OUTS = 32, WIDE_ROWS = 64, WIDE_INS = 64 };

/* Up to four neighbours, zeros beyond n. */
__device__ float4 load4(const float *x, unsigned first, unsigned n, bool aligned) {
    if (first + 4 <= n && aligned)
        return *(const float4 *)(x + first);
    return make_float4(first < n ? x[first] : 0, first + 1 < n ? x[first + 1] : 0, first + 2 < n ? x[first + 2] : 0,
                       first + 3 < n ? x[first + 3] : 0);
}

/* Over the eight threads that share a row. */
__device__ float row_sum(float x) {
    for (int d = 1; d < 8; d *= 2)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}

/* What follows the sums of a warp, whose first row and output these are. */
__device__ void finish(const struct linear_cuda &a, const float c[2][4][4], unsigned first_row, unsigned first_out, unsigned g,
                       unsigned t) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned m = first_row + 8 * i + g, frame = m / a.n_rows, row = m - frame * a.n_rows;
        if (m >= a.n_frames * a.n_rows)
            continue;
        float *y = a.y + frame * a.y_frame + row * a.y_stride;
        const size_t added = frame * a.add_frame + row * a.add_stride;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned o = first_out + 8 * j + 2 * t;
            if (o >= a.n_out)
                continue;
            float2 bias = *(const float2 *)(a.bias + o), v;
            v.x = c[i / 2][j][i % 2 * 2] + bias.x;
            v.y = c[i / 2][j][i % 2 * 2 + 1] + bias.y;
            if (a.prelu) {
                float2 slope = *(const float2 *)(a.prelu + o);
                v.x = v.x < 0 ? v.x * slope.x : v.x;
                v.y = v.y < 0 ? v.y * slope.y : v.y;
            }
            if (a.gate) {
                y[o / 2] = v.x * v.y;
                continue;
            }
            if (a.add) {
                float2 add = *(const float2 *)(a.add + added + o);
                v.x += add.x, v.y += add.y;
            }
            if (a.skip) {
                float2 skip = *(const float2 *)(a.skip + added + o), blend = *(const float2 *)(a.blend + o);
                v.x += skip.x * blend.x, v.y += skip.y * blend.y;
            }
            if (o + 1 < a.n_out)
                *(float2 *)(y + o) = v;
            else
                y[o] = v.x;
        }
    }
}

template <int WIDTH> __global__ __launch_bounds__(4 * WIDTH, 512 / (4 * WIDTH)) void
linear(const __grid_constant__ struct linear_cuda a) {
    constexpr int THREADS = 4 * WIDTH, B_STRIDE = WIDTH + 8, N_ROWS = TILE * 8 / THREADS; /* rows that a thread loads */
    __shared__ __align__(16) float tile_a[TILE * A_STRIDE], tile_b[DEPTH * B_STRIDE];
    const unsigned thread = threadIdx.x, total = a.n_frames * a.n_rows, first_row = blockIdx.y * TILE;
    const unsigned width = (a.n_out + 31) / 32 * 32, first_out = blockIdx.x * WIDTH, column = thread % 8 * 4;
    const bool aligned = a.x_stride % 4 == 0 && a.x_frame % 4 == 0;

    const float *x[N_ROWS];
    const float *scale[N_ROWS];
    float mean[N_ROWS], factor[N_ROWS];
#pragma unroll
    for (int i = 0; i < N_ROWS; i++) {
        unsigned m = min(first_row + thread / 8 + i * (THREADS / 8), total - 1), frame = m / a.n_rows;
        x[i] = a.x + frame * a.x_frame + (m - frame * a.n_rows) * a.x_stride;
        scale[i] = a.scale + (size_t)frame * a.n_in;
        mean[i] = 0;
        factor[i] = 1;
    }
    if (a.norm_epsilon > 0) {
#pragma unroll
        for (int i = 0; i < N_ROWS; i++) {
            float sum = 0, squares = 0;
            for (unsigned k = column; k < a.n_in; k += DEPTH) {
                float4 v = *(const float4 *)(x[i] + k);
                sum += v.x + v.y + (v.z + v.w);
            }
            mean[i] = row_sum(sum) / a.n_in;
            for (unsigned k = column; k < a.n_in; k += DEPTH) {
                float4 v = *(const float4 *)(x[i] + k);
                v.x -= mean[i], v.y -= mean[i], v.z -= mean[i], v.w -= mean[i];
                squares += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
            }
            factor[i] = 1 / sqrtf(row_sum(squares) / a.n_in + a.norm_epsilon);
        }
    }

    float4 next_a[N_ROWS], next_b[2];
    auto load = [&](unsigned k) {
#pragma unroll
        for (int i = 0; i < N_ROWS; i++) {
            next_a[i] = load4(x[i], k + column, a.n_in, aligned);
            if (a.scale) {
                float4 s = load4(scale[i], k + column, a.n_in, true);
                next_a[i].x *= s.x, next_a[i].y *= s.y, next_a[i].z *= s.z, next_a[i].w *= s.w;
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned at = thread + i * THREADS, row = k + at / (WIDTH / 4);
            next_b[i] = make_float4(0, 0, 0, 0);
            if (row < a.n_in)
                next_b[i] = *(const float4 *)(a.weight + (size_t)row * width + first_out + at % (WIDTH / 4) * 4);
        }
    };
    auto keep = [&] {
#pragma unroll
        for (int i = 0; i < N_ROWS; i++) {
            float4 v = next_a[i];
            v.x = (v.x - mean[i]) * factor[i], v.y = (v.y - mean[i]) * factor[i];
            v.z = (v.z - mean[i]) * factor[i], v.w = (v.w - mean[i]) * factor[i];
            *(float4 *)(tile_a + (thread / 8 + i * (THREADS / 8)) * A_STRIDE + column) = v;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned at = thread + i * THREADS;
            *(float4 *)(tile_b + at / (WIDTH / 4) * B_STRIDE + at % (WIDTH / 4) * 4) = next_b[i];
        }
    };

    const unsigned warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    const unsigned warp_row = warp / (WIDTH / WARP_OUTS) * WARP_ROWS, warp_out = warp % (WIDTH / WARP_OUTS) * WARP_OUTS;
    float c[2][4][4] = {};
    load(0);
    for (unsigned k = 0; k < a.n_in; k += DEPTH) {
        __syncthreads();
        keep();
        __syncthreads();
        if (k + DEPTH < a.n_in)
            load(k + DEPTH);
        multiply<2, 4, DEPTH, A_STRIDE, B_STRIDE>(c, tile_a + warp_row * A_STRIDE, tile_b + warp_out, g, t);
    }

    finish(a, c, first_row + warp_row, first_out + warp_out, g, t);
}

/* For the norm of few inputs and many outputs: a block keeps its rows' inputs, normed once, and goes through all outputs, 64 at a time. */
__global__ __launch_bounds__(2 * WIDE_ROWS, 256 / WIDE_ROWS) void wide(const __grid_constant__ struct linear_cuda a) {
    constexpr int ROWS = WIDE_ROWS, INS = WIDE_INS, THREADS = 2 * ROWS, WIDTH = 64, A_STRIDE = INS + 4, B_STRIDE = WIDTH + 8;
    constexpr int N_ROWS = ROWS * 8 / THREADS, N_PIECES = INS / DEPTH, N_WEIGHTS = INS * WIDTH / 4 / THREADS;
    __shared__ __align__(16) float tile_a[ROWS * A_STRIDE], tile_b[INS * B_STRIDE];
    const unsigned thread = threadIdx.x, total = a.n_frames * a.n_rows, first_row = blockIdx.x * ROWS;
    const unsigned width = (a.n_out + 31) / 32 * 32, column = thread % 8 * 4;

    float4 weights[N_WEIGHTS];
    auto load = [&](unsigned first_out) {
#pragma unroll
        for (int i = 0; i < N_WEIGHTS; i++) {
            const unsigned at = thread + i * THREADS, k = at / (WIDTH / 4);
            weights[i] = make_float4(0, 0, 0, 0);
            if (k < a.n_in)
                weights[i] = *(const float4 *)(a.weight + (size_t)k * width + first_out + at % (WIDTH / 4) * 4);
        }
    };
    load(0);

#pragma unroll
    for (int i = 0; i < N_ROWS; i++) {
        const unsigned local = thread / 8 + i * (THREADS / 8), m = min(first_row + local, total - 1), frame = m / a.n_rows;
        const float *x = a.x + frame * a.x_frame + (m - frame * a.n_rows) * a.x_stride;
        float4 v[N_PIECES];
        float sum = 0, squares = 0;
#pragma unroll
        for (int p = 0; p < N_PIECES; p++) {
            const unsigned k = column + p * DEPTH;
            v[p] = k < a.n_in ? *(const float4 *)(x + k) : make_float4(0, 0, 0, 0);
            sum += v[p].x + v[p].y + (v[p].z + v[p].w);
        }
        const float mean = row_sum(sum) / a.n_in;
#pragma unroll
        for (int p = 0; p < N_PIECES; p++) {
            v[p].x -= mean, v[p].y -= mean, v[p].z -= mean, v[p].w -= mean;
            if (column + p * DEPTH < a.n_in)
                squares += v[p].x * v[p].x + v[p].y * v[p].y + (v[p].z * v[p].z + v[p].w * v[p].w);
        }
        const float factor = 1 / sqrtf(row_sum(squares) / a.n_in + a.norm_epsilon);
#pragma unroll
        for (int p = 0; p < N_PIECES; p++)
            *(float4 *)(tile_a + local * A_STRIDE + column + p * DEPTH) =
                make_float4(v[p].x * factor, v[p].y * factor, v[p].z * factor, v[p].w * factor);
    }

    const unsigned warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    const unsigned warp_row = warp / (WIDTH / WARP_OUTS) * WARP_ROWS, warp_out = warp % (WIDTH / WARP_OUTS) * WARP_OUTS;
    for (unsigned first_out = 0; first_out < width; first_out += WIDTH) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N_WEIGHTS; i++) {
            const unsigned at = thread + i * THREADS;
            *(float4 *)(tile_b + at / (WIDTH / 4) * B_STRIDE + at % (WIDTH / 4) * 4) = weights[i];
        }
        __syncthreads();
        if (first_out + WIDTH < width)
            load(first_out + WIDTH);
        float c[2][4][4] = {};
        multiply<2, 4, INS, A_STRIDE, B_STRIDE>(c, tile_a + warp_row * A_STRIDE, tile_b + warp_out, g, t);
        finish(a, c, first_row + warp_row, first_out + warp_out, g, t);
    }
}

} // namespace

void linear_cuda(const struct linear_cuda *a, cudaStream_t stream) {
    unsigned width = linear_cuda_width(a->n_out), n_tiles = (a->n_frames * a->n_rows + TILE - 1) / TILE;
    if (a->norm_epsilon > 0 && a->n_in <= WIDE_INS && width % 64 == 0 && width > 64) {
        n_tiles = (a->n_frames * a->n_rows + WIDE_ROWS - 1) / WIDE_ROWS;
        wide<<<n_tiles, 2 * WIDE_ROWS, 0, stream>>>(*a);
    } else if (width % 64)
        linear<32><<<dim3(width / 32, n_tiles), 128, 0, stream>>>(*a);
    else
        linear<64><<<dim3(width / 64, n_tiles), 256, 0, stream>>>(*a);
}
