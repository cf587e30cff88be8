/* mixer.h - the recurrence along time in a time layer, at each frequency position separately. The model selects Mamba,
 * Mamba-2, a GRU or an LSTM (docs/mixers.md; formulas in docs/model-format.md).
 *
 * A net has one mixer per time layer and one scratch shared by all of them. A stream has one state per mixer. The pools
 * passed to the init functions own the arrays. One thread at a time; mixer_run is real-time safe. */
#ifndef PRIMEKNET_MIXER_H
#define PRIMEKNET_MIXER_H

#include "net/layer.h"

/* Layers and arrays that the model's mixer lacks stay zero. */
struct mixer {
    const struct model_config *config;
    struct layer in, select, step, state, out;
    const float *conv_taps, *conv_bias, *pass;
    float *decay; /* times log2 e; packed as in scan.h (Mamba) or [heads] (Mamba-2) */
};

/* One row per frequency position. */
struct mixer_scratch {
    unsigned in_row, select_row;
    float *in;     /* [n_half][in_row]: output of the layer `in` */
    float *u;      /* [n_half][convolved channels]; GRU: the state's part of its gates, [n_half][3 * channels] */
    float *select; /* [n_half][select_row] */
    float *step;   /* [n_half][d_inner] */
};

struct mixer_state {
    float *past; /* [d_conv - 1][n_half][convolved channels], a ring of the convolution's inputs */
    float *h;    /* [n_half], each packed as in scan.h; GRU and LSTM: [n_half][channels] */
    float *cell; /* [n_half][channels], LSTM only */
};

void mixer_init(struct mixer *m, struct pool *pool, const struct kernels *k, const struct model_config *g,
                const struct time_weights *w);
void mixer_scratch_init(struct mixer_scratch *t, struct pool *pool, const struct model_config *g);
void mixer_state_init(struct mixer_state *s, struct pool *pool, const struct model_config *g);

/* x [n_half][channels] += mixer(norm(x)) + blend [channels] * skip [n_half][channels]; skip and blend may be NULL.
 * `now` counts the stream's frames. */
void mixer_run(const struct mixer *m, const struct kernels *k, const struct mixer_scratch *t, struct mixer_state *s,
               unsigned long now, const float *skip, const float *blend, float *x);

#endif
