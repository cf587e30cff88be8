/* Computes the activations of ABREAST positions at once, then as many states of one position. */
#include "kernels/scan/scan.h"
#include "kernels/simd.h"

/* Vectors per group of channels. */
enum { PARTS = SCAN_GROUP / LANES };

static inline __attribute__((always_inline)) void scan_row(const struct scan *a, unsigned row) {
    const size_t n = a->n_channels, n_states = a->n_states;
    const float *u = a->u + row * n, *step = a->step + row * n, *decay = a->decay;
    float *y = a->y + row * n, *h = a->h + row * n * n_states;
    for (size_t d = 0; d < n; d += SCAN_GROUP) {
        const float *b = a->select + row * a->select_stride, *c = b + n_states;
        vf dt[PARTS], dtu[PARTS], sum[PARTS];
        UNROLL
        for (unsigned p = 0; p < PARTS; p++) {
            const size_t at = d + p * LANES;
            dt[p] = load(step + at);
            dtu[p] = dt[p] * load(u + at);
            sum[p] = load(a->pass + at) * load(u + at);
        }
        for (size_t s = 0; s < n_states; s += ABREAST / PARTS) {
            vf state[ABREAST]; /* a state's parts lie one after the other */
            UNROLL
            for (unsigned i = 0; i < ABREAST; i++, decay += LANES)
                state[i] = dt[i % PARTS] * load(decay);
            exp2_each(state, ABREAST, true);
            UNROLL
            for (unsigned i = 0; i < ABREAST; i++)
                state[i] = state[i] * load(h + i * LANES) + dtu[i % PARTS] * b[s + i / PARTS];
            UNROLL
            for (unsigned i = 0; i < ABREAST; i++, h += LANES) {
                __builtin_prefetch(h + 2 * n * n_states);
                store(h, state[i]);
                sum[i % PARTS] += state[i] * c[s + i / PARTS];
            }
        }
        UNROLL
        for (unsigned p = 0; p < PARTS; p++)
            store(y + d + p * LANES, sum[p]);
    }
}

static inline __attribute__((always_inline)) void scan_rows(const struct scan *a, unsigned row, const unsigned rows) {
    const size_t n = a->n_channels;
    float *step = a->step + row * n, *y = a->y + row * n;
    const float *z = a->z + row * a->z_stride;
    vf x[ABREAST];
    for (size_t d = 0; d < n; d += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            x[r] = softplus(load(step + r * n + d));
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            store(step + r * n + d, x[r]);
    }
    for (unsigned r = 0; r < rows; r++)
        scan_row(a, row + r);
    for (size_t d = 0; d < n; d += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            x[r] = load(y + r * n + d) * silu(load(z + r * a->z_stride + d));
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            store(y + r * n + d, x[r]);
    }
}

static void scan_cpu(const struct scan *args) {
    const struct scan a = *args; /* a copy, because the compiler must assume that stores change *args */
    unsigned row = 0;
    for (; row + ABREAST <= a.n_rows; row += ABREAST)
        scan_rows(&a, row, ABREAST);
    for (; row < a.n_rows; row++)
        scan_rows(&a, row, 1);
}
