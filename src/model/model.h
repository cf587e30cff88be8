/* model.h - a network's file: safetensors, whose metadata defines the network wholly (docs/model-format.md).
 *
 * The reader trusts nothing: any bytes give either a model whose every tensor has the name and shape that its
 * metadata demands, with finite values, or one line naming the file and what is wrong. A model is immutable after
 * loading, so any thread may read it. */
#ifndef PRIMEKNET_MODEL_H
#define PRIMEKNET_MODEL_H

#include "base/err.h"
#include "model/schema.h"

struct model;

enum model_mixer { MODEL_MAMBA, MODEL_MAMBA2, MODEL_GRU, MODEL_LSTM };

/* What the metadata says. Lengths in samples, frequencies in bins; the names are those of docs/model-format.md. */
struct model_config {
    unsigned rate, window, synthesis, hop;
    unsigned n_bins;                         /* window / 2 + 1 */
    unsigned n_linear, n_bands, n_positions; /* the network's frequency axis: linear bins, then bands; odd */
    unsigned n_half;                         /* positions after the stride-2 convolution */
    unsigned band_edges[MODEL_MAX_BANDS + 1];
    float scale, compression, mask_ceiling, mask_minimum;
    float band_gain_maximum; /* INFINITY where there is none */
    float rotation_epsilon, magnitude_minimum, power_minimum, norm_epsilon;
    unsigned channels, depth, n_blocks, n_time, n_freq;
    unsigned n_kernels, kernels[MODEL_MAX_KERNELS];
    enum model_mixer mixer;
    unsigned d_inner;                           /* channels, too, of the state of a GRU or an LSTM */
    unsigned d_state, d_conv, step_rank, head;  /* 0 where the mixer has no such thing */
};

/* Channels that a mixer's convolution sees, where it has one: u and, in Mamba-2, B and C. */
static inline unsigned model_convolved(const struct model_config *g) {
    return g->d_inner + (g->mixer == MODEL_MAMBA2 ? 2 * g->d_state : 0);
}

/* In bins; a bin's gain is interpolated between the bands whose centres enclose it (docs/model-format.md). */
static inline float model_band_centre(const struct model_config *g, unsigned band) {
    return (float)(g->band_edges[band] + g->band_edges[band + 1] - 1) / 2;
}
/* The last band whose centre lies at or below a bin, else the first; share: of the next band in the bin's gain. */
unsigned model_band_below(const struct model_config *g, unsigned bin, float *share);

/* Outputs of a mixer's first linear layer, `in`. */
static inline unsigned model_mixer_in(const struct model_config *g) {
    switch (g->mixer) {
    case MODEL_MAMBA: return 2 * g->d_inner;
    case MODEL_MAMBA2: return model_convolved(g) + g->d_inner + g->d_inner / g->head;
    case MODEL_GRU: return 3 * g->channels;
    default: return 4 * g->channels;
    }
}

/* The name of a shipped model ("small") or a path (anything with a '/' or ending in .safetensors). Names are looked
 * for in $PRIMEKNET_MODELS where that is set, else in models/ beside the program (the build tree), else where they are
 * installed. */
int model_load(struct model **ret, const char *name_or_path, struct err *err);
void model_free(struct model *m); /* NULL is fine */

const char *model_name(const struct model *m); /* as in its metadata */
unsigned model_rate(const struct model *m);    /* Hz */
unsigned model_hop(const struct model *m);     /* samples */
unsigned model_delay(const struct model *m);   /* samples: the synthesis window less a hop */

const struct model_config *model_config(const struct model *m);

const struct weights *model_weights(const struct model *m);

#endif
