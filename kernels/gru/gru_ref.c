#include "kernels/gru/gru.h"

#include <math.h>
#include <stddef.h>

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

void gru_ref(const struct gru *args) {
    const size_t n = args->n_channels;
    for (unsigned r = 0; r < args->n_rows; r++)
        for (size_t c = 0; c < n; c++) {
            const float *a = args->a + r * 3 * n + c, *b = args->b + r * 3 * n + c;
            float *h = args->h + r * n + c, keep = sigmoid(a[n] + b[n]);
            *h = (1 - keep) * tanhf(a[2 * n] + sigmoid(a[0] + b[0]) * b[2 * n]) + keep * *h;
        }
}
