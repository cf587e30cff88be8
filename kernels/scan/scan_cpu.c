/* Computes the activations of ABREAST positions at once, then as many states of one position. */
#include "kernels/scan/scan.h"
#include "kernels/simd.h"

static inline __attribute__((always_inline)) void scan_row(const struct scan *a, unsigned row) {
    const size_t n = a->n_channels, n_states = a->n_states;
    const float *u = a->u + row * n, *step = a->step + row * n, *b = a->select + row * a->select_stride,
                *c = b + n_states;
    float *y = a->y + row * n;
    for (size_t d = 0; d < n; d += LANES) {
        size_t first = d / SCAN_GROUP * n_states * SCAN_GROUP + d % SCAN_GROUP;
        const float *decay = a->decay + first;
        float *h = a->h + row * n * n_states + first;
        vf dt = load(step + d), dtu = dt * load(u + d), sum = load(a->pass + d) * load(u + d);
        for (size_t s = 0; s < n_states; s += ABREAST) {
            vf state[ABREAST];
            UNROLL
            for (size_t i = 0; i < ABREAST; i++)
                state[i] = dt * load(decay + (s + i) * SCAN_GROUP);
            exp2_each(state, ABREAST);
            UNROLL
            for (size_t i = 0; i < ABREAST; i++)
                state[i] = state[i] * load(h + (s + i) * SCAN_GROUP) + dtu * b[s + i];
            UNROLL
            for (size_t i = 0; i < ABREAST; i++) {
                __builtin_prefetch(h + (s + i) * SCAN_GROUP + 2 * n * n_states);
                store(h + (s + i) * SCAN_GROUP, state[i]);
                sum += state[i] * c[s + i];
            }
        }
        store(y + d, sum);
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
