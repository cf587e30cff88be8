/* conv.h - a Mamba block's short causal convolution along time, per channel and position, with its activation: y[r][c]
 * = silu(bias[c] + sum_t taps[t][c] x_t[r][c]), where x_t are the past frames, oldest first, then the current one;
 * silu(v) = v / (1 + exp(-v)).
 *
 * The current frame replaces the oldest one, past[0]. n_channels is a multiple of 16. */
#ifndef PRIMEKNET_CONV_H
#define PRIMEKNET_CONV_H

#include <stddef.h>

enum { CONV_MAX_TAPS = 8 };

struct conv {
    unsigned n_rows, n_channels, n_taps;
    const float *x; /* [n_rows][x_stride]: the current frame */
    size_t x_stride;
    float *past[CONV_MAX_TAPS - 1]; /* n_taps - 1 frames, each [n_rows][n_channels] */
    const float *taps;              /* [n_taps][n_channels] */
    const float *bias;              /* [n_channels] */
    float *y;                       /* [n_rows][n_channels] */
};

void conv_ref(const struct conv *a);

#endif
