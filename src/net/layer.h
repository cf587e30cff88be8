/* layer.h - one linear layer of the network, ready to run: packed weights, bias and, if an activation follows, its
 * slopes. The pool passed to layer_init owns the arrays. The run functions are real-time safe. */
#ifndef PRIMEKNET_LAYER_H
#define PRIMEKNET_LAYER_H

#include "kernels/linear/linear.h"
#include "model/model.h"
#include "model/pool.h"

struct kernels;

struct layer {
    unsigned n_in, n_out;
    bool pairs; /* weights and products are bfloat16 or int16 */
    float *weight, *bias, *prelu, *steps;
};

/* prelu [n_out]: slopes for negative values; NULL: no activation. The layer uses pairs if the kernels have them and it
 * has enough outputs to make up for the cost of rounding. */
void layer_init(struct layer *l, struct pool *pool, const struct kernels *k, const struct linear_weights *w,
                const float *prelu);

/* y [n_rows][y_stride] = layer(x [n_rows][x_stride]) + add. add may be NULL and has y's stride. */
void layer_run(const struct layer *l, const struct kernels *k, unsigned n_rows, const float *x, size_t x_stride,
               const float *add, float *y, size_t y_stride);
/* The same for inputs that are a norm, a gate or convolutions, as described in kernels/linear/linear.h; `of` holds
 * them. */
void layer_run_of(const struct layer *l, const struct kernels *k, struct linear of, const float *add, float *y,
                  size_t y_stride);

#endif
