#include "kernels/conv/conv.h"

#include <math.h>

void conv_ref(const struct conv *a) {
    const size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < n; c++) {
            float x = a->x[r * a->x_stride + c], sum = a->bias[c] + a->taps[(a->n_taps - 1) * n + c] * x;
            for (unsigned t = 0; t + 1 < a->n_taps; t++)
                sum += a->taps[t * n + c] * a->past[t][r * n + c];
            a->past[0][r * n + c] = x;
            a->y[r * n + c] = sum / (1 + expf(-sum));
        }
}
