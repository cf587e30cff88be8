#include "kernels/depthwise/depthwise.h"

void depthwise_ref(const struct depthwise *a) {
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < a->n_channels; c++) {
            float sum = 0;
            for (unsigned t = 0; t < a->n_times; t++)
                for (unsigned k = 0; k < a->n_taps; k++)
                    sum += a->x[t][(r + k) * a->x_stride + c] * a->taps[(t * a->n_taps + k) * a->taps_stride + c];
            a->y[r * a->y_stride + c] = a->times ? sum * a->times[r * a->times_stride + c] : sum;
        }
}
