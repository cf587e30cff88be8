/* layer.h - one linear layer of the network, ready to run: packed weights, bias and, where there are some, the slopes of
 * the activation after it. Its arrays belong to the pool that it was made from. layer_run is real-time safe. */
#ifndef PRIMEKNET_LAYER_H
#define PRIMEKNET_LAYER_H

#include "kernels/linear/linear.h"
#include "model/model.h"
#include "model/pool.h"

struct kernels;

struct layer {
    unsigned n_in, n_out;
    bool bf16; /* weights and form of the product */
    float *weight, *bias, *prelu;
};

/* prelu [n_out] may be NULL: no activation. Products are in bfloat16 where that makes the kernels faster; few outputs do not. */
void layer_init(struct layer *l, struct pool *pool, const struct kernels *k, const struct linear_weights *w, const float *prelu);

/* y [n_rows][y_stride] = layer(x [n_rows][x_stride]) + add, where there is one, of y's stride. */
void layer_run(const struct layer *l, const struct kernels *k, unsigned n_rows, const float *x, size_t x_stride,
               const float *add, float *y, size_t y_stride);
/* The same of a norm, a gate or convolutions: `of` has its inputs as kernels/linear/linear.h describes them. */
void layer_run_of(const struct layer *l, const struct kernels *k, struct linear of, const float *add, float *y,
                  size_t y_stride);

#endif
