/* mixer.h - what mixes along time in a time layer, at each position alone: the one of docs/model-format.md that the model
 * names.
 *
 * A net has one mixer for each time layer, scratch for all of them, and a stream has a state for each. Their arrays
 * belong to the pools that they were made from. mixer_run is real-time safe. */
#ifndef PRIMEKNET_MIXER_H
#define PRIMEKNET_MIXER_H

#include "net/layer.h"

/* Layers and arrays that the model's mixer has not are unused. */
struct mixer {
    const struct model_config *config;
    struct layer in, select, step, state, out;
    const float *conv_taps, *conv_bias, *pass;
    float *decay; /* packed as scan.h says, or [heads], times log2 e */
};

/* Rows for each position. */
struct mixer_scratch {
    unsigned in_row, select_row;
    float *in;     /* [n_half][in_row]: what the layer of that name gives */
    float *u;      /* [n_half][convolved channels]; of a GRU the state's share of its gates, [n_half][3 * channels] */
    float *select; /* [n_half][select_row] */
    float *step;   /* [n_half][d_inner] */
};

struct mixer_state {
    float *past; /* [d_conv - 1][n_half][convolved channels], a ring: the convolution's input */
    float *h;    /* [n_half], each packed as scan.h says; [n_half][channels] of a GRU or an LSTM */
    float *cell; /* [n_half][channels] of an LSTM */
};

void mixer_init(struct mixer *m, struct pool *pool, const struct kernels *k, const struct model_config *g,
                const struct time_weights *w);
void mixer_scratch_init(struct mixer_scratch *t, struct pool *pool, const struct model_config *g);
void mixer_state_init(struct mixer_state *s, struct pool *pool, const struct model_config *g);

/* x += mixer(norm(x)), and blend [channels] times skip where there is one, [n_half][channels]; `now` counts the stream's
 * frames. */
void mixer_run(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t, struct mixer_state *s,
               unsigned long now, const float *skip, const float *blend, float *x);

#endif
