#include "kernels/lstm/lstm.h"

#include <math.h>
#include <stddef.h>

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

void lstm_ref(const struct lstm *a) {
    const size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++)
        for (size_t c = 0; c < n; c++) {
            const float *gates = a->gates + r * 4 * n + c;
            float *cell = a->cell + r * n + c;
            *cell = sigmoid(gates[n]) * *cell + sigmoid(gates[0]) * tanhf(gates[2 * n]);
            a->h[r * n + c] = sigmoid(gates[3 * n]) * tanhf(*cell);
        }
}
