#include "net/layer.h"

#include "kernels/kernels.h"

#include <string.h>

static float *copied(struct pool *pool, const float *from, unsigned n_values, unsigned n_room) {
    float *to = pool_floats(pool, n_room);
    if (to && from)
        memcpy(to, from, n_values * sizeof *to);
    return to;
}

void layer_init(struct layer *l, struct pool *pool, const struct kernels *k, const struct linear_weights *w,
                const float *prelu) {
    const unsigned n_in = l->n_in = w->n_in, n_out = l->n_out = w->n_out;
    const bool pairs = l->pairs = k->linear_pairs && n_out > (k->bf16 ? LINEAR_NARROW : LINEAR_PANEL) &&
                                  n_in % LINEAR_PANEL == 0 && n_in <= LINEAR_MAX_IN;
    l->weight = pool_floats(pool, (size_t)linear_padded(n_out) * n_in / (pairs ? 2 : 1));
    l->steps = pool_floats(pool, linear_padded(n_out));
    if (l->weight && l->steps) {
        if (!pairs)
            linear_pack(l->weight, w->weight, n_out, n_in);
        else if (k->bf16)
            linear_bf16_pack(l->weight, w->weight, n_out, n_in);
        else
            linear_int16_pack(l->weight, l->steps, w->weight, n_out, n_in);
    }
    l->bias = copied(pool, w->bias, n_out, linear_padded(n_out));
    l->prelu = prelu ? copied(pool, prelu, n_out, linear_padded(n_out)) : NULL;
}

void layer_run_of(const struct layer *l, const struct kernels *k, struct linear of, const float *add, float *y,
                  size_t y_stride) {
    of.n_in = l->n_in;
    of.n_out = l->n_out;
    of.weight = l->weight;
    of.steps = l->steps;
    of.bias = l->bias;
    of.prelu = l->prelu;
    of.add = add;
    of.y = y;
    of.add_stride = of.y_stride = y_stride;
    (l->pairs ? k->linear_pairs : k->linear)(&of);
}

void layer_run(const struct layer *l, const struct kernels *k, unsigned n_rows, const float *x, size_t x_stride,
               const float *add, float *y, size_t y_stride) {
    layer_run_of(l, k, (struct linear){.n_rows = n_rows, .x = x, .x_stride = x_stride}, add, y, y_stride);
}
