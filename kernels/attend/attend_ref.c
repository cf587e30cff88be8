#include "kernels/attend/attend.h"

#include "kernels/linear/linear.h"

void attend_ref(const struct attend *a) {
    const size_t n = a->n_channels;
    for (size_t c = 0; c < n; c++) {
        a->mean[c] = 0;
        for (unsigned r = 0; r < a->n_rows; r++) {
            a->y[r * n + c] = a->x[r * 2 * n + c] * a->x[r * 2 * n + n + c];
            a->mean[c] += a->y[r * n + c] / (float)a->n_rows;
        }
    }
    linear_ref(&(struct linear){.n_rows = 1,
                                .n_in = a->n_channels,
                                .n_out = a->n_channels,
                                .x = a->mean,
                                .x_stride = n,
                                .weight = a->weight,
                                .bias = a->bias,
                                .y = a->factor,
                                .y_stride = n});
    for (unsigned r = 0; r < a->n_rows; r++)
        for (size_t c = 0; c < n; c++)
            a->y[r * n + c] *= a->factor[c];
}
