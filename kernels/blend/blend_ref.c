#include "kernels/blend/blend.h"

#include <stddef.h>

void blend_ref(const struct blend *a) {
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned c = 0; c < a->n_channels; c++)
            a->y[(size_t)r * a->n_channels + c] += a->factor[c] * a->x[(size_t)r * a->n_channels + c];
}
