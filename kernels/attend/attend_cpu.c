#include "kernels/attend/attend.h"
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

static void attend_cpu(const struct attend *a) {
    const unsigned n = a->n_channels;
    const vf share = splat(1.f / (float)a->n_rows);
    for (unsigned c = 0; c < n; c += LANES) {
        vf even = splat(0), odd = splat(0);
        unsigned r = 0;
        for (; r + 1 < a->n_rows; r += 2) {
            even += load(a->x + (size_t)r * n + c);
            odd += load(a->x + (size_t)(r + 1) * n + c);
        }
        if (r < a->n_rows)
            even += load(a->x + (size_t)r * n + c);
        store(a->mean + c, (even + odd) * share);
    }
    linear_cpu(&(struct linear){.n_rows = 1, .n_in = n, .n_out = n, .x = a->mean, .x_stride = n, .weight = a->weight,
                                .bias = a->bias, .y = a->factor, .y_stride = n});
    for (unsigned c = 0; c < n; c += LANES) {
        vf factor = load(a->factor + c);
        for (unsigned r = 0; r < a->n_rows; r++)
            store(a->x + (size_t)r * n + c, load(a->x + (size_t)r * n + c) * factor);
    }
}
