#include "kernels/norm/norm.h"
#include "kernels/simd.h"

#include <math.h>
#include <stddef.h>

static void norm_cpu(const struct norm *a) {
    const float share = 1.f / (float)a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++) {
        const float *x = a->x + (size_t)r * a->n_channels;
        float *y = a->y + (size_t)r * a->n_channels;
        vf sum = splat(0), squares = splat(0);
        for (unsigned c = 0; c < a->n_channels; c += LANES)
            sum += load(x + c);
        const vf mean = splat(across(sum) * share);
        for (unsigned c = 0; c < a->n_channels; c += LANES) {
            vf d = load(x + c) - mean;
            squares += d * d;
        }
        const vf scale = splat(1.f / sqrtf(across(squares) * share + a->epsilon));
        for (unsigned c = 0; c < a->n_channels; c += LANES)
            store(y + c, (load(x + c) - mean) * scale);
    }
}
