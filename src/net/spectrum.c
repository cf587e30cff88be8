#include "net/spectrum.h"

#include "kernels/kernels.h"
#include "kernels/power/power.h"

#include <math.h>

/* fmaxf without its NaN handling, for speed */
static float at_least(float x, float least) {
    return x > least ? x : least;
}

static float squared(float complex x) {
    return crealf(x) * crealf(x) + cimagf(x) * cimagf(x);
}

enum { CHUNK = 128 }; /* frequency positions per call of the power kernel, a multiple of POWER_PAD */

static void powers(const struct kernels *k, float *x, unsigned n, float exponent) {
    for (unsigned i = n; i % POWER_PAD; i++)
        x[i] = 1;
    k->power(&(struct power){n, exponent, x});
}

void spectrum_features(const struct model_config *g, const struct kernels *k, const float complex *x, float *features) {
    const float scale = 1 / g->scale;
    float v[CHUNK];
    for (unsigned first = 0, n; first < g->n_linear; first += n, x += n, features += 3 * n) {
        float magnitude[CHUNK];
        n = g->n_linear - first < CHUNK ? g->n_linear - first : CHUNK;
        for (unsigned i = 0; i < n; i++)
            v[i] = magnitude[i] = at_least(sqrtf(squared(x[i])) * scale, g->magnitude_minimum);
        powers(k, v, n, g->compression);
        for (unsigned i = 0; i < n; i++) {
            const float unit = v[i] * scale / magnitude[i];
            features[3 * i] = v[i];
            features[3 * i + 1] = crealf(x[i]) * unit;
            features[3 * i + 2] = cimagf(x[i]) * unit;
        }
    }
    x -= g->n_linear;
    for (unsigned first = 0, n; first < g->n_bands; first += n, features += 3 * n) {
        n = g->n_bands - first < CHUNK ? g->n_bands - first : CHUNK;
        for (unsigned b = 0; b < n; b++) {
            const unsigned begin = g->band_edges[first + b], end = g->band_edges[first + b + 1];
            float power = 0;
            for (unsigned i = begin; i < end; i++)
                power += squared(x[i]);
            v[b] = at_least(power * (scale * scale / (float)(end - begin)), g->power_minimum);
        }
        powers(k, v, n, g->compression / 2);
        for (unsigned b = 0; b < n; b++) {
            features[3 * b] = v[b];
            features[3 * b + 1] = features[3 * b + 2] = 0;
        }
    }
}

/* The gains of n frequency positions, at most CHUNK. */
static void gains_of(const struct model_config *g, const struct kernels *k, const float *mask, unsigned n,
                     float gains[CHUNK]) {
    for (unsigned i = 0; i < n; i++)
        gains[i] = isfinite(mask[i]) ? at_least(mask[i], g->mask_minimum) : 1;
    powers(k, gains, n, 1 / g->compression);
}

static float softened(float gain, float strength, float floor) {
    return at_least(strength == 1 ? gain : powf(gain, strength), floor);
}

/* (1 + re, im), normalised and raised to the power of `strength`. */
static float complex turn(const struct model_config *g, const float *rotation, float strength) {
    float re = 1 + rotation[0], im = rotation[1], square = re * re + im * im;
    float scale = 1 / sqrtf(square + g->rotation_epsilon);
    if (!isfinite(square * scale) || strength == 0)
        return 1;
    if (strength == 1)
        return re * scale + im * scale * I;
    float angle = strength * atan2f(im, re);
    return powf(sqrtf(square) * scale, strength) * (cosf(angle) + sinf(angle) * I);
}

void spectrum_apply(const struct model_config *g, const struct kernels *k, const float *mask, const float *rotation,
                    float strength, float floor, float complex *x) {
    float gains[(MODEL_MAX_BANDS + CHUNK - 1) / CHUNK * CHUNK];
    for (unsigned first = 0, n; first < g->n_linear; first += n) {
        n = g->n_linear - first < CHUNK ? g->n_linear - first : CHUNK;
        gains_of(g, k, mask + first, n, gains);
        for (unsigned i = 0; i < n; i++) {
            const float complex t = softened(gains[i], strength, floor) * turn(g, rotation + 2 * (first + i), strength);
            float *const v = (float *)&x[first + i], re = v[0], im = v[1]; /* by hand: C's complex product checks for
                                                                            * NaN */
            v[0] = re * crealf(t) - im * cimagf(t);
            v[1] = re * cimagf(t) + im * crealf(t);
        }
    }

    /* Bins below the first band's centre have its gain; bins above the last band's centre have that band's. */
    for (unsigned first = 0; first < g->n_bands; first += CHUNK)
        gains_of(g, k, mask + g->n_linear + first, g->n_bands - first < CHUNK ? g->n_bands - first : CHUNK,
                 gains + first);
    float below = 0, above = 0, centre_below = 0, centre_above = 0;
    for (unsigned b = 0, i = g->n_linear; b <= g->n_bands && i < g->n_bins; b++) {
        if (b < g->n_bands) {
            above = fminf(gains[b], g->band_gain_maximum);
            centre_above = model_band_centre(g, b);
        } else
            centre_above = (float)g->n_bins;
        if (b == 0)
            below = above;
        const float slope = (above - below) / (centre_above - centre_below);
        for (; i < g->n_bins && (float)i < centre_above; i++)
            x[i] *= softened(below + ((float)i - centre_below) * slope, strength, floor);
        below = above;
        centre_below = centre_above;
    }
}

void spectrum_cut(const struct model_config *g, float cut, float complex *x) {
    for (unsigned i = 0; cut > 0 && i < g->n_bins && (float)i < cut + .5f; i++)
        x[i] *= at_least((float)i + .5f - cut, 0);
}
