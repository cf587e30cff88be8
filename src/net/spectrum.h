/* spectrum.h - from a frame's spectrum to the network's features, and from its mask and rotation back to the spectrum
 * (docs/model-format.md).
 *
 * Real-time safe; no state. */
#ifndef PRIMEKNET_SPECTRUM_H
#define PRIMEKNET_SPECTRUM_H

#include "model/model.h"

#include <complex.h>

struct kernels;

/* x [n_bins] -> features [n_positions][3]: the compressed magnitude, and the magnitude times the cosine and sine of the
 * phase. A band has the root mean square of its bins as magnitude, and zeros. */
void spectrum_features(const struct model_config *g, const struct kernels *k, const float complex *x, float *features);

/* Applies mask [n_positions] and rotation [n_positions][2] to x [n_bins] in place. A bin's magnitude is multiplied by
 * max(G^strength, floor) with G = mask^(1 / compression), interpolated between the centres of bands. Its phase is
 * turned by strength times the rotation, except in bands. A bin whose result would not be finite stays as it is. */
void spectrum_apply(const struct model_config *g, const struct kernels *k, const float *mask, const float *rotation,
                    float strength, float floor, float complex *x);

/* Removes from x [n_bins] what lies below `cut`, in bins: each bin keeps the share of its width (half a bin to each
 * side) that lies above. cut = 0 removes nothing. */
void spectrum_cut(const struct model_config *g, float cut, float complex *x);

#endif
