/* The first pass reads the input in place and multiplies it by vectors of its matrix, for FFT_ROWS transforms at once.
 * It needs only half of a spectrum, because the rest is its mirror image. The last pass computes only the needed
 * outputs. */
#include "kernels/fft/fft.h"
#include "kernels/simd.h"

#include <stddef.h>

enum { FFT_ROWS = 4 };

static inline __attribute__((always_inline)) void fft_first_rows(const struct fft *a, unsigned p, const unsigned rows,
                                                                 const bool inverse) {
    const struct fft_plan *plan = a->plan;
    const unsigned first = plan->first, padded = fft_padded(first), m = plan->n / first;
    for (unsigned k = 0; k < padded; k += LANES) {
        vf re[FFT_ROWS], im[FFT_ROWS];
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            re[r] = im[r] = splat(0);
        const float *root = plan->matrix + k;
        for (unsigned j = 0; j < (inverse ? (first + 1) / 2 : first); j++, root += 2 * padded) {
            const vf root_re = load(root), root_im = load(root + padded);
            const float *x = a->in + (inverse ? 2 : 1) * (p + m * j);
            UNROLL
            for (unsigned r = 0; r < rows; r++) {
                re[r] += root_re * x[inverse ? 2 * r : r];
                im[r] += root_im * x[inverse ? 2 * r : r];
                if (inverse) {
                    re[r] -= root_im * x[2 * r + 1];
                    im[r] += root_re * x[2 * r + 1];
                }
            }
        }
        for (unsigned j = (first + 1) / 2; inverse && j < first; j++, root += 2 * padded) { /* bins beyond the last one,
                                                                                             * by symmetry */
            const vf root_re = load(root), root_im = load(root + padded);
            const float *x = a->in + 2 * (m * (first - j) - p);
            UNROLL
            for (unsigned r = 0; r < rows; r++, x -= 2) {
                re[r] += root_re * x[0] + root_im * x[1];
                im[r] += root_im * x[0] - root_re * x[1];
            }
        }
        if (inverse && p == 0)
            im[0] = splat(0); /* discards what the first and last bins' imaginary parts contributed */
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const float *turn = plan->turns + (p + r) * 2 * padded + k;
            const vf turn_re = load(turn), turn_im = load(turn + padded);
            const vf y_re = re[r] * turn_re - im[r] * turn_im, y_im = re[r] * turn_im + im[r] * turn_re;
            store(plan->re[0] + (p + r) * padded + k, y_re);
            store(plan->im[0] + (p + r) * padded + k, y_im);
            if (inverse && p + r > 0) {
                store(plan->re[0] + (m - p - r) * padded + k, y_re);
                store(plan->im[0] + (m - p - r) * padded + k, -y_im);
            }
        }
    }
}

static inline __attribute__((always_inline)) void fft_first(const struct fft *a, const bool inverse) {
    const unsigned m = a->plan->n / a->plan->first, n = inverse ? m / 2 + 1 : m;
    unsigned p = 0;
    for (; p + FFT_ROWS <= n; p += FFT_ROWS)
        fft_first_rows(a, p, FFT_ROWS, inverse);
    for (; p < n; p++)
        fft_first_rows(a, p, 1, inverse);
}

/* Transforms one pair of arrays to the other, and writes the first n_out results. */
static inline __attribute__((always_inline)) void fft_pass(const struct fft_plan *plan, unsigned pass, size_t s,
                                                           unsigned m, const unsigned radix, unsigned n_out) {
    const float *re = plan->re[pass % 2], *im = plan->im[pass % 2], *roots = plan->roots[pass];
    float *to_re = plan->re[1 - pass % 2], *to_im = plan->im[1 - pass % 2];
    for (unsigned p = 0; p < m; p++, roots += 2 * radix * radix)
        for (size_t q = 0; q < s; q += LANES) {
            vf x_re[5], x_im[5];
            UNROLL
            for (unsigned j = 0; j < radix; j++) {
                x_re[j] = load(re + q + s * (p + m * j));
                x_im[j] = load(im + q + s * (p + m * j));
            }
            for (unsigned k = 0; k < n_out; k++) {
                const float *root = roots + 2 * radix * k;
                vf y_re = splat(0), y_im = splat(0);
                UNROLL
                for (unsigned j = 0; j < radix; j++) {
                    y_re += x_re[j] * root[2 * j] - x_im[j] * root[2 * j + 1];
                    y_im += x_im[j] * root[2 * j] + x_re[j] * root[2 * j + 1];
                }
                store(to_re + q + s * (radix * p + k), y_re);
                store(to_im + q + s * (radix * p + k), y_im);
            }
        }
}

/* Radix 4: v is 1, -1, i or -i, so only multiplications by w remain. The inverse transform swaps the second and the
 * last result. */
static void fft_pass_4(const struct fft_plan *plan, unsigned pass, size_t s, unsigned m) {
    const float *re = plan->re[pass % 2], *im = plan->im[pass % 2], *roots = plan->roots[pass];
    float *to_re = plan->re[1 - pass % 2], *to_im = plan->im[1 - pass % 2];
    const unsigned second = plan->inverse ? 3 : 1, slots[] = {0, second, 2, 4 - second};
    for (unsigned p = 0; p < m; p++, re += s, im += s, to_re += 4 * s, to_im += 4 * s, roots += 32)
        for (size_t q = 0; q < s; q += LANES) {
            vf x_re[4], x_im[4];
            UNROLL
            for (unsigned j = 0; j < 4; j++) {
                x_re[j] = load(re + q + s * m * j);
                x_im[j] = load(im + q + s * m * j);
            }
            const vf sum_re = x_re[0] + x_re[2], sum_im = x_im[0] + x_im[2], odd_re = x_re[1] + x_re[3],
                     odd_im = x_im[1] + x_im[3];
            const vf less_re = x_re[0] - x_re[2], less_im = x_im[0] - x_im[2], turned_re = x_im[1] - x_im[3],
                     turned_im = x_re[3] - x_re[1];
            const vf y_re[] = {sum_re + odd_re, less_re + turned_re, sum_re - odd_re, less_re - turned_re};
            const vf y_im[] = {sum_im + odd_im, less_im + turned_im, sum_im - odd_im, less_im - turned_im};
            UNROLL
            for (unsigned k = 0; k < 4; k++) {
                const float *root = roots + 8 * slots[k];
                store(to_re + q + s * slots[k], y_re[k] * root[0] - y_im[k] * root[1]);
                store(to_im + q + s * slots[k], y_im[k] * root[0] + y_re[k] * root[1]);
            }
        }
}

static void fft_cpu(const struct fft *args) {
    const struct fft a = *args; /* a copy, because the compiler must assume that stores change *args */
    const struct fft_plan plan = *a.plan;
    const unsigned padded = fft_padded(plan.first), n_out = plan.inverse ? plan.n : plan.n / 2 + 1;
    if (plan.inverse)
        fft_first(&a, true);
    else
        fft_first(&a, false);
    unsigned m = plan.n / plan.first;
    size_t s = padded;
    for (unsigned pass = 0; pass < plan.n_passes; s *= plan.radix[pass++]) {
        const unsigned radix = plan.radix[pass], n_k = m > radix || plan.inverse ? radix : radix / 2 + 1;
        m /= radix;
        switch (radix) {
        case 2: fft_pass(&plan, pass, s, m, 2, n_k); break;
        case 3: fft_pass(&plan, pass, s, m, 3, n_k); break;
        case 4: fft_pass_4(&plan, pass, s, m); break;
        default: fft_pass(&plan, pass, s, m, 5, n_k);
        }
    }
    const float *re = plan.re[plan.n_passes % 2], *im = plan.im[plan.n_passes % 2];
    for (unsigned done = 0; done < n_out; done += plan.first, re += padded, im += padded)
        for (unsigned q = 0; q < plan.first && done + q < n_out; q++)
            if (plan.inverse)
                a.out[done + q] = re[q];
            else {
                a.out[2 * (done + q)] = re[q];
                a.out[2 * (done + q) + 1] = im[q];
            }
}
