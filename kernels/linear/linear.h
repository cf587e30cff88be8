/* linear.h - a linear layer at each position: y[r][o] = f(bias[o] + sum_i v[r][i] weight[o][i]) + add[r][o] + blend[o] skip[r][o],
 * f(s) = s < 0 ? prelu[o] s : s, or s itself where there is no prelu. Its inputs v are one of (enum linear_of)
 *   a map:        v[r] = x[r]; rows may overlap (x_stride < n_in): that is how a convolution over frequency is written;
 *   its norm:     v[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + epsilon), without gain and offset (the exporter folds
 *                 them into the layer);
 *   a gate:       v[r][i] = x[r][i] x[r][n_in + i];
 *   convolutions: v[r] = what n_convs of depthwise.h give, side by side; their y is unused.
 * What lies between is made for a few positions at a time and never leaves the first-level cache.
 *
 * Weights are packed in panels of 16 outputs, [panel][n_in][16], the last one filled up with zeros: whole panels of y,
 * bias, prelu, add, skip and blend are read and written. y may be add; it may not be what v is made of. n_in is at
 * most LINEAR_MAX_IN and, unless v is a map, a multiple of 16.
 *
 * The bfloat16 form rounds weights, when they are packed, and inputs to bfloat16 (8 bits of mantissa) and adds their
 * products in float; n_in is then a multiple of 16, and rows begin where floats do. */
#ifndef PRIMEKNET_LINEAR_H
#define PRIMEKNET_LINEAR_H

#include <stddef.h>

struct depthwise;

enum linear_of { LINEAR_OF_MAP, LINEAR_OF_NORM, LINEAR_OF_GATE, LINEAR_OF_CONVS };

struct linear {
    unsigned n_rows, n_in, n_out;
    enum linear_of of;
    const float *x; /* [n_rows][x_stride] */
    size_t x_stride;
    float epsilon;
    unsigned n_convs;
    const struct depthwise *convs;
    const float *weight; /* packed, for the form that runs */
    const float *bias;
    const float *prelu; /* or NULL */
    const float *add;   /* [n_rows][add_stride], or NULL */
    size_t add_stride;
    const float *skip, *blend; /* skip is laid out as add; or NULL */
    float *y; /* [n_rows][y_stride] */
    size_t y_stride;
};

/* LINEAR_NARROW: a last panel with no more outputs than that takes less time than others. */
enum { LINEAR_PANEL = 16, LINEAR_MAX_IN = 2048, LINEAR_NARROW = 4 };

static inline unsigned linear_padded(unsigned n_out) {
    return (n_out + LINEAR_PANEL - 1) / LINEAR_PANEL * LINEAR_PANEL;
}

/* weight [n_out][n_in] -> packed [linear_padded(n_out) * n_in], which is zero at first. */
void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in);

/* The same for the bfloat16 form: [panel][n_in / 2][16] pairs of bfloat16, in half the room. */
void linear_bf16_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in);

void linear_ref(const struct linear *a);
void linear_bf16_ref(const struct linear *a);

#endif
