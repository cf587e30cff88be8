/* Keeps the results of a tile of positions in registers. Applies DEPTHWISE_TAPS taps to the tile at once, so that each
 * loaded value is used in that many products. A tile that would exceed the last position is moved back over positions
 * already computed. */
#include "kernels/depthwise/depthwise.h"
#include "kernels/simd.h"

#if LANES == 16 || defined __aarch64__ /* 32 registers */
enum { DEPTHWISE_ROWS = 20, DEPTHWISE_TAPS = 4 };
#else
enum { DEPTHWISE_ROWS = 10, DEPTHWISE_TAPS = 4 };
#endif

static inline __attribute__((always_inline)) void depthwise_taps(const struct depthwise *a, vf *sum, const float *x,
                                                                 const float *tap, const unsigned rows,
                                                                 const unsigned taps) {
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

/* For few taps, a compile-time constant, where overhead matters. The past frames are prefetched from further ahead. */
static inline __attribute__((always_inline)) void depthwise_few(const struct depthwise *a, vf *sum, unsigned row,
                                                                unsigned c, const unsigned rows, const unsigned times,
                                                                const unsigned taps) {
    UNROLL
    for (unsigned t = 0; t < times; t++) {
        const float *x = a->x[t] + row * a->x_stride + c;
        if (t + 1 < times) {
            const float *ahead = x + 2 * rows * a->x_stride;
            UNROLL
            for (unsigned r = 0; r < rows; r++, ahead += a->x_stride)
                __builtin_prefetch(ahead);
        }
        depthwise_taps(a, sum, x, a->taps + t * taps * a->taps_stride + c, rows, taps);
    }
}

static inline __attribute__((always_inline)) void depthwise_many(const struct depthwise *a, vf *sum, unsigned row,
                                                                 unsigned c, const unsigned rows) {
    for (unsigned t = 0; t < a->n_times; t++) {
        const float *x = a->x[t] + row * a->x_stride + c, *tap = a->taps + t * a->n_taps * a->taps_stride + c;
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
}

/* Computes positions from `row` on, into `to` from its first row on. */
static inline __attribute__((always_inline)) void depthwise_tile(const struct depthwise *a, unsigned row,
                                                                 struct rows to, size_t column, const unsigned rows) {
    for (unsigned c = 0; c < a->n_channels; c += LANES) {
        vf sum[DEPTHWISE_ROWS];
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] = splat(0);
        if (a->n_taps == 3 && a->n_times == DEPTHWISE_TIMES)
            depthwise_few(a, sum, row, c, rows, DEPTHWISE_TIMES, 3);
        else if (a->n_taps == 3 && a->n_times == 1)
            depthwise_few(a, sum, row, c, rows, 1, 3);
        else
            depthwise_many(a, sum, row, c, rows);
        if (a->times) {
            const float *times = a->times + row * a->times_stride + c;
            UNROLL
            for (unsigned r = 0; r < rows; r++, times += a->times_stride)
                sum[r] *= load(times);
        }
        struct rows y = to;
        UNROLL
        for (unsigned r = 0; r < rows; r++, y.v += y.stride)
            put(y, column + c, sum[r]);
    }
}

/* Computes n_rows positions from `row` on, into the first rows of `to`, from `column` on. */
static inline __attribute__((always_inline)) void depthwise_rows(const struct depthwise *args, unsigned row,
                                                                 unsigned n_rows, struct rows to, size_t column) {
    enum { HALF = DEPTHWISE_ROWS / 2 };
    const struct depthwise a = *args; /* a copy, because the compiler must assume that stores change *args */
    for (unsigned done = 0; done < n_rows;) {
        const unsigned left = n_rows - done;
        if (left > HALF && n_rows >= DEPTHWISE_ROWS) {
            unsigned first = left < DEPTHWISE_ROWS ? n_rows - DEPTHWISE_ROWS : done;
            depthwise_tile(&a, row + first, rows_from(to, first), column, DEPTHWISE_ROWS);
            done = first + DEPTHWISE_ROWS;
        } else if (n_rows >= HALF) {
            unsigned first = left < HALF ? n_rows - HALF : done;
            depthwise_tile(&a, row + first, rows_from(to, first), column, HALF);
            done = first + HALF;
        } else {
            depthwise_tile(&a, row + done, rows_from(to, done), column, 1);
            done++;
        }
    }
}

static void depthwise_cpu(const struct depthwise *a) {
    depthwise_rows(a, 0, a->n_rows, (struct rows){a->y, a->y_stride, false}, 0);
}
