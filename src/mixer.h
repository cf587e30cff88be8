/* mixer.h - what mixes along time in a time layer, at each position alone (docs/model-format.md).
 *
 * A net has one mixer for each time layer, scratch for all of them, and a stream has a state for each. Their arrays
 * belong to the pools that they were made from. mixer_run is real-time safe. */
#ifndef PRIMEKNET_MIXER_H
#define PRIMEKNET_MIXER_H

#include "layer.h"

struct mixer {
    const struct model_config *config;
    struct layer in, select, step, out;
    const float *conv_taps, *conv_bias, *pass;
    float *decay; /* packed */
};

struct mixer_scratch {
    unsigned select_row; /* floats a row of `select` */
    float *inner;        /* [n_half][2 * d_inner] */
    float *u, *step;     /* [n_half][d_inner] */
    float *select;       /* [n_half][select_row] */
};

struct mixer_state {
    float *past; /* [d_conv - 1][n_half][d_inner], a ring: the convolution's input */
    float *h;    /* [n_half], each packed as scan.h says */
};

void mixer_init(struct mixer *m, struct pool *pool, const struct model *model, const char *name);
void mixer_scratch_init(struct mixer_scratch *t, struct pool *pool, const struct model_config *g);
void mixer_state_init(struct mixer_state *s, struct pool *pool, const struct model_config *g);

/* y += mixer(x), both [n_half][channels]; `now` counts the stream's frames. */
void mixer_run(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t, struct mixer_state *s,
               unsigned long now, const float *x, float *y);

#endif
