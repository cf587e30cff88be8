#include "tool/limiter.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { rate = 48000, n = 48000, channels = 2 };

static uint32_t seed, first_seed;

static float uniform(void) { /* [-1,1) */
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 8388608.f - 1;
}

/* Runs in pieces of random length. */
static void run_in_pieces(float *frames) {
    struct limiter *l;
    ck_assert_int_eq(limiter_new(&l, rate, channels), 0);
    ck_assert_uint_eq(limiter_delay(l), rate / 400);
    for (size_t done = 0, piece; done < n; done += piece) {
        piece = 1 + (size_t)(fabsf(uniform()) * 700);
        if (piece > n - done)
            piece = n - done;
        limiter_run(l, frames + done * channels, piece);
    }
    limiter_free(l);
}

START_TEST(quiet_sound_passes_bit_for_bit) {
    seed = first_seed;
    float *in = malloc(n * channels * sizeof *in), *out = malloc(n * channels * sizeof *out);
    for (int i = 0; i < n * channels; i++)
        in[i] = out[i] = uniform();
    run_in_pieces(out);
    size_t delay = rate / 400;
    for (size_t i = delay; i < n; i++)
        for (int c = 0; c < channels; c++)
            ck_assert_float_eq(out[i * channels + c], in[(i - delay) * channels + c]);
    free(in);
    free(out);
}
END_TEST

START_TEST(never_above_full_scale) {
    seed = first_seed + (unsigned)_i;
    float *out = malloc(n * channels * sizeof *out);
    for (int i = 0; i < n * channels; i++)
        out[i] = uniform() * (uniform() > .99f ? 8 : .9f);
    run_in_pieces(out);
    for (int i = 0; i < n * channels; i++)
        ck_assert_msg(fabsf(out[i]) <= 1, "seed %u: sample %d is %g", first_seed + (unsigned)_i, i, out[i]);
    free(out);
}
END_TEST

START_TEST(a_peak_scales_both_channels_and_only_nearby) {
    float *out = calloc(n * channels, sizeof *out);
    for (int i = 0; i < n; i++)
        out[i * channels + 1] = .5f;
    int at = n / 2, delay = rate / 400;
    out[at * channels] = 4;
    run_in_pieces(out);
    ck_assert_float_le(out[(at + delay) * channels], 1);
    ck_assert_float_ge(out[(at + delay) * channels], .9f);
    ck_assert_float_eq_tol(out[(at + delay) * channels + 1], .5f * out[(at + delay) * channels] / 4, 1e-6f);
    ck_assert_float_eq(out[(at + 3 * delay) * channels + 1], .5f);
    ck_assert_float_eq(out[(at - delay) * channels + 1], .5f);
    free(out);
}
END_TEST

/* One peak of either sign, slightly too loud, or in the very first frame: attenuated as far as necessary, and no
 * further. */
START_TEST(each_peak_is_scaled_to_full_scale) {
    static const float peaks[] = {1.05f, -1.05f, 4, -4};
    const int delay = rate / 400, at = _i % 2 ? 0 : n / 2;
    const float peak = peaks[_i / 2];
    float *out = malloc(n * channels * sizeof *out);
    for (int i = 0; i < n; i++) {
        out[i * channels] = i == at ? peak : .5f;
        out[i * channels + 1] = .5f;
    }
    run_in_pieces(out);
    ck_assert_float_eq_tol(out[(at + delay) * channels], peak < 0 ? -1 : 1, 1e-5f);
    ck_assert_float_eq_tol(out[(at + delay) * channels + 1], .5f / fabsf(peak), 1e-5f);
    for (int i = delay; i < n; i++)
        ck_assert_float_ge(out[i * channels + 1], .5f / fabsf(peak) - 1e-5f);
    free(out);
}
END_TEST

/* The gain changes only as fast as necessary, before the peak and after it. */
START_TEST(the_gain_never_jumps) {
    const int delay = rate / 400;
    const float most = .5f * .75f / (float)(delay + 1) + 1e-5f;
    float *out = malloc(n * channels * sizeof *out);
    for (int i = 0; i < n * channels; i++)
        out[i] = .5f;
    out[n / 2 * channels] = 4;
    out[(n / 2 + delay + 20) * channels] = 4; /* while the gain returns */
    run_in_pieces(out);
    for (int i = delay + 1; i < n; i++)
        ck_assert_float_le(fabsf(out[i * channels + 1] - out[(i - 1) * channels + 1]), most);
    ck_assert_float_eq(out[(n - 1) * channels + 1], .5f);
    free(out);
}
END_TEST

/* Once the gain is 1 again, the next peak is treated as if it were the first. */
START_TEST(a_peak_leaves_nothing_behind) {
    const int delay = rate / 400, first = n / 2, second = first + 2 * delay + 1 + _i * delay / 3;
    float *with = malloc(n * channels * sizeof *with), *without = malloc(n * channels * sizeof *without);
    for (int i = 0; i < n * channels; i++)
        with[i] = without[i] = .5f;
    with[first * channels] = 4;
    with[second * channels] = without[second * channels] = 2;
    run_in_pieces(with);
    run_in_pieces(without);
    for (int i = (second + 1) * channels; i < n * channels; i++)
        ck_assert_float_eq_tol(with[i], without[i], 1e-5f);
    free(with);
    free(without);
}
END_TEST

int main(void) {
    first_seed = seed_of_run(100);
    Suite *s = suite_create("limiter");
    TCase *t = tcase_create("limiter");
    tcase_add_test(t, quiet_sound_passes_bit_for_bit);
    tcase_add_loop_test(t, never_above_full_scale, 0, 8);
    tcase_add_test(t, a_peak_scales_both_channels_and_only_nearby);
    tcase_add_loop_test(t, each_peak_is_scaled_to_full_scale, 0, 8);
    tcase_add_test(t, the_gain_never_jumps);
    tcase_add_loop_test(t, a_peak_leaves_nothing_behind, 0, 6);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return run_suite(s, CK_FORK);
}
