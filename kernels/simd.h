/* simd.h - vectors of LANES floats in GNU C, for the kernels: the compiler maps them to the instruction set that the
 * file is compiled for. Functions are elementwise unless they say otherwise. */
#ifndef PRIMEKNET_SIMD_H
#define PRIMEKNET_SIMD_H

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif

#ifdef __SSE__
#include <immintrin.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(LANES * sizeof(float))));
typedef int vi __attribute__((vector_size(LANES * sizeof(int))));
typedef float vf_unaligned __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int int_alias __attribute__((may_alias));

static inline vf load(const float *p) {
    return *(const vf_unaligned *)p;
}

static inline void store(float *p, vf x) {
    *(vf_unaligned *)p = x;
}

static inline vf splat(float x) {
    return x - (vf){0};
}

/* GNU C has no minimum; the compilers do not reliably see one in a comparison and a choice. */
static inline vf maximum(vf a, vf b) {
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE__
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    vi above = a > b;
    return (vf)(((vi)a & above) | ((vi)b & ~above));
#endif
}

static inline vf minimum(vf a, vf b) {
    return -maximum(-a, -b);
}

/* The sum of all elements. */
static inline float across(vf x) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)x);
#elif defined __SSE__
#if LANES == 8
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
#else
    __m128 sum = (__m128)x;
#endif
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps(sum, sum, 1)));
#else
    float sum = 0;
    for (unsigned i = 0; i < LANES; i++)
        sum += x[i];
    return sum;
#endif
}

/* 2^x for x in [-126, 127], to 1e-7 of it: x = n + f, |f| <= 1/2; a minimax polynomial for 2^f, exact at 0; n goes into
 * the exponent. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits. */
static inline vf exp2_bounded(vf x) {
    vf shifted = x + 0x1.8p23f, f = x - (shifted - 0x1.8p23f);
    vf y = 1.32647271e-3f * f + 9.67151273e-3f;
    y = y * f + 5.55073374e-2f;
    y = y * f + 2.40222421e-1f;
    y = y * f + 6.93146978e-1f;
    y = y * f + 1.f;
    return (vf)((vi)y + ((vi)shifted << 23));
}

/* 2^x for x <= 0; 2^-126 stands for everything below. */
static inline vf exp2_negative(vf x) {
    return exp2_bounded(maximum(x, splat(-126)));
}

#define LOG2_E 1.44269504f

/* 1 + exp(-x) */
static inline vf above_one(vf x) {
    return 1.f + exp2_bounded(minimum(maximum(x * -LOG2_E, splat(-126)), splat(126)));
}

/* 1 / (1 + exp(-x)) */
static inline vf sigmoid(vf x) {
    return 1.f / above_one(x);
}

/* x / (1 + exp(-x)) */
static inline vf silu(vf x) {
    return x / above_one(x);
}

/* tanh(x), to 1e-7 of 1 (not of itself) */
static inline vf hyperbolic_tangent(vf x) {
    return 2.f / above_one(x + x) - 1.f;
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|); log(1 + t) = 2 artanh(v), v = t / (2 + t) <= 1/3, by a
 * minimax polynomial in v^2, to 4e-9 of it: small steps keep their relative precision. */
static inline vf softplus(vf x) {
    vf positive = maximum(x, splat(0)), t = exp2_negative((positive + maximum(-x, splat(0))) * -LOG2_E);
    vf v = t / (2.f + t), w = v * v;
    vf y = 0.140891662f * w + 0.139803018f;
    y = y * w + 0.200124551f;
    y = y * w + 0.333331573f;
    y = y * w + 1.f;
    return positive + 2.f * v * y;
}

#endif
