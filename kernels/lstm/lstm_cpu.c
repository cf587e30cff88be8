#include "kernels/lstm/lstm.h"
#include "kernels/simd.h"

#include <stddef.h>

static void lstm_cpu(const struct lstm *a) {
    const size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++)
        for (size_t c = 0; c < n; c += LANES) {
            const float *gates = a->gates + r * 4 * n + c;
            float *at = a->cell + r * n + c;
            vf cell = sigmoid(load(gates + n)) * load(at) +
                      sigmoid(load(gates)) * hyperbolic_tangent(load(gates + 2 * n));
            store(at, cell);
            store(a->h + r * n + c, sigmoid(load(gates + 3 * n)) * hyperbolic_tangent(cell));
        }
}
