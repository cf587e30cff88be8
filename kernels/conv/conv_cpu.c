#include "kernels/conv/conv.h"
#include "kernels/simd.h"

enum { AHEAD = 1024 /* how many floats ahead the past is prefetched */ };

static inline __attribute__((always_inline)) void conv_rows(const struct conv *a, unsigned row, const unsigned rows) {
    const size_t n = a->n_channels;
    const unsigned n_past = a->n_taps - 1;
    for (size_t c = 0; c < n; c += LANES) {
        vf x[ABREAST], sum[ABREAST];
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            x[r] = load(a->x + (row + r) * a->x_stride + c);
            sum[r] = load(a->bias + c) + load(a->taps + n_past * n + c) * x[r];
        }
        for (unsigned t = 0; t < n_past; t++)
            UNROLL
        for (unsigned r = 0; r < rows; r++) {
            const float *past = a->past[t] + (row + r) * n + c;
            __builtin_prefetch(past + AHEAD);
            sum[r] += load(a->taps + t * n + c) * load(past);
        }
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] = silu(sum[r]);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            store(a->past[0] + (row + r) * n + c, x[r]);
            store(a->y + (row + r) * n + c, sum[r]);
        }
    }
}

static void conv_cpu(const struct conv *args) {
    const struct conv a = *args; /* a copy, because the compiler must assume that stores change *args */
    unsigned row = 0;
    for (; row + ABREAST <= a.n_rows; row += ABREAST)
        conv_rows(&a, row, ABREAST);
    for (; row < a.n_rows; row++)
        conv_rows(&a, row, 1);
}
