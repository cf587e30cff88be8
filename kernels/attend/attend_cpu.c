#include "kernels/attend/attend.h"
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

static inline vf attend_gate(const float *x, float *y, size_t n) {
    vf gated = load(x) * load(x + n);
    store(y, gated);
    return gated;
}

static void attend_cpu(const struct attend *a) {
    const size_t n = a->n_channels;
    const vf share = splat(1.f / (float)a->n_rows);
    for (size_t c = 0; c < n; c += LANES) {
        vf even = splat(0), odd = splat(0);
        unsigned r = 0;
        for (; r + 1 < a->n_rows; r += 2) {
            even += attend_gate(a->x + r * 2 * n + c, a->y + r * n + c, n);
            odd += attend_gate(a->x + (r + 1) * 2 * n + c, a->y + (r + 1) * n + c, n);
        }
        if (r < a->n_rows)
            even += attend_gate(a->x + r * 2 * n + c, a->y + r * n + c, n);
        store(a->mean + c, (even + odd) * share);
    }
    linear_cpu(&(struct linear){.n_rows = 1,
                                .n_in = a->n_channels,
                                .n_out = a->n_channels,
                                .x = a->mean,
                                .x_stride = n,
                                .weight = a->weight,
                                .bias = a->bias,
                                .y = a->factor,
                                .y_stride = n});
    for (size_t c = 0; c < n; c += LANES) {
        vf factor = load(a->factor + c);
        for (unsigned r = 0; r < a->n_rows; r++)
            store(a->y + r * n + c, load(a->y + r * n + c) * factor);
    }
}
