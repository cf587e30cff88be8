/* spectrum.h - computes the network's features from a frame's spectrum, and applies its mask and rotation to the
 * spectrum (docs/model-format.md).
 *
 * Real-time safe; no state. */
#ifndef PRIMEKNET_SPECTRUM_H
#define PRIMEKNET_SPECTRUM_H

#include "model/model.h"

#include <complex.h>

struct kernels;

/* x [n_bins] -> features [n_positions][3]: the compressed magnitude, and this magnitude times the cosine and sine of
 * the phase. A band's features are the compressed root mean square of its bins, and two zeros. */
void spectrum_features(const struct model_config *g, const struct kernels *k, const float complex *x, float *features);

/* Applies mask [n_positions] and rotation [n_positions][2] to x [n_bins] in place. A bin's magnitude is multiplied by
 * max(G^strength, floor) with G = mask^(1 / compression), interpolated between the centres of bands. Its phase is
 * rotated by strength times the rotation's angle, except in bands. A bin whose result would not be finite keeps its
 * value. */
void spectrum_apply(const struct model_config *g, const struct kernels *k, const float *mask, const float *rotation,
                    float strength, float floor, float complex *x);

/* High-pass filters x [n_bins] at the cutoff `cut`, in bins: each bin is scaled by the share of its width (half a bin
 * to each side) above the cutoff. cut = 0 has no effect. */
void spectrum_cut(const struct model_config *g, float cut, float complex *x);

#endif
