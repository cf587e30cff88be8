/* model.h - reads model files: safetensors files whose metadata defines the network completely (docs/model-format.md).
 *
 * The reader is safe on any bytes. It returns either a model in which every tensor has the name and shape that the
 * metadata requires, and only finite values, or an error line that names the file and the fault. A loaded model is
 * immutable, except for model_keep_voice, so any thread may read it. */
#ifndef PRIMEKNET_MODEL_H
#define PRIMEKNET_MODEL_H

#include "base/err.h"
#include "model/schema.h"

struct model;

enum model_mixer { MODEL_MAMBA, MODEL_MAMBA2, MODEL_GRU, MODEL_LSTM };

/* A model's metadata, with the names of docs/model-format.md. Lengths are in samples, frequencies in bins. */
struct model_config {
    unsigned rate, window, synthesis, hop;
    unsigned n_bins;                         /* window / 2 + 1 */
    unsigned n_linear, n_bands, n_positions; /* the network's frequency axis: linear bins, then bands; odd in all */
    unsigned n_half;                         /* frequency positions after the stride-2 convolution */
    unsigned band_edges[MODEL_MAX_BANDS + 1];
    float scale, compression, mask_ceiling, mask_minimum;
    float band_gain_maximum; /* INFINITY: no limit */
    float rotation_epsilon, magnitude_minimum, power_minimum, norm_epsilon;
    unsigned channels, depth, n_blocks, n_time, n_freq;
    unsigned n_kernels, kernels[MODEL_MAX_KERNELS];
    enum model_mixer mixer;
    unsigned d_inner;                              /* for a GRU or an LSTM: the channels of its state */
    unsigned d_state, d_conv, step_rank, head_dim; /* 0 where the mixer has none; head_dim: channels per head */
    float share;                                   /* in the mean of several networks, relative to the others' */
    unsigned voice_size;                           /* numbers in a print; 0: the model takes none */
};

/* The channels of the mixer's convolution, in Mamba and Mamba-2 only: u and, in Mamba-2, B and C. */
static inline unsigned model_convolved(const struct model_config *g) {
    return g->d_inner + (g->mixer == MODEL_MAMBA2 ? 2 * g->d_state : 0);
}

/* The centre of a band, in bins. The gain of a bin is interpolated between the bands whose centres enclose it
 * (docs/model-format.md). */
static inline float model_band_centre(const struct model_config *g, unsigned band) {
    return (float)(g->band_edges[band] + g->band_edges[band + 1] - 1) / 2;
}
/* Returns the last band whose centre is at or below a bin, or the first band if there is none. Sets *share to the
 * weight of the next band in the bin's gain. */
unsigned model_band_below(const struct model_config *g, unsigned bin, float *share);

/* The outputs of the mixer's first linear layer, `in`. */
static inline unsigned model_mixer_in(const struct model_config *g) {
    switch (g->mixer) {
    case MODEL_MAMBA: return 2 * g->d_inner;
    case MODEL_MAMBA2: return model_convolved(g) + g->d_inner + g->d_inner / g->head_dim;
    case MODEL_GRU: return 3 * g->channels;
    default: return 4 * g->channels;
    }
}

/* Loads a shipped model by name ("small") or a file by path (anything that contains '/' or ends in .safetensors). Looks
 * names up in $PRIMEKNET_MODELS if it is set, else in models/ beside the program (the build tree), else in the
 * directory of installed models. Blocks on I/O. Returns 0 or a negative errno. */
int model_load(struct model **ret, const char *name_or_path, struct err *err);
void model_free(struct model *m); /* m may be NULL */

/* Makes the model keep one voice only: folds its print [size] (print/print.h) into the weights, after which the network
 * costs what it did. The conditioning is that of feature-wise linear modulation (FiLM: Perez et al., AAAI 2018,
 * arXiv 1709.07871): a scale and a shift of each channel before each mixer. A print of zeros changes no bit. Call it
 * once, before anything else knows the model. Returns -ENOTSUP if the model takes no print, or -EINVAL if it takes those
 * of another encoder; the model is then unchanged. */
int model_keep_voice(struct model *m, const char *encoder, const float *print, unsigned size, struct err *err);

const char *model_name(const struct model *m); /* from the metadata */
unsigned model_rate(const struct model *m);    /* Hz */
unsigned model_hop(const struct model *m);     /* samples */
unsigned model_delay(const struct model *m);   /* samples: the synthesis window less a hop */

/* A model has one or more networks, whose mean output is the model's. They share rate, windows and hop. The functions
 * here give the first one's properties; model_next returns the next network, as a model of its own, or NULL. */
const struct model *model_next(const struct model *m);
const struct model_config *model_config(const struct model *m);
const struct weights *model_weights(const struct model *m);

#endif
