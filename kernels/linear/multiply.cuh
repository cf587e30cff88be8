/* multiply.cuh - a warp's product of small matrices in shared memory, to float32's precision: by tensor cores where there
 * are some for TF32 (compute capability 8.0), each product being three of theirs, of the numbers' upper and lower halves.
 *
 * c [16 M][8 N] += a [16 M][K] b [K][8 N]. A thread holds of c, for i < M and j < N, the rows 16 i + g and 16 i + 8 + g and
 * the columns 8 j + 2 t and the next, g = lane / 4, t = lane % 4: c[i][j] = {row g, row g, row 8 + g, row 8 + g}. Banks do
 * not conflict where A_STRIDE % 32 is 4 and B_STRIDE % 32 is 8. */
#ifndef PRIMEKNET_MULTIPLY_CUH
#define PRIMEKNET_MULTIPLY_CUH

#include <stdint.h>

#if __CUDA_ARCH__ >= 800
/* The nearest number of TF32, in integer arithmetic: the conversion's own instruction is slower. */
static __device__ uint32_t multiply_upper(float x) {
    return (__float_as_uint(x) + 0x1000) & 0xffffe000;
}

static __device__ void multiply_tile(float c[4], const uint32_t a[4], const uint32_t b[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

template <int M, int N, int K, int A_STRIDE, int B_STRIDE>
static __device__ void multiply(float c[M][N][4], const float *a, const float *b, unsigned g, unsigned t) {
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int k = 0; k < K; k += 8) {
        uint32_t high_a[M][4], low_a[M][4], high_b[N][2], low_b[N][2];
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float x = a[(16 * i + g + 8 * (e & 1)) * A_STRIDE + k + t + 4 * (e >> 1)];
                high_a[i][e] = multiply_upper(x);
                low_a[i][e] = __float_as_uint(x - __uint_as_float(high_a[i][e]));
            }
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float x = b[(k + t + 4 * e) * B_STRIDE + 8 * j + g];
                high_b[j][e] = multiply_upper(x);
                low_b[j][e] = __float_as_uint(x - __uint_as_float(high_b[j][e]));
            }
        /* Tile by tile, each of the three: one sum's products are then apart, and none waits for the other. */
#pragma unroll
        for (int part = 0; part < 3; part++)
#pragma unroll
            for (int i = 0; i < M; i++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    multiply_tile(c[i][j], part == 0 ? low_a[i] : high_a[i], part == 1 ? low_b[j] : high_b[j]);
    }
#else
#pragma unroll 8
    for (int k = 0; k < K; k++) {
        float rows[2 * M];
#pragma unroll
        for (int i = 0; i < 2 * M; i++)
            rows[i] = a[(8 * i + g) * A_STRIDE + k];
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float2 w = *(const float2 *)(b + k * B_STRIDE + 8 * j + 2 * t);
#pragma unroll
            for (int i = 0; i < 2 * M; i++) {
                c[i / 2][j][i % 2 * 2] += rows[i] * w.x;
                c[i / 2][j][i % 2 * 2 + 1] += rows[i] * w.y;
            }
        }
    }
#endif
}

#endif
