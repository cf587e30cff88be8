#include "kernels/fft/fft.h"

#include <math.h>
#include <stddef.h>

/* exp(-2 pi i turns / n), or its conjugate for an inverse transform */
static void root(float *re, float *im, const struct fft_plan *plan, unsigned long turns, unsigned n) {
    const double angle = 2 * M_PI * (double)(turns % n) / n;
    *re = (float)cos(angle);
    *im = (float)(plan->inverse ? sin(angle) : -sin(angle));
}

static unsigned radix_of(unsigned left) {
    return left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : 5;
}

static float *take(float *memory, size_t *n_taken, size_t n) {
    float *const at = memory ? memory + *n_taken : NULL;
    *n_taken += (n + FFT_PAD - 1) / FFT_PAD * FFT_PAD;
    return at;
}

size_t fft_plan_init(struct fft_plan *plan, float *memory, unsigned n, bool inverse) {
    unsigned first = 16;
    while (n % first)
        first++;
    const unsigned padded = fft_padded(first);
    size_t n_taken = 0;
    *plan = (struct fft_plan){.n = n, .first = first, .inverse = inverse};
    plan->matrix = take(memory, &n_taken, (size_t)first * 2 * padded);
    plan->turns = take(memory, &n_taken, (size_t)(n / first) * 2 * padded);
    for (unsigned i = 0; i < 2; i++) {
        plan->re[i] = take(memory, &n_taken, (size_t)(n / first) * padded);
        plan->im[i] = take(memory, &n_taken, (size_t)(n / first) * padded);
    }
    for (unsigned k = 0; k < first && memory; k++) {
        for (unsigned long j = 0; j < first; j++)
            root(&plan->matrix[j * 2 * padded + k], &plan->matrix[(j * 2 + 1) * padded + k], plan, j * k, first);
        for (unsigned long p = 0; p < n / first; p++)
            root(&plan->turns[p * 2 * padded + k], &plan->turns[(p * 2 + 1) * padded + k], plan, p * k, n);
    }
    for (unsigned left = n / first; left > 1; left /= radix_of(left)) {
        const unsigned radix = radix_of(left), m = left / radix;
        float *to = take(memory, &n_taken, 2 * (size_t)left * radix);
        plan->radix[plan->n_passes] = radix;
        plan->roots[plan->n_passes++] = to;
        for (unsigned long p = 0; p < m && to; p++)
            for (unsigned long k = 0; k < radix; k++)
                for (unsigned long j = 0; j < radix; j++, to += 2)
                    root(to, to + 1, plan, p * k + j * k * m, left);
    }
    return n_taken;
}

void fft_ref(const struct fft *a) {
    const unsigned n = a->plan->n, n_bins = n / 2 + 1;
    for (unsigned i = 0; i < (a->plan->inverse ? n : n_bins); i++) {
        double re = 0, im = 0;
        for (unsigned long j = 0; j < (a->plan->inverse ? n_bins : n); j++) {
            const double angle = 2 * M_PI * (double)(i * j % n) / n;
            if (a->plan->inverse) { /* each bin with its mirror image, which the first and the last do not have */
                const bool alone = j == 0 || j == n / 2;
                re += (alone ? 1 : 2) * (a->in[2 * j] * cos(angle) - (alone ? 0 : a->in[2 * j + 1] * sin(angle)));
            } else {
                re += a->in[j] * cos(angle);
                im -= a->in[j] * sin(angle);
            }
        }
        if (a->plan->inverse)
            a->out[i] = (float)re;
        else {
            a->out[2 * i] = (float)re;
            a->out[2 * i + 1] = (float)im;
        }
    }
}
