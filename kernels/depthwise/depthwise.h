/* depthwise.h - a depthwise convolution over time and frequency: y[r][c] = times[r][c] sum_t sum_k x[t][r + k][c]
 * taps[t][k][c]; without the factor if `times` is NULL.
 *
 * x[t] are frames, oldest first, each padded with the rows of zeros that the outer taps need. y may not be an input.
 * n_channels is a multiple of 16. */
#ifndef PRIMEKNET_DEPTHWISE_H
#define PRIMEKNET_DEPTHWISE_H

#include <stddef.h>

enum { DEPTHWISE_TIMES = 3 };

struct depthwise {
    unsigned n_rows, n_channels, n_times, n_taps;
    const float *x[DEPTHWISE_TIMES]; /* [n_rows + n_taps - 1][x_stride] */
    size_t x_stride;
    const float *taps; /* [n_times][n_taps][taps_stride] */
    size_t taps_stride;
    const float *times; /* [n_rows][times_stride]; may be NULL */
    size_t times_stride;
    float *y; /* [n_rows][y_stride] */
    size_t y_stride;
};

void depthwise_ref(const struct depthwise *a);

#endif
