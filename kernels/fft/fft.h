/* fft.h - a real Fourier transform, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k / n) for k <= n / 2, and its inverse,
 * which returns n x and takes the imaginary parts of the first and last bin as 0.
 *
 * n is an even product of 2, 3 and 5, at least 32. A plan holds the tables and scratch of one transform and serves one
 * thread at a time. */
#ifndef PRIMEKNET_KERNELS_FFT_H
#define PRIMEKNET_KERNELS_FFT_H

#include <stdbool.h>
#include <stddef.h>

enum { FFT_MAX_PASSES = 12, FFT_PAD = 16 };

/* Stockham's algorithm. Before a pass there are s interleaved transforms of equal length, with m * radix points to go:
 *   y[q + s (radix p + k)] = w^(p k) sum_j v^(j k) x[q + s (p + m j)],
 * where w and v are the roots of unity of order m * radix and radix. In the first pass s = 1, so vectors run over its
 * k, at least 16 of them, padded to whole vectors; later vectors run over q. */
struct fft_plan {
    unsigned n, first, n_passes; /* first: radix of the first pass, the least divisor of n that is at least 16 */
    bool inverse;
    float *matrix, *turns;          /* first pass: v^(j k), w^(p k); [j] and [p], each [2][padded first] */
    unsigned radix[FFT_MAX_PASSES]; /* of the other passes */
    float *roots[FFT_MAX_PASSES];   /* [p][k][j][2]: w^(p k) v^(j k) */
    float *re[2], *im[2];           /* [n / first][padded first] */
};

struct fft {
    const struct fft_plan *plan;
    const float *in; /* x [n], or X [n / 2 + 1][2] */
    float *out;      /* the other one of x and X */
};

static inline unsigned fft_padded(unsigned first) {
    return (first + FFT_PAD - 1) / FFT_PAD * FFT_PAD;
}

/* Places the plan's arrays in `memory`, aligned to 64 bytes, and returns how many floats they take. If memory is NULL,
 * it only counts. */
size_t fft_plan_init(struct fft_plan *plan, float *memory, unsigned n, bool inverse);

void fft_ref(const struct fft *a);

#endif
