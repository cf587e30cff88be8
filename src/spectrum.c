#include "spectrum.h"

#include <math.h>

static float squared(float complex x) {
    return crealf(x) * crealf(x) + cimagf(x) * cimagf(x);
}

void spectrum_features(const struct model_config *g, const float complex *x, float *features) {
    const float scale = 1 / g->scale;
    for (unsigned i = 0; i < g->n_linear; i++) {
        float magnitude = fmaxf(sqrtf(squared(x[i])) * scale, g->magnitude_minimum);
        float compressed = powf(magnitude, g->compression), unit = compressed * scale / magnitude;
        features[3 * i] = compressed;
        features[3 * i + 1] = crealf(x[i]) * unit;
        features[3 * i + 2] = cimagf(x[i]) * unit;
    }
    for (unsigned b = 0; b < g->n_bands; b++) {
        const unsigned first = g->band_edges[b], end = g->band_edges[b + 1];
        float power = 0, *f = features + 3 * (g->n_linear + b);
        for (unsigned i = first; i < end; i++)
            power += squared(x[i]);
        power *= scale * scale / (float)(end - first);
        f[0] = powf(fmaxf(power, g->power_minimum), g->compression / 2);
        f[1] = f[2] = 0;
    }
}

static float gain_of(const struct model_config *g, float mask) {
    return isfinite(mask) ? powf(fmaxf(mask, g->mask_minimum), 1 / g->compression) : 1;
}

static float softened(float gain, float strength, float floor) {
    return fmaxf(strength == 1 ? gain : powf(gain, strength), floor);
}

/* (1 + re, im), normalised, to the power of `strength`. */
static float complex turn(const struct model_config *g, const float *rotation, float strength) {
    float re = 1 + rotation[0], im = rotation[1], square = re * re + im * im;
    float length = sqrtf(square / (square + g->rotation_epsilon));
    if (!isfinite(length) || strength == 0)
        return 1;
    if (strength == 1)
        return (re + im * I) / sqrtf(square + g->rotation_epsilon);
    float angle = strength * atan2f(im, re);
    return powf(length, strength) * (cosf(angle) + sinf(angle) * I);
}

void spectrum_apply(const struct model_config *g, const float *mask, const float *rotation, float strength, float floor,
                    float complex *x) {
    for (unsigned i = 0; i < g->n_linear; i++)
        x[i] *= softened(gain_of(g, mask[i]), strength, floor) * turn(g, rotation + 2 * i, strength);

    /* Bins below the first band's centre and above the last one's have these bands' gains. */
    const unsigned *edges = g->band_edges;
    float below = 0, above = 0, centre_below = 0, centre_above = 0;
    for (unsigned b = 0, i = g->n_linear; b <= g->n_bands && i < g->n_bins; b++) {
        if (b < g->n_bands) {
            above = fminf(gain_of(g, mask[g->n_linear + b]), g->band_gain_maximum);
            centre_above = (float)(edges[b] + edges[b + 1] - 1) / 2;
        } else
            centre_above = (float)g->n_bins;
        if (b == 0)
            below = above;
        for (; i < g->n_bins && (float)i < centre_above; i++) {
            float share = b == 0 ? 0 : ((float)i - centre_below) / (centre_above - centre_below);
            x[i] *= softened(below + (above - below) * share, strength, floor);
        }
        below = above;
        centre_below = centre_above;
    }
}
