#include "kernels/gru/gru.h"
#include "kernels/simd.h"

#include <stddef.h>

static void gru_cpu(const struct gru *args) {
    const size_t n = args->n_channels;
    for (unsigned r = 0; r < args->n_rows; r++)
        for (size_t c = 0; c < n; c += LANES) {
            const float *a = args->a + r * 3 * n + c, *b = args->b + r * 3 * n + c;
            float *h = args->h + r * n + c;
            vf reset = sigmoid(load(a) + load(b)), keep = sigmoid(load(a + n) + load(b + n));
            vf new = hyperbolic_tangent(load(a + 2 * n) + reset * load(b + 2 * n));
            store(h, new + keep *(load(h) - new));
        }
}
