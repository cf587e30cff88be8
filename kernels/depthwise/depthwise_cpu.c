/* The results of a tile of positions stay in registers; DEPTHWISE_TAPS taps go over it at once, so that a value is loaded
 * once for as many products. The last tile moves back over rows already done rather than be short. */
#include "kernels/depthwise/depthwise.h"
#include "kernels/simd.h"

enum { DEPTHWISE_ROWS = 10, DEPTHWISE_TAPS = 4 };

static inline __attribute__((always_inline)) void depthwise_taps(const struct depthwise *a, vf *sum, const float *x,
                                                                 const float *tap, const unsigned rows, const unsigned taps) {
    vf w[DEPTHWISE_TAPS];
    UNROLL
    for (unsigned k = 0; k < taps; k++)
        w[k] = load(tap + k * a->taps_stride);
    UNROLL
    for (unsigned i = 0; i < rows + taps - 1; i++, x += a->x_stride) {
        const vf value = load(x);
        UNROLL
        for (unsigned k = 0; k < taps; k++)
            if (i >= k && i - k < rows)
                sum[i - k] += value * w[k];
    }
}

/* The results for `rows` positions and LANES channels. */
static inline __attribute__((always_inline)) void depthwise_tile(const struct depthwise *a, vf *sum, unsigned row, unsigned c,
                                                                 const unsigned rows) {
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        sum[r] = splat(0);
    for (unsigned t = 0; t < a->n_times; t++) {
        const float *x = a->x[t] + row * a->x_stride + c, *tap = a->taps + t * a->n_taps * a->taps_stride + c;
        if (t + 1 < a->n_times) /* the past comes from further away */
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                __builtin_prefetch(x + (r + 2 * rows) * a->x_stride);
        unsigned left = a->n_taps;
        for (; left >= DEPTHWISE_TAPS; left -= DEPTHWISE_TAPS) {
            depthwise_taps(a, sum, x, tap, rows, DEPTHWISE_TAPS);
            x += DEPTHWISE_TAPS * a->x_stride;
            tap += DEPTHWISE_TAPS * a->taps_stride;
        }
        switch (left) {
        case 3: depthwise_taps(a, sum, x, tap, rows, 3); break;
        case 2: depthwise_taps(a, sum, x, tap, rows, 2); break;
        case 1: depthwise_taps(a, sum, x, tap, rows, 1); break;
        }
    }
    if (a->times)
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] *= load(a->times + (row + r) * a->times_stride + c);
}

static inline __attribute__((always_inline)) void depthwise_rows(const struct depthwise *a, unsigned row,
                                                                 const unsigned rows) {
    vf sum[DEPTHWISE_ROWS];
    for (unsigned c = 0; c < a->n_channels; c += LANES) {
        depthwise_tile(a, sum, row, c, rows);
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            store(a->y + (row + r) * a->y_stride + c, sum[r]);
    }
}

static void depthwise_cpu(const struct depthwise *a) {
    const unsigned rows = a->n_rows < DEPTHWISE_ROWS ? 1 : DEPTHWISE_ROWS, last = a->n_rows - rows;
    for (unsigned done = 0; done < a->n_rows; done += rows) {
        unsigned row = done < last ? done : last;
        if (rows == 1)
            depthwise_rows(a, row, 1);
        else
            depthwise_rows(a, row, DEPTHWISE_ROWS);
    }
}
