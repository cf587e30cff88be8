/* multiply.cuh - a warp's product of small matrices on tensor cores, with float32 precision. Each number is split into
 * two of 16 bits, the second of which holds the remainder of the first; each product becomes three of these.
 *
 * Numbers are scaled by MULTIPLY_SCALE, because the remainder of a small one would otherwise be below half's normal
 * range. Tensor cores truncate sums, so each sum covers 16 products and the results are added in float.
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

enum { MULTIPLY_SCALE = 16 };

/* The number to be split, clipped at 4094. */
static inline __host__ __device__ float multiply_scaled(float x) {
    return fminf(fmaxf(MULTIPLY_SCALE * x, -65504.f), 65504.f);
}

static __device__ void multiply_split_pair(uint32_t *high, uint32_t *low, float x, float y) {
    x = multiply_scaled(x);
    y = multiply_scaled(y);
    const __half2 upper = __floats2half2_rn(x, y);
    const float2 kept = __half22float2(upper);
    *high = multiply_bits(upper);
    *low = multiply_bits(__floats2half2_rn(x - kept.x, y - kept.y));
}

/* Splits four columns of rows g and 8 + g. */
static __device__ void multiply_split(uint32_t high[4], uint32_t low[4], float4 row, float4 other) {
    multiply_split_pair(&high[0], &low[0], row.x, row.y);
    multiply_split_pair(&high[1], &low[1], other.x, other.y);
    multiply_split_pair(&high[2], &low[2], row.z, row.w);
    multiply_split_pair(&high[3], &low[3], other.z, other.w);
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

/* Multiplies N neighbouring tiles. b points to this lane's part of the first; the others follow 32 apart. The products
 * of one sum are spread out, so that none waits for another. */
template <int N>
static __device__ void multiply(float (*c)[4], const uint32_t high[4], const uint32_t low[4], const uint4 *b) {
    uint4 w[N];
    float sum[N][4] = {};
#pragma unroll
    for (int j = 0; j < N; j++)
        w[j] = b[32 * j];
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(sum[j], low, w[j].x, w[j].y);
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(sum[j], high, w[j].z, w[j].w);
#pragma unroll
    for (int j = 0; j < N; j++)
        multiply_halves(sum[j], high, w[j].x, w[j].y);
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            c[j][e] += sum[j][e] * (1.f / (MULTIPLY_SCALE * MULTIPLY_SCALE));
}

/* Four outputs of row g (i = 0) or 8 + g (1), from the sums of two neighbouring tiles. */
static __device__ float4 multiply_biased(const float (*c)[4], int i, float4 bias) {
    return make_float4(c[0][2 * i] + bias.x, c[0][2 * i + 1] + bias.y, c[1][2 * i] + bias.z,
                       c[1][2 * i + 1] + bias.w);
}

#endif
