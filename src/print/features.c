#include "print/features.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static float *copied(struct pool *pool, const float *from, size_t n) {
    float *to = pool_floats(pool, n);
    if (to)
        memcpy(to, from, n * sizeof *to);
    return to;
}

void features_init(struct features *f, const struct encoder *e, const struct kernels *kernels, struct pool *pool) {
    const struct encoder_config *g = &e->config;
    *f = (struct features){.g = g, .k = kernels};
    float *const plan = pool_floats(pool, fft_plan_init(&f->fft, NULL, g->window, false));
    if (plan)
        fft_plan_init(&f->fft, plan, g->window, false);
    f->window = copied(pool, e->weights.window, g->window);
    f->bands = copied(pool, e->weights.bands, (size_t)g->n_bands * g->n_bins);
    for (unsigned b = 0; b < g->n_bands; b++) {
        const float *weights = e->weights.bands + (size_t)b * g->n_bins;
        f->end[b] = g->n_bins;
        while (f->first[b] < f->end[b] && weights[f->first[b]] == 0)
            f->first[b]++;
        while (f->end[b] > f->first[b] && weights[f->end[b] - 1] == 0)
            f->end[b]--;
    }
    f->frame = pool_floats(pool, g->window);
    f->spectrum = pool_floats(pool, 2 * (size_t)g->n_bins);
    f->power = pool_floats(pool, g->n_bins);
}

unsigned features_n_steps(const struct encoder_config *g, size_t n) {
    return (unsigned)((1 + (n - g->window) / g->hop) / g->stack);
}

static void analyse(struct features *f, const float *x, float gain, float *logarithms) {
    const struct encoder_config *g = f->g;
    for (unsigned i = 0; i < g->window; i++)
        f->frame[i] = isfinite(x[i]) ? x[i] * gain * f->window[i] : 0;
    f->k->fft(&(struct fft){.plan = &f->fft, .in = f->frame, .out = f->spectrum});
    for (unsigned i = 0; i < g->n_bins; i++)
        f->power[i] = f->spectrum[2 * i] * f->spectrum[2 * i] + f->spectrum[2 * i + 1] * f->spectrum[2 * i + 1];
    for (unsigned b = 0; b < g->n_bands; b++) {
        const float *weights = f->bands + (size_t)b * g->n_bins;
        float sum = 0;
        for (unsigned i = f->first[b]; i < f->end[b]; i++)
            sum += weights[i] * f->power[i];
        logarithms[b] = logf(sum + g->floor);
    }
}

void features_compute(struct features *f, const float *x, size_t n, float gain, float *steps) {
    const struct encoder_config *g = f->g;
    const unsigned n_frames = features_n_steps(g, n) * g->stack;
    double sums[ENCODER_MAX_BANDS] = {0};
    for (unsigned t = 0; t < n_frames; t++) {
        float *const frame = steps + (size_t)t * g->n_bands;
        analyse(f, x + (size_t)t * g->hop, gain, frame);
        for (unsigned b = 0; b < g->n_bands; b++)
            sums[b] += frame[b];
    }
    for (unsigned t = 0; t < n_frames; t++)
        for (unsigned b = 0; b < g->n_bands; b++)
            steps[(size_t)t * g->n_bands + b] -= (float)(sums[b] / n_frames);
}
