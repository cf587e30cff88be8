#include "kernels/blend/blend.h"
#include "kernels/simd.h"

#include <stddef.h>

static void blend_cpu(const struct blend *a) {
    const size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < n; c += LANES)
            store(a->y + r * n + c, load(a->y + r * n + c) + load(a->factor + c) * load(a->x + r * n + c));
}
