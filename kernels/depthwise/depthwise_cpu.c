/* A tap is loaded once for DEPTHWISE_ROWS positions; the last tile moves back over rows already done rather than be
 * short. */
#include "kernels/depthwise/depthwise.h"
#include "kernels/simd.h"

enum { DEPTHWISE_ROWS = 8 };

static inline __attribute__((always_inline)) void depthwise_tile(const struct depthwise *a, unsigned row, unsigned c,
                                                                 const unsigned rows) {
    vf sum[DEPTHWISE_ROWS];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        sum[r] = splat(0);
    for (unsigned t = 0; t < a->n_times; t++) {
        const float *x = a->x[t] + row * a->x_stride + c, *tap = a->taps + t * a->n_taps * a->taps_stride + c;
        for (unsigned k = 0; k < a->n_taps; k++, x += a->x_stride, tap += a->taps_stride) {
            vf w = load(tap);
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                sum[r] += load(x + r * a->x_stride) * w;
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        if (a->times)
            sum[r] *= load(a->times + (row + r) * a->times_stride + c);
        store(a->y + (row + r) * a->y_stride + c, sum[r]);
    }
}

static void depthwise_cpu(const struct depthwise *a) {
    const unsigned rows = a->n_rows < DEPTHWISE_ROWS ? 1 : DEPTHWISE_ROWS, last = a->n_rows - rows;
    for (unsigned done = 0; done < a->n_rows; done += rows) {
        unsigned row = done < last ? done : last;
        for (unsigned c = 0; c < a->n_channels; c += LANES)
            if (rows == 1)
                depthwise_tile(a, row, c, 1);
            else
                depthwise_tile(a, row, c, DEPTHWISE_ROWS);
    }
}
