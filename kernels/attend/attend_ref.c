#include "kernels/attend/attend.h"

#include "kernels/linear/linear.h"

void attend_ref(const struct attend *a) {
    const unsigned n = a->n_channels;
    for (unsigned c = 0; c < n; c++) {
        a->mean[c] = 0;
        for (unsigned r = 0; r < a->n_rows; r++)
            a->mean[c] += a->x[(size_t)r * n + c] / (float)a->n_rows;
    }
    linear_ref(&(struct linear){.n_rows = 1, .n_in = n, .n_out = n, .x = a->mean, .x_stride = n, .weight = a->weight,
                                .bias = a->bias, .y = a->factor, .y_stride = n});
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < n; c++)
            a->x[(size_t)r * n + c] *= a->factor[c];
}
