/* access.c - reads the properties of a loaded model. Separate from the reader, so that the CUDA module can contain a
 * copy. */
#include "model/model_type.h"

const char *model_name(const struct model *m) {
    return m->name;
}

unsigned model_rate(const struct model *m) {
    return m->config.rate;
}

unsigned model_hop(const struct model *m) {
    return m->config.hop;
}

unsigned model_delay(const struct model *m) {
    return m->config.synthesis - m->config.hop;
}

const struct model_config *model_config(const struct model *m) {
    return &m->config;
}

const struct model *model_next(const struct model *m) {
    return m->next;
}

const struct weights *model_weights(const struct model *m) {
    return &m->weights;
}

unsigned model_band_below(const struct model_config *g, unsigned bin, float *share) {
    unsigned above = 0;
    while (above < g->n_bands && (float)bin >= model_band_centre(g, above))
        above++;
    const unsigned below = above ? above - 1 : 0;
    const float centre = model_band_centre(g, below);
    *share = above && above < g->n_bands ? ((float)bin - centre) / (model_band_centre(g, above) - centre) : 0;
    return below;
}
