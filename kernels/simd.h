/* simd.h - vectors of LANES floats in GNU C, which the compiler maps to the target's instruction set. Functions are
 * elementwise unless documented otherwise. */
#ifndef PRIMEKNET_SIMD_H
#define PRIMEKNET_SIMD_H

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#ifdef __SSE__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(LANES * sizeof(float))));
typedef int vi __attribute__((vector_size(LANES * sizeof(int))));
typedef float vf_unaligned __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
#ifdef __clang__
#define FOLD(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define FOLD(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

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

static inline vf magnitude(vf x) {
    return (vf)((vi)x & INT_MAX);
}

/* GNU C has no minimum or maximum, and compilers do not reliably recognise one in a comparison with a selection. */
static inline vf maximum(vf a, vf b) {
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE__
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#elif defined __aarch64__
    return (vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    vi above = a > b;
    return (vf)(((vi)a & above) | ((vi)b & ~above));
#endif
}

static inline vf minimum(vf a, vf b) {
#if LANES == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return -maximum(-a, -b);
#endif
}

/* Rows that one kernel writes for another: floats, or pairs, each in the place of a float. put() makes bfloat16 pairs
 * only. */
struct rows {
    float *v;      /* the row that put() writes to */
    size_t stride; /* in floats */
    bool pairs;
};

static inline struct rows rows_from(struct rows to, unsigned row) {
    to.v += row * to.stride;
    return to;
}

static inline void put(struct rows to, size_t i, vf v) {
#ifdef __AVX512BF16__
    if (to.pairs) {
        *(__m256i_u *)(to.v + i / 2) = (__m256i)_mm512_cvtneps_pbh((__m512)v);
        return;
    }
#endif
    store(to.v + i, v);
}

/* Returns the sum of all elements. */
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

/* Element i of the result is the sum of the elements of x[i]. Pairs of vectors are folded into one by adding even and
 * odd elements (later quarters), which halves their number each time, so a sum costs two or three instructions.
 * Destroys x. */
static inline vf across_each(vf x[LANES]) {
#if LANES == 16
    UNROLL
    for (unsigned i = 0; i < 8; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
               FOLD(x[2 * i], x[2 * i + 1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
    UNROLL
    for (unsigned i = 0; i < 4; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
               FOLD(x[2 * i], x[2 * i + 1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
    UNROLL
    for (unsigned i = 0; i < 2; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
               FOLD(x[2 * i], x[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    return FOLD(x[0], x[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           FOLD(x[0], x[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#elif LANES == 8
    UNROLL
    for (unsigned i = 0; i < 4; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
               FOLD(x[2 * i], x[2 * i + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    UNROLL
    for (unsigned i = 0; i < 2; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
               FOLD(x[2 * i], x[2 * i + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    return FOLD(x[0], x[1], 0, 1, 2, 3, 8, 9, 10, 11) + FOLD(x[0], x[1], 4, 5, 6, 7, 12, 13, 14, 15);
#else
    UNROLL
    for (unsigned i = 0; i < 2; i++)
        x[i] = FOLD(x[2 * i], x[2 * i + 1], 0, 2, 4, 6) + FOLD(x[2 * i], x[2 * i + 1], 1, 3, 5, 7);
    return FOLD(x[0], x[1], 0, 2, 4, 6) + FOLD(x[0], x[1], 1, 3, 5, 7);
#endif
}

/* Returns x with its halves swapped. */
static inline vf other_half(vf x) {
#if LANES == 16
    return FOLD(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#elif LANES == 8
    return FOLD(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
#else
    return FOLD(x, x, 2, 3, 0, 1);
#endif
}

/* Returns the greatest element. */
static inline float greatest(vf x) {
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)x);
#else
    x = maximum(x, other_half(x));
#if LANES == 8
    x = maximum(x, FOLD(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
    x = maximum(x, FOLD(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#else
    x = maximum(x, FOLD(x, x, 1, 0, 3, 2));
#endif
    return x[0];
#endif
}

/* 1 / x, for positive normal x. */
static inline vf inverse(vf x) {
#if LANES == 16 /* division is slow: an estimate and one step of Newton's method */
    vf y = (vf)_mm512_rcp14_ps((__m512)x);
    return y + y * (1.f - x * y);
#else
    return 1.f / x;
#endif
}

/* 1 / sqrt(x), for positive normal x. */
static inline vf inverse_root(vf x) {
#if LANES == 16
    vf y = (vf)_mm512_rsqrt14_ps((__m512)x);
    return y + .5f * y * (1.f - x * y * y);
#elif LANES == 8
    return 1.f / (vf)_mm256_sqrt_ps((__m256)x);
#elif defined __SSE__
    return 1.f / (vf)_mm_sqrt_ps((__m128)x);
#elif defined __aarch64__
    return 1.f / (vf)vsqrtq_f32((float32x4_t)x);
#else
    for (unsigned i = 0; i < LANES; i++)
        x[i] = 1.f / __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* How many vectors of such a function a kernel computes in parallel. */
enum { ABREAST = 4 };

/* x[i] = 2^x[i] for n values <= 127, with a relative error of 1e-7 (4e-6 if `rough`), exact at 0; where 2^x is below
 * 2^-126, the result is at most 2^-126. Splits x = k + f, evaluates a minimax polynomial for 2^f, and adds k to the
 * exponent. Adding 1.5 times a power of two rounds x and leaves k in the low bits. AVX-512 has a table of 2^(i / 32) in
 * two registers, AVX2 one of 2^(i / 8) in one: k then counts 32nds or eighths, and the polynomial is shorter. Each
 * value is a long chain of dependent instructions, so the n values, a compile-time constant of at most ABREAST, advance
 * one step at a time together. */
static inline __attribute__((always_inline)) void exp2_each(vf *x, const unsigned n, const bool rough) {
    vf shifted[ABREAST], y[ABREAST];
#define EACH UNROLL for (unsigned i = 0; i < n; i++)
#if LANES == 16
    static const unsigned powers[] __attribute__((aligned(64))) = {
        0x3f800000, 0x3f82cd87, 0x3f85aac3, 0x3f88980f, 0x3f8b95c2, 0x3f8ea43a, 0x3f91c3d3, 0x3f94f4f0,
        0x3f9837f0, 0x3f9b8d3a, 0x3f9ef532, 0x3fa27043, 0x3fa5fed7, 0x3fa9a15b, 0x3fad583f, 0x3fb123f6,
        0x3fb504f3, 0x3fb8fbaf, 0x3fbd08a4, 0x3fc12c4d, 0x3fc5672a, 0x3fc9b9be, 0x3fce248c, 0x3fd2a81e,
        0x3fd744fd, 0x3fdbfbb8, 0x3fe0ccdf, 0x3fe5b907, 0x3feac0c7, 0x3fefe4ba, 0x3ff5257d, 0x3ffa83b3,
    };
    vf power[ABREAST];
    (void)rough;
    EACH shifted[i] = x[i] + 0x1.8p18f;
    EACH power[i] = (vf)_mm512_permutex2var_epi32(_mm512_load_si512(powers), (__m512i)shifted[i],
                                                  _mm512_load_si512(powers + 16));
    EACH shifted[i] -= 0x1.8p18f;
    EACH x[i] -= shifted[i];
    EACH y[i] = 2.40228862e-1f * x[i] + 6.93157315e-1f;
    EACH y[i] = (y[i] * x[i] + 1.f) * power[i];
    EACH x[i] = (vf)_mm512_scalef_ps((__m512)y[i], (__m512)shifted[i]); /* times 2^k */
#elif LANES == 8 /* too few registers: one value after the other */
    const vi powers = {/* less i eighths in the exponent, which come with k */
                       0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
    EACH {
        shifted[i] = x[i] + 0x1.8p20f;
        x[i] -= shifted[i] - 0x1.8p20f;
        const vi k = (vi)_mm256_max_epi32((__m256i)shifted[i], _mm256_castps_si256(_mm256_set1_ps(0x1.8p20f - 126)));
        y[i] = (vf)((vi)_mm256_permutevar8x32_epi32((__m256i)powers, (__m256i)k) + (k << 20));
        y[i] += y[i] * x[i] *
                (rough ? 2.40226507e-1f * x[i] + 6.93309810e-1f
                       : (5.55041087e-2f * x[i] + 2.40257617e-1f) * x[i] + 6.93147181e-1f);
        x[i] = y[i];
    }
#else
    (void)rough;
    EACH {
        x[i] = maximum(x[i], splat(-126));
        shifted[i] = x[i] + 0x1.8p23f;
        x[i] -= shifted[i] - 0x1.8p23f;
        y[i] = 1.32647271e-3f * x[i] + 9.67151273e-3f;
        y[i] = y[i] * x[i] + 5.55073374e-2f;
        y[i] = y[i] * x[i] + 2.40222421e-1f;
        y[i] = y[i] * x[i] + 6.93146978e-1f;
        y[i] = y[i] * x[i] + 1.f;
        x[i] = (vf)((vi)y[i] + ((vi)shifted[i] << 23));
    }
#endif
#undef EACH
}

static inline vf exp2_bounded(vf x) {
    exp2_each(&x, 1, false);
    return x;
}

#define LOG2_E 1.44269504f

/* 1 + exp(-x) */
static inline vf above_one(vf x) {
    return 1.f + exp2_bounded(minimum(x * -LOG2_E, splat(126)));
}

/* 1 / (1 + exp(-x)) */
static inline vf sigmoid(vf x) {
    return inverse(above_one(x));
}

/* x / (1 + exp(-x)) */
static inline vf silu(vf x) {
    return x * inverse(above_one(x));
}

/* tanh(x), with an absolute error of 1e-7 */
static inline vf hyperbolic_tangent(vf x) {
    return 2.f * inverse(above_one(x + x)) - 1.f;
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|). log(1 + t) = 2 artanh(v), v = t / (2 + t) <= 1/3, by a
 * minimax polynomial in v^2 with a relative error of 4e-9, so that small steps keep their precision. */
static inline vf softplus(vf x) {
    vf positive = maximum(x, splat(0)), t = exp2_bounded((vf)((vi)x | INT_MIN) * LOG2_E); /* setting the sign bit gives
                                                                                           * -|x| */
    vf v = t * inverse(2.f + t), w = v * v;
    vf y = 0.140891662f * w + 0.139803018f;
    y = y * w + 0.200124551f;
    y = y * w + 0.333331573f;
    y = y * w + 1.f;
    return positive + 2.f * v * y;
}

#endif
