/* spectrum.h - between a frame's spectrum and the network: features of its positions in, gains and rotations out.
 *
 * Real-time safe; no state. */
#ifndef PRIMEKNET_SPECTRUM_H
#define PRIMEKNET_SPECTRUM_H

#include "model/model.h"

#include <complex.h>

struct kernels;

/* x [n_bins] -> features [n_positions][3]: compressed magnitude, and that times cosine and sine of the phase; a band
 * has the root mean square of its bins for magnitude and zeros for the rest. */
void spectrum_features(const struct model_config *g, const struct kernels *k, const float complex *x, float *features);

/* Applies mask [n_positions] and rotation [n_positions][2] to x [n_bins] in place: a bin's magnitude is multiplied by
 * max(G^strength, floor), G = mask^(1 / compression), between the centres of bands interpolated; its phase is turned by
 * strength times the rotation (bands: not at all). A bin for which a number is not finite stays as it is. */
void spectrum_apply(const struct model_config *g, const struct kernels *k, const float *mask, const float *rotation,
                    float strength, float floor, float complex *x);

/* Takes away what lies below `cut`, in bins, of x [n_bins]: a bin keeps the share of its width, half a bin to either side,
 * that lies above. 0: nothing is cut. */
void spectrum_cut(const struct model_config *g, float cut, float complex *x);

#endif
