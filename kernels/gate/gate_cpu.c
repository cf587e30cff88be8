#include "kernels/gate/gate.h"
#include "kernels/simd.h"

#include <stddef.h>

static void gate_cpu(const struct gate *a) {
    size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < n; c += LANES)
            store(a->y + r * n + c, load(a->x + 2 * r * n + c) * load(a->x + 2 * r * n + n + c));
}
