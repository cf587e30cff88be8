#include "kernels/norm/norm.h"

#include <math.h>
#include <stddef.h>

void norm_ref(const struct norm *a) {
    for (unsigned r = 0; r < a->n_rows; r++) {
        const float *x = a->x + (size_t)r * a->n_channels;
        float *y = a->y + (size_t)r * a->n_channels, mean = 0, variance = 0;
        for (unsigned c = 0; c < a->n_channels; c++)
            mean += x[c] / (float)a->n_channels;
        for (unsigned c = 0; c < a->n_channels; c++)
            variance += (x[c] - mean) * (x[c] - mean) / (float)a->n_channels;
        for (unsigned c = 0; c < a->n_channels; c++)
            y[c] = (x[c] - mean) / sqrtf(variance + a->epsilon);
    }
}
