/* Transform, features, and the application of mask and rotation, against their definitions in double. */
#include "kernels/kernels.h"
#include "model/model.h"
#include "tests/support/seed.h"
#include "net/spectrum.h"
#include "net/stft.h"
#include "tests/support/run.h"

#include <check.h>
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const char *const models[] = {FIXTURES "/wide.safetensors", FIXTURES "/narrow.safetensors"};

static struct model *model;
static const struct model_config *g;
static uint32_t seed;

static float draw(void) {
    seed = seed * 1664525 + 1013904223;
    return (float)(seed >> 8) / 0x1p23f - 1;
}

static void load(int i) {
    struct err err;
    ck_assert_msg(model_load(&model, models[i], &err) == 0, "%s", err.text);
    g = model_config(model);
}

/* The third hop's spectrum is the definition's sum over the last W samples. */
START_TEST(analysis_is_the_windowed_transform) {
    load(_i);
    struct stft *t;
    struct stft_state s;
    struct pool pool = {0};
    ck_assert_int_eq(stft_new(&t, model, kernels_nth(0)), 0);
    stft_state_init(t, &s, &pool);
    unsigned n_hops = g->window / g->hop + 2;
    float *x = malloc(n_hops * g->hop * sizeof *x);
    float complex *spectrum = malloc(g->n_bins * sizeof *spectrum);
    ck_assert(x && spectrum && pool_ok(&pool));
    for (unsigned i = 0; i < n_hops * g->hop; i++)
        x[i] = draw();
    for (unsigned i = 0; i < n_hops; i++)
        stft_analyse(t, &s, x + i * g->hop, spectrum);
    const float *frame = x + n_hops * g->hop - g->window, *window = model_weights(model)->analysis_window;
    for (unsigned k = 0; k < g->n_bins; k++) {
        double complex should = 0;
        for (unsigned i = 0; i < g->window; i++)
            should += (double)frame[i] * window[i] * cexp(-2 * M_PI * k * i / g->window * I);
        ck_assert_double_lt(cabs(spectrum[k] - should), 1e-4);
    }
    free(x);
    free(spectrum);
    pool_done(&pool);
    stft_free(t);
    model_free(model);
}
END_TEST

START_TEST(features_are_compressed_magnitude_and_phase) {
    load(_i);
    float complex *x = malloc(g->n_bins * sizeof *x);
    float *features = malloc(3 * g->n_positions * sizeof *features);
    ck_assert(x && features);
    for (unsigned i = 0; i < g->n_bins; i++)
        x[i] = i % 7 ? 20 * draw() + 20 * draw() * I : 0;
    spectrum_features(g, kernels_nth(0), x, features);
    for (unsigned i = 0; i < g->n_linear; i++) {
        double magnitude = fmax(cabs(x[i]) / 16, 1e-6), m = pow(magnitude, .3);
        double complex unit = x[i] / 16. / magnitude;
        ck_assert_double_eq_tol(features[3 * i], m, 1e-6);
        ck_assert_double_eq_tol(features[3 * i + 1], m * creal(unit), 1e-6);
        ck_assert_double_eq_tol(features[3 * i + 2], m * cimag(unit), 1e-6);
    }
    for (unsigned b = 0; b < g->n_bands; b++) {
        double power = 0;
        for (unsigned i = g->band_edges[b]; i < g->band_edges[b + 1]; i++)
            power += pow(cabs(x[i]) / 16, 2) / (g->band_edges[b + 1] - g->band_edges[b]);
        ck_assert_double_eq_tol(features[3 * (g->n_linear + b)], pow(power, .15), 1e-6);
        ck_assert(features[3 * (g->n_linear + b) + 1] == 0 && features[3 * (g->n_linear + b) + 2] == 0);
    }
    free(x);
    free(features);
    model_free(model);
}
END_TEST

/* The gain of a bin, from the definition: its own, or between the two band centres around it. */
static double gain_at(const float *mask, unsigned bin) {
    if (bin < g->n_linear)
        return pow(fmax(mask[bin], 1e-3), 1 / .3);
    const float *bands = mask + g->n_linear;
    for (unsigned b = 0;; b++) {
        double centre = (g->band_edges[b] + g->band_edges[b + 1] - 1) / 2.;
        double gain = pow(fmax(bands[b], 1e-3), 1 / .3);
        if (bin <= centre && b == 0)
            return gain;
        if (bin <= centre) {
            double before = (g->band_edges[b - 1] + g->band_edges[b] - 1) / 2.,
                   share = (bin - before) / (centre - before);
            return share * gain + (1 - share) * pow(fmax(bands[b - 1], 1e-3), 1 / .3);
        }
        if (b + 1 == g->n_bands)
            return gain;
    }
}

START_TEST(strength_and_floor_follow_their_formula) {
    static const float strengths[] = {0, .25f, .7f, 1}, floors[] = {0, .1f};
    float strength = strengths[_i / 2 % 4], floor = floors[_i / 8];
    load(_i % 2);
    float complex *x = malloc(g->n_bins * sizeof *x), *y = malloc(g->n_bins * sizeof *y);
    float *mask = malloc(g->n_positions * sizeof *mask), *rotation = malloc(2 * g->n_positions * sizeof *rotation);
    ck_assert(x && y && mask && rotation);
    for (unsigned i = 0; i < g->n_bins; i++)
        y[i] = x[i] = draw() + draw() * I;
    for (unsigned i = 0; i < g->n_positions; i++) {
        mask[i] = 1 + draw();
        rotation[2 * i] = .9f * draw();
        rotation[2 * i + 1] = 3 * draw();
    }
    spectrum_apply(g, kernels_nth(0), mask, rotation, strength, floor, y);
    for (unsigned i = 0; i < g->n_bins; i++) {
        double angle = i < g->n_linear ? atan2(rotation[2 * i + 1], 1. + rotation[2 * i]) : 0;
        double complex should = x[i] * fmax(pow(gain_at(mask, i), strength), floor) * cexp(strength * angle * I);
        /* the rotation's epsilon shortens it by up to 5e-5 where both its numbers are near 0.1 */
        ck_assert_msg(cabs(y[i] - should) <= 1e-4 * cabs(should), "bin %u: %g, should be %g", i, cabs(y[i]),
                      cabs(should));
        if (strength == 0)
            ck_assert(y[i] == x[i]);
    }
    free(x);
    free(y);
    free(mask);
    free(rotation);
    model_free(model);
}
END_TEST

START_TEST(non_finite_masks_change_nothing) {
    load(_i);
    float complex *x = malloc(g->n_bins * sizeof *x), *y = malloc(g->n_bins * sizeof *y);
    float *mask = malloc(g->n_positions * sizeof *mask), *rotation = malloc(2 * g->n_positions * sizeof *rotation);
    ck_assert(x && y && mask && rotation);
    for (unsigned i = 0; i < g->n_bins; i++)
        y[i] = x[i] = draw() + draw() * I;
    for (unsigned i = 0; i < g->n_positions; i++)
        mask[i] = rotation[2 * i] = rotation[2 * i + 1] = i % 2 ? NAN : INFINITY;
    spectrum_apply(g, kernels_nth(0), mask, rotation, 1, 0, y);
    for (unsigned i = 0; i < g->n_bins; i++)
        ck_assert(y[i] == x[i]);
    free(x);
    free(y);
    free(mask);
    free(rotation);
    model_free(model);
}
END_TEST

int main(void) {
    seed = seed_of_run(5);
    Suite *suite = suite_create("spectrum");
    TCase *t = tcase_create("spectrum");
    tcase_add_loop_test(t, analysis_is_the_windowed_transform, 0, 2);
    tcase_add_loop_test(t, features_are_compressed_magnitude_and_phase, 0, 2);
    tcase_add_loop_test(t, strength_and_floor_follow_their_formula, 0, 16);
    tcase_add_loop_test(t, non_finite_masks_change_nothing, 0, 2);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
