/* features.h - an encoder's inputs: the logarithms of the powers of each frame's bands, less their means.
 *
 * Features belong to one thread at a time. */
#ifndef PRIMEKNET_FEATURES_H
#define PRIMEKNET_FEATURES_H

#include "kernels/fft/fft.h"
#include "model/pool.h"
#include "print/encoder.h"

#include <stddef.h>

struct kernels;

struct features {
    const struct encoder_config *g;
    const struct kernels *k;
    struct fft_plan fft;
    float *window, *bands;                                     /* copies of the weights */
    unsigned first[ENCODER_MAX_BANDS], end[ENCODER_MAX_BANDS]; /* bins of each band; the weights of others are 0 */
    float *frame, *spectrum, *power;                           /* [window], [n_bins][2], [n_bins] */
};

/* Allocates the arrays in the pool; check it with pool_ok. e->config must outlive f; the weights are copied. */
void features_init(struct features *f, const struct encoder *e, const struct kernels *kernels, struct pool *pool);

/* Returns the steps that n samples make, n at least g->window. */
unsigned features_n_steps(const struct encoder_config *g, size_t n);

/* Writes steps [n_steps][stack][n_bands] of x [n], multiplied by `gain`. n is at least g->least and at most g->span.
 * Samples that are not finite count as 0. */
void features_compute(struct features *f, const float *x, size_t n, float gain, float *steps);

#endif
