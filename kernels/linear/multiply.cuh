/* multiply.cuh - a warp's product of small matrices on tensor cores, with float32's range and nearly its precision.
 * Each number is split into two of 16 bits, the second of which holds the remainder of the first; each product becomes
 * three of these.
 *
 * Half's range ends at 65504, so each row of inputs is first scaled by a power of two of its own, which is taken back
 * from the sums. Remainders are scaled by MULTIPLY_REST, as those of small numbers would be below half's range; so their
 * products have a sum of their own. Tensor cores truncate sums, so each sum covers 16 products and the results are added
 * in float.
 *
 * c [16][8] += a [16][16] b [16][8]. With g = lane / 4 and t = lane % 4, a lane holds rows g and 8 + g, columns 4 t
 * to 4 t + 3, of a. b is packed in the order in which lanes load it (linear_cuda_put). Of two neighbouring tiles,
 * together 16 columns, a lane gets columns 4 t to 4 t + 3, the first two from the first tile, of rows g (c[0], c[1])
 * and 8 + g. */
#ifndef PRIMEKNET_MULTIPLY_CUH
#define PRIMEKNET_MULTIPLY_CUH

#include <cuda_fp16.h>
#include <stddef.h>
#include <stdint.h>

static __device__ uint32_t multiply_bits(__half2 x) {
    return *(const uint32_t *)&x;
}

enum { MULTIPLY_REST = 1 << 11 };

/* Rows g and 8 + g of a, split: 16 columns in each of K parts. */
template <int K> struct multiply_rows {
    uint32_t high[K][4], low[K][4];
    float back[2]; /* what a sum of row g, 8 + g is multiplied with */
};

static __device__ float multiply_largest(float4 x) {
    return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}

static __device__ void multiply_split_pair(uint32_t *high, uint32_t *low, float x, float y) {
    const __half2 upper = __floats2half2_rn(x, y);
    const float2 kept = __half22float2(upper);
    *high = multiply_bits(upper);
    *low = multiply_bits(__floats2half2_rn(MULTIPLY_REST * (x - kept.x), MULTIPLY_REST * (y - kept.y)));
}

/* Splits four columns of each part of rows g, x[0], and 8 + g, x[1]. The power of two brings a row's largest number to
 * 2^14 or up to twice that. */
template <int K> static __device__ void multiply_split(multiply_rows<K> *rows, const float4 (&x)[2][K]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float largest = 0;
#pragma unroll
        for (int k = 0; k < K; k++)
            largest = fmaxf(largest, multiply_largest(x[i][k]));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1)); /* the four lanes that share the row */
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        const int exponent = max(__float_as_int(largest) >> 23, 15); /* with float's bias, 127 */
        const float scale = __int_as_float((127 + 127 + 14 - exponent) << 23);
        rows->back[i] = __int_as_float((exponent - 14) << 23);
#pragma unroll
        for (int k = 0; k < K; k++) {
            const float4 v = x[i][k];
            multiply_split_pair(&rows->high[k][i], &rows->low[k][i], v.x * scale, v.y * scale);
            multiply_split_pair(&rows->high[k][2 + i], &rows->low[k][2 + i], v.z * scale, v.w * scale);
        }
    }
}

static __device__ void multiply_halves(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

/* Multiplies part k with N neighbouring tiles. b points to this lane's share of the first; the others follow 32 apart.
 * The products of one sum are spread out, so that none waits for another. */
template <int N, int K>
static __device__ void multiply(float (*c)[4], const multiply_rows<K> &a, int k, const uint4 *b) {
    uint4 w[N];
    float sum[N][4] = {}, rest[N][4] = {};
#pragma unroll
    for (int j = 0; j < N; j++)
        w[j] = b[32 * j];
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(rest[j], a.low[k], w[j].x, w[j].y);
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(sum[j], a.high[k], w[j].x, w[j].y);
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(rest[j], a.high[k], w[j].z, w[j].w);
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            c[j][e] += (sum[j][e] + rest[j][e] * (1.f / MULTIPLY_REST)) * a.back[e / 2];
}

/* Four outputs of row g (i = 0) or 8 + g (1), from the sums of two neighbouring tiles. */
static __device__ float4 multiply_biased(const float (*c)[4], int i, float4 bias) {
    return make_float4(c[0][2 * i] + bias.x, c[0][2 * i + 1] + bias.y, c[1][2 * i] + bias.z, c[1][2 * i + 1] + bias.w);
}

#endif
