/* LANES positions at a time, so that their means and scales are one vector each. */
#include "kernels/norm/norm.h"
#include "kernels/simd.h"

#include <stddef.h>

static inline __attribute__((always_inline)) void norm_rows(const struct norm *a, unsigned row, const unsigned rows) {
    const float share = 1.f / (float)a->n_channels;
    const float *x = a->x + (size_t)row * a->n_channels;
    float *y = a->y + (size_t)row * a->n_channels;
    const size_t n = a->n_channels;
    vf sum[LANES], means, scales;
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = splat(0);
    for (unsigned c = 0; c < n; c += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] += load(x + r * n + c);
    }
    means = across_each(sum) * share;
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = splat(0);
    for (unsigned c = 0; c < n; c += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            vf d = load(x + r * n + c) - splat(means[r]);
            sum[r] += d * d;
        }
    }
    scales = inverse_root(across_each(sum) * share + a->epsilon);
    for (unsigned c = 0; c < n; c += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            store(y + r * n + c, (load(x + r * n + c) - splat(means[r])) * splat(scales[r]));
    }
}

static void norm_cpu(const struct norm *a) {
    unsigned row = 0;
    for (; row + LANES <= a->n_rows; row += LANES)
        norm_rows(a, row, LANES);
    for (; row < a->n_rows; row++)
        norm_rows(a, row, 1);
}
