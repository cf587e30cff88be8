/* fft.h - a real Fourier transform, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k / n) for k <= n / 2, or back: n x. The
 * imaginary parts of the first and the last bin are taken for 0 on the way back.
 *
 * n is an even product of 2, 3 and 5, at least 32. A plan is one transform's tables and scratch: for one thread at a time. */
#ifndef PRIMEKNET_KERNELS_FFT_H
#define PRIMEKNET_KERNELS_FFT_H

#include <stdbool.h>
#include <stddef.h>

enum { FFT_MAX_PASSES = 12, FFT_PAD = 16 };

/* Stockham's algorithm. Before a pass there are s transforms of the same length side by side, and m * radix points to go:
 * y[q + s (radix p + k)] = w^(p k) sum_j v^(j k) x[q + s (p + m j)], w and v being the roots of 1 of order m * radix and
 * radix. The first pass has s = 1, so vectors run over its k, at least 16 of them, which are padded to whole vectors;
 * later they run over q. */
struct fft_plan {
    unsigned n, first, n_passes; /* first: the first pass's radix, the least divisor of n from 16 on */
    bool inverse;
    float *matrix, *turns;          /* of the first pass: v^(j k), w^(p k); [j] and [p], each [2][padded first] */
    unsigned radix[FFT_MAX_PASSES]; /* of the others */
    float *roots[FFT_MAX_PASSES];   /* [p][k][j][2]: w^(p k) v^(j k) */
    float *re[2], *im[2];           /* [n / first][padded first] */
};

struct fft {
    const struct fft_plan *plan;
    const float *in; /* x [n], or X [n / 2 + 1][2] */
    float *out;      /* the other */
};

static inline unsigned fft_padded(unsigned first) {
    return (first + FFT_PAD - 1) / FFT_PAD * FFT_PAD;
}

/* How many floats the plan's arrays take. They are `memory`, aligned to 64 bytes, or NULL: then this only counts. */
size_t fft_plan_init(struct fft_plan *plan, float *memory, unsigned n, bool inverse);

void fft_ref(const struct fft *a);

#endif
