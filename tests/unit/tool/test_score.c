/* The scores against their definitions, and against values of the standard tools for the same sounds. */
#include "tool/lab/score.h"
#include "tool/sound.h"
#include "tests/support/run.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { most_samples = 96000 };

static float clean[most_samples], x[most_samples];

static float noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.f - 1;
}

/* Two seconds of noise modulated four times a second, like syllables, and the same with another noise added. */
static size_t make_sounds(unsigned rate) {
    uint32_t a = 1, b = 2;
    float low = 0;
    size_t n = 2 * rate;
    for (size_t i = 0; i < n; i++) {
        float level = fmaxf(0, sinf((float)(2 * M_PI * 4 * (double)i / rate)));
        low = .7f * low + .3f * noise(&a);
        clean[i] = .5f * level * low;
        x[i] = clean[i] + .3f * noise(&b);
    }
    return n;
}

START_TEST(si_sdr_is_the_ratio_whatever_the_scale_and_the_offset) {
    size_t n = 48000;
    for (size_t i = 0; i < n; i++) {
        clean[i] = .2f + .3f * sinf((float)(2 * M_PI * 100 * (double)i / 48000));
        x[i] = -.1f + 2 * .3f * sinf((float)(2 * M_PI * 100 * (double)i / 48000)) +
               2 * .03f * sinf((float)(2 * M_PI * 200 * (double)i / 48000));
    }
    ck_assert_double_eq_tol(score_si_sdr(clean, x, n), 20, 1e-3);
    memset(x, 0, sizeof x);
    ck_assert(isnan(score_si_sdr(clean, x, n)));
}
END_TEST

START_TEST(segmental_snr_is_held_at_both_ends) {
    static const struct {
        float error;
        double db;
    } cases[] = {{.1f, 20}, {-.5f, 6.0206}, {1e-4f, 35}, {10, -10}, {0, 35}};
    size_t n = make_sounds(16000);
    for (size_t i = 0; i < n; i++)
        clean[i] += .01f; /* nowhere silent */
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (size_t i = 0; i < n; i++)
            x[i] = clean[i] * (1 + cases[c].error);
        ck_assert_double_eq_tol(score_segmental_snr(clean, x, n, 16000), cases[c].db, 1e-3);
    }
    ck_assert(isnan(score_segmental_snr(clean, x, 479, 16000)));
    ck_assert_double_eq_tol(score_segmental_snr(clean, x, 480, 16000), 35, 1e-3);
}
END_TEST

/* The scores of pystoi 0.4.1 for these sounds. For a file at 8 kHz, its resampler lets a little pass above 4 kHz, where
 * the highest band ends. */
static const struct {
    unsigned rate;
    double stoi, tolerance;
} stoi_of[] = {
    {8000, 0.601940, .002},  {10000, 0.597930, 1e-4}, {16000, 0.692315, 1e-4},
    {44100, 0.774964, 1e-4}, {48000, 0.788019, 1e-4},
};

/* As compare does it. */
static double stoi_at(unsigned rate, const float *of, size_t n) {
    struct sound a, b;
    struct err err;
    double stoi = 0;
    const struct sound c = {.samples = clean, .n = n, .rate = rate},
                       other = {.samples = (float *)of, .n = n, .rate = rate};
    ck_assert_int_eq(sound_resample(&a, &c, SCORE_STOI_RATE, "clean", &err), 0);
    ck_assert_int_eq(sound_resample(&b, &other, SCORE_STOI_RATE, "x", &err), 0);
    ck_assert_int_eq(score_stoi(&stoi, a.samples, b.samples, a.n), 0);
    sound_done(&a);
    sound_done(&b);
    return stoi;
}

START_TEST(stoi_is_what_the_reference_gives) {
    const unsigned rate = stoi_of[_i].rate;
    const size_t n = make_sounds(rate);
    ck_assert_double_eq_tol(stoi_at(rate, x, n), stoi_of[_i].stoi, stoi_of[_i].tolerance);
    ck_assert_double_eq_tol(stoi_at(rate, clean, n), 1, 1e-6);
}
END_TEST

START_TEST(stoi_needs_enough_speech) {
    make_sounds(10000);
    double stoi = 0;
    ck_assert_int_eq(score_stoi(&stoi, clean, x, 3000), 0);
    ck_assert(isnan(stoi));
    ck_assert_int_eq(score_stoi(&stoi, clean, x, 1), 0);
    ck_assert(isnan(stoi));
}
END_TEST

int main(void) {
    Suite *s = suite_create("score");
    TCase *t = tcase_create("score");
    tcase_add_test(t, si_sdr_is_the_ratio_whatever_the_scale_and_the_offset);
    tcase_add_test(t, segmental_snr_is_held_at_both_ends);
    tcase_add_loop_test(t, stoi_is_what_the_reference_gives, 0, sizeof stoi_of / sizeof *stoi_of);
    tcase_add_test(t, stoi_needs_enough_speech);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return run_suite(s, CK_FORK);
}
