/* linear.h - a linear layer at each position: y[r][o] = f(bias[o] + sum_i v[r][i] weight[o][i]) + add[r][o] + blend[o]
 * skip[r][o], where f(s) = s < 0 ? prelu[o] s : s, or f(s) = s without prelu. Its inputs v are one of (enum linear_of)
 *   a map:        v[r] = x[r]; rows may overlap (x_stride < n_in), which gives a convolution over frequency;
 *   its norm:     v[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + epsilon), without gain and offset (the exporter
 *                 folds them into the layer);
 *   a gate:       v[r][i] = x[r][i] x[r][n_in + i];
 *   convolutions: v[r] = the outputs of n_convs of depthwise.h side by side; their y is unused.
 * The kernel computes these inputs for a few positions at a time, so they stay in the first-level cache.
 *
 * Weights are packed in panels of 16 outputs, [panel][n_in][16], the last one padded with zeros; whole panels of y,
 * bias, prelu, add, skip and blend are read and written. y may be add; it may not be an input of v. n_in is at most
 * LINEAR_MAX_IN and, unless v is a map, a multiple of 16.
 *
 * Versions with pairs process two inputs per step; n_in is then a multiple of 16. The bfloat16 version rounds weights
 * (when packed) and inputs to 8 bits of mantissa, and sums the products in float. The int16 version rounds inputs to
 * multiples of the row's largest / LINEAR_MOST; for a norm, to multiples of its upper bound sqrt(n_in) / LINEAR_MOST.
 * It rounds an output's weights to multiples of a step that keeps sums of products within 32 bits, so these sums are
 * exact. */
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
    const float *weight; /* packed for the version that is called */
    const float *steps;  /* of the weights, only in the int16 form */
    const float *bias;
    const float *prelu; /* may be NULL */
    const float *add;   /* [n_rows][add_stride]; may be NULL */
    size_t add_stride;
    const float *skip, *blend; /* skip is laid out like add; both may be NULL */
    float *y;                  /* [n_rows][y_stride] */
    size_t y_stride;
};

/* LINEAR_NARROW: a last panel with at most this many outputs takes a faster path. */
enum { LINEAR_PANEL = 16, LINEAR_MAX_IN = 2048, LINEAR_NARROW = 4, LINEAR_MOST = 8191 };

/* A lower bound for a row's largest input in the int16 version, so that its inverse is finite. */
#define LINEAR_LEAST 1e-20f

static inline unsigned linear_padded(unsigned n_out) {
    return (n_out + LINEAR_PANEL - 1) / LINEAR_PANEL * LINEAR_PANEL;
}

/* weight [n_out][n_in] -> packed [linear_padded(n_out) * n_in], which must start as zeros. */
void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in);

/* The same for pairs: [panel][n_in / 2][16] of them, which take half the space. steps [n_out]. */
void linear_bf16_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in);
void linear_int16_pack(float *packed, float *steps, const float *weight, unsigned n_out, unsigned n_in);

void linear_ref(const struct linear *a);
void linear_bf16_ref(const struct linear *a);
void linear_int16_ref(const struct linear *a);

#endif
