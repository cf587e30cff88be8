/* model.h - reads model files: safetensors whose metadata defines the network completely (docs/model-format.md).
 *
 * The reader trusts nothing. Any bytes give either a model in which every tensor has the name and shape that the
 * metadata requires and finite values, or one line that names the file and what is wrong. A model is immutable after
 * loading, so any thread may read it. */
#ifndef PRIMEKNET_MODEL_H
#define PRIMEKNET_MODEL_H

#include "base/err.h"
#include "model/schema.h"

struct model;

enum model_mixer { MODEL_MAMBA, MODEL_MAMBA2, MODEL_GRU, MODEL_LSTM };

/* The metadata. Lengths are in samples, frequencies in bins; names are those of docs/model-format.md. */
struct model_config {
    unsigned rate, window, synthesis, hop;
    unsigned n_bins;                         /* window / 2 + 1 */
    unsigned n_linear, n_bands, n_positions; /* the network's frequency axis: linear bins, then bands; odd */
    unsigned n_half;                         /* frequency positions after the stride-2 convolution */
    unsigned band_edges[MODEL_MAX_BANDS + 1];
    float scale, compression, mask_ceiling, mask_minimum;
    float band_gain_maximum; /* INFINITY if there is none */
    float rotation_epsilon, magnitude_minimum, power_minimum, norm_epsilon;
    unsigned channels, depth, n_blocks, n_time, n_freq;
    unsigned n_kernels, kernels[MODEL_MAX_KERNELS];
    enum model_mixer mixer;
    unsigned d_inner;                           /* also the channels of the state of a GRU or an LSTM */
    unsigned d_state, d_conv, step_rank, head_dim; /* 0 if the mixer has no such thing; head_dim: channels per head */
};

/* Channels in the mixer's convolution: u and, in Mamba-2, B and C. Only for Mamba and Mamba-2. */
static inline unsigned model_convolved(const struct model_config *g) {
    return g->d_inner + (g->mixer == MODEL_MAMBA2 ? 2 * g->d_state : 0);
}

/* The centre of a band, in bins. The gain of a bin is interpolated between the bands whose centres enclose it
 * (docs/model-format.md). */
static inline float model_band_centre(const struct model_config *g, unsigned band) {
    return (float)(g->band_edges[band] + g->band_edges[band + 1] - 1) / 2;
}
/* The last band whose centre is at or below a bin, else the first. *share is the weight of the next band in the bin's
 * gain. */
unsigned model_band_below(const struct model_config *g, unsigned bin, float *share);

/* Outputs of the mixer's first linear layer, `in`. */
static inline unsigned model_mixer_in(const struct model_config *g) {
    switch (g->mixer) {
    case MODEL_MAMBA: return 2 * g->d_inner;
    case MODEL_MAMBA2: return model_convolved(g) + g->d_inner + g->d_inner / g->head_dim;
    case MODEL_GRU: return 3 * g->channels;
    default: return 4 * g->channels;
    }
}

/* Loads a shipped model by name ("small") or a file by path (anything that contains '/' or ends in .safetensors). Names
 * are searched for in $PRIMEKNET_MODELS if it is set, else in models/ beside the program (the build tree), else where
 * models are installed. Returns 0 or a negative errno; blocks on I/O. */
int model_load(struct model **ret, const char *name_or_path, struct err *err);
void model_free(struct model *m); /* m may be NULL */

const char *model_name(const struct model *m); /* from the metadata */
unsigned model_rate(const struct model *m);    /* Hz */
unsigned model_hop(const struct model *m);     /* samples */
unsigned model_delay(const struct model *m);   /* samples: the synthesis window less a hop */

const struct model_config *model_config(const struct model *m);

const struct weights *model_weights(const struct model *m);

#endif
