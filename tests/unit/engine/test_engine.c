/* The guarantees of every engine (engine.h): delay, independence of other streams and of the hops per call, causality,
 * reset, strength, floor and low cut, finite output for any input, and real-time safe hops. */
#include "engine/engine.h"
#include "model/model.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"
#include "tests/support/snr.h"

#include <check.h>
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {FIXTURES "/wide.safetensors",     FIXTURES "/narrow.safetensors",
                                     FIXTURES "/long-hop.safetensors", FIXTURES "/mamba2.safetensors",
                                     FIXTURES "/gru.safetensors",      FIXTURES "/lstm.safetensors",
                                     FIXTURES "/mean.safetensors"};
enum { N_MODELS = sizeof models / sizeof *models, N_LONG = 3 }; /* the first have a delay of hundreds of samples */

static struct model *model;
static uint32_t seed;

static struct engine *open_engine(const char *name, const char *model_path, unsigned n_streams) {
    struct err err;
    struct engine *e;
    ck_assert_msg(model_load(&model, model_path, &err) == 0, "%s", err.text);
    struct engine_options options = {.name = name, .n_streams = n_streams, .max_hops = 1};
    ck_assert_msg(engine_open(&e, &options, model, &err) == 0, "%s", err.text);
    return e;
}

static void close_engine(struct engine *e) {
    engine_close(e);
    model_free(model);
}

static uint32_t draw(void) {
    return seed = seed * 1664525 + 1013904223;
}

static float *noise(size_t n, float level) {
    float *x = malloc(n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++)
        x[i] = level * ((float)(draw() >> 8) / 0x1p23f - 1);
    return x;
}

static float *run(struct engine *e, unsigned stream, const float *in, unsigned n_hops) {
    float *out = malloc((size_t)n_hops * engine_hop(e) * sizeof *out);
    ck_assert_ptr_nonnull(out);
    struct engine_job job = {stream, n_hops, in, out};
    ck_assert_int_eq(engine_process(e, &job, 1), 0);
    return out;
}

static void check_same(const float *a, const float *b, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(a[i] == b[i], "%s: sample %zu is %.9g and %.9g", what, i, (double)a[i], (double)b[i]);
}

START_TEST(null_engine_delays) {
    const unsigned delays[N_LONG] = {768, 300, 512};
    struct engine *e = open_engine("null", models[_i], 1);
    unsigned n_hops = 20, delay = engine_delay(e);
    size_t n = (size_t)n_hops * engine_hop(e);
    ck_assert_uint_eq(delay, delays[_i]);
    float *x = noise(n, 1), *y = run(e, 0, x, n_hops);
    for (size_t i = 0; i < n; i++)
        ck_assert(y[i] == (i < delay ? 0 : x[i - delay]));
    free(x);
    free(y);
    close_engine(e);
}
END_TEST

START_TEST(strength_0_gives_the_delayed_input) {
    struct engine *e = open_engine("cpu", models[_i], 1);
    unsigned n_hops = 100, delay = engine_delay(e);
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = noise(n, .5f);
    engine_control(e, 0, (struct engine_controls){0});
    float *y = run(e, 0, x, n_hops);
    ck_assert_double_ge(snr_db(y + delay, x, n - delay), 100);
    free(x);
    free(y);
    close_engine(e);
}
END_TEST

/* Returns what a low cut of `cut` bins removes from n_hops of x, by definition: from each bin of a frame, the share of
 * its width below the cutoff. [n], delayed like the output. */
static double *cut_away(const float *x, unsigned n_hops, double cut) {
    const struct model_config *g = model_config(model);
    const float *analysis = model_weights(model)->analysis_window, *synthesis = model_weights(model)->synthesis_window;
    const long n = (long)n_hops * g->hop;
    double *y = calloc((size_t)n + g->window, sizeof *y);
    ck_assert_ptr_nonnull(y);
    for (long end = g->hop; end <= n; end += g->hop)
        for (unsigned k = 0; k < cut + .5; k++) {
            const double step = 2 * M_PI * k / g->window, share = fmin(cut + .5 - k, 1) * (k ? 2 : 1) / g->window;
            double complex bin = 0;
            for (long i = 0, at = end - g->window; i < g->window; i++, at++)
                bin += at < 0 ? 0 : x[at] * (double)analysis[i] * cexp(-step * (double)i * I);
            for (unsigned i = 0, skipped = g->window - g->synthesis; i < g->synthesis; i++)
                y[end - g->hop + i] += share * synthesis[i] * creal(bin * cexp(step * (skipped + i) * I));
        }
    return y;
}

START_TEST(a_low_cut_attenuates_its_share_of_each_bin) {
    static const float cuts_hz[] = {20, 70, 110, 300};
    struct engine *e = open_engine("cpu", models[_i], 1);
    const unsigned n_hops = 60, delay = engine_delay(e);
    const size_t n = (size_t)n_hops * engine_hop(e);
    const struct model_config *g = model_config(model);
    float *x = noise(n, .5f);
    for (unsigned c = 0; c < sizeof cuts_hz / sizeof *cuts_hz; c++) {
        engine_reset(e, 0);
        engine_control(e, 0, (struct engine_controls){.low_cut_hz = cuts_hz[c]});
        float *y = run(e, 0, x, n_hops);
        double *should = cut_away(x, n_hops, (double)cuts_hz[c] * g->window / g->rate), error = 0, power = 0;
        for (size_t i = 0; i < n; i++) {
            const double taken = (i < delay ? 0 : x[i - delay]) - (double)y[i];
            error += (taken - should[i]) * (taken - should[i]);
            power += should[i] * should[i];
        }
        ck_assert_msg(error < 1e-8 * power, "%g Hz: %g of what is taken away is wrong", (double)cuts_hz[c],
                      error / power);
        free(y);
        free(should);
    }
    free(x);
    close_engine(e);
}
END_TEST

/* Tones with a cutoff of 70 Hz: hum is removed, voices stay (docs/design.md has this table). */
START_TEST(a_low_cut_separates_hum_from_voices) {
    static const struct {
        double hz, least_db, most_db;
    } tones[] = {{0, -60, -28}, {20, -60, -33},   {40, -20, -17},   {50, -14, -11},   {60, -9, -7.5},
                 {70, -6, -5},  {85, -3.5, -2.5}, {100, -1.5, -.9}, {150, -.05, .05}, {300, -.05, .05}};
    struct engine *e = open_engine("cpu", FIXTURES "/../../models/small.safetensors", 1);
    const unsigned n_hops = 200, hop = engine_hop(e), n = n_hops * hop;
    float *x = noise(n, 0);
    engine_control(e, 0, (struct engine_controls){.low_cut_hz = 70});
    for (unsigned t = 0; t < sizeof tones / sizeof *tones; t++) {
        for (unsigned i = 0; i < n; i++)
            x[i] = .5f * (float)cos(2 * M_PI * tones[t].hz * i / model_rate(model));
        engine_reset(e, 0);
        float *y = run(e, 0, x, n_hops);
        double in = 0, out = 0;
        for (unsigned i = n / 10; i < n; i++) {
            in += (double)x[i] * x[i];
            out += (double)y[i] * y[i];
        }
        const double db = 10 * log10(out / in);
        printf("low cut at 70 Hz: %3.0f Hz %5.1f dB\n", tones[t].hz, db);
        ck_assert_msg(db >= tones[t].least_db && db <= tones[t].most_db, "%g Hz: %g dB", tones[t].hz, db);
        free(y);
    }
    free(x);
    close_engine(e);
}
END_TEST

/* Switching the cut fades a tone in and out without a step, however often. */
START_TEST(a_low_cut_switches_smoothly) {
    struct engine *e = open_engine("cpu", models[0], 1);
    const unsigned n_hops = 100, hop = engine_hop(e), n = n_hops * hop;
    float *x = noise(n, 0), *y = noise(n, 0), most = 0, x_most = 0, least_level = 1;
    for (unsigned i = 0; i < n; i++)
        x[i] = .5f * (float)sin(2 * M_PI * 100 * i / model_rate(model));
    for (unsigned h = 0; h < n_hops; h++) {
        struct engine_job job = {0, 1, x + h * hop, y + h * hop};
        engine_control(e, 0, (struct engine_controls){.low_cut_hz = h % 12 < 6 ? 0 : 300});
        ck_assert_int_eq(engine_process(e, &job, 1), 0);
    }
    for (unsigned i = 1; i < n; i++) {
        x_most = fmaxf(x_most, fabsf(x[i] - x[i - 1]));
        most = fmaxf(most, fabsf(y[i] - y[i - 1]));
    }
    for (unsigned i = n / 2; i + 480 < n; i++) { /* the loudest in each period: it does go */
        float level = 0;
        for (unsigned k = 0; k < 480; k++)
            level = fmaxf(level, fabsf(y[i + k]));
        least_level = fminf(least_level, level);
    }
    ck_assert_float_lt(least_level, .02f);
    ck_assert_float_lt(most, 1.5f * x_most);
    free(x);
    free(y);
    close_engine(e);
}
END_TEST

/* 60 s in one call, and in calls of one to seven hops: the same bits. */
START_TEST(hops_per_call_do_not_matter) {
    struct engine *e = open_engine("cpu", models[_i], 2);
    for (unsigned stream = 0; stream < 2; stream++)
        engine_control(e, stream, (struct engine_controls){.strength = 1, .low_cut_hz = 70});
    unsigned hop = engine_hop(e), n_hops = 60 * model_rate(model) / hop;
    size_t n = (size_t)n_hops * hop;
    float *x = noise(n, .3f), *whole = run(e, 0, x, n_hops);
    for (unsigned done = 0; done < n_hops;) {
        unsigned some = 1 + draw() % 7;
        some = some < n_hops - done ? some : n_hops - done;
        struct engine_job job = {1, some, x + (size_t)done * hop, x + (size_t)done * hop};
        ck_assert_int_eq(engine_process(e, &job, 1), 0);
        done += some;
    }
    check_same(x, whole, n, "whole and in parts");
    free(x);
    free(whole);
    close_engine(e);
}
END_TEST

START_TEST(future_changes_nothing_past) {
    struct engine *e = open_engine("cpu", models[_i], 2);
    unsigned hop = engine_hop(e), n_hops = 60, change = 10 + (draw() >> 16) % 40;
    size_t n = (size_t)n_hops * hop;
    float *x = noise(n, .3f), *before = run(e, 0, x, n_hops);
    for (size_t i = (size_t)change * hop; i < n; i++)
        x[i] = -x[i];
    float *after = run(e, 1, x, n_hops);
    check_same(before, after, (size_t)change * hop, "before the change");
    ck_assert_double_lt(snr_db(after + (size_t)change * hop, before + (size_t)change * hop, n - (size_t)change * hop),
                        20);
    free(x);
    free(before);
    free(after);
    close_engine(e);
}
END_TEST

START_TEST(reset_is_fresh) {
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 2);
    unsigned n_hops = 40;
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = noise(n, .3f), *poison = noise(n, 1e30f), *fresh = run(e, 0, x, n_hops);
    poison[draw() % n] = NAN;
    free(run(e, 1, poison, n_hops));
    engine_reset(e, 1);
    float *again = run(e, 1, x, n_hops);
    check_same(fresh, again, n, "after reset");
    free(x);
    free(poison);
    free(fresh);
    free(again);
    close_engine(e);
}
END_TEST

/* n_first hops of a sound, n_silent of digital silence, and the rest of the sound. */
static float *interrupted(const float *x, unsigned hop, unsigned n_first, unsigned n_silent, unsigned n_rest) {
    const size_t first = (size_t)n_first * hop, silence = (size_t)n_silent * hop, rest = (size_t)n_rest * hop;
    float *y = calloc(first + silence + rest, sizeof *y);
    ck_assert_ptr_nonnull(y);
    memcpy(y, x, first * sizeof *y);
    memcpy(y + first + silence, x + first, rest * sizeof *y);
    return y;
}

/* For any number of hops per call, and beside a stream without silence. */
START_TEST(the_network_does_not_hear_silence) {
    enum { FIRST = 30, REST = 20 };
    struct engine *e = open_engine("cpu", models[_i], 2);
    const struct model_config *g = model_config(model);
    const unsigned hop = engine_hop(e), n_heard = (g->window + g->synthesis + hop - 1) / hop, most = n_heard + 50;
    float *x = noise((size_t)(FIRST + most + REST) * hop, .3f), *fresh = run(e, 0, x + FIRST * hop, REST);
    float *after[4] = {0};
    for (unsigned i = 0; i < 4; i++) {
        const unsigned n_silent = i / 2 ? most : n_heard + 1, n_hops = FIRST + n_silent + REST,
                       some = i % 2 ? n_hops : 1;
        const size_t n = (size_t)n_hops * hop, end = n - (size_t)REST * hop;
        float *y = interrupted(x, hop, FIRST, n_silent, REST), *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
        ck_assert(y && a && b);
        engine_reset(e, 0);
        float *alone = run(e, 0, x, n_hops);
        engine_reset(e, 0);
        engine_reset(e, 1);
        for (unsigned h = 0; h < n_hops; h += some) {
            const size_t at = (size_t)h * hop;
            struct engine_job jobs[] = {{0, some, y + at, a + at}, {1, some, x + at, b + at}};
            ck_assert_int_eq(engine_process(e, jobs, 2), 0);
            ck_assert(some > 1 || engine_ran(e, 0) == (h < FIRST + n_heard || h >= FIRST + n_silent));
            ck_assert(engine_ran(e, 1));
        }
        check_same(b, alone, n, "beside one with silence");
        for (size_t j = (size_t)(FIRST + n_heard) * hop; j < end; j++)
            ck_assert(a[j] == 0);
        after[i] = memcpy(malloc(REST * hop * sizeof *a), a + end, REST * hop * sizeof *a);
        check_same(after[0], after[i], REST * hop, "after any silence, in any calls");
        free(y);
        free(a);
        free(b);
        free(alone);
    }
    ck_assert_msg(memcmp(after[0], fresh, REST * hop * sizeof *fresh) != 0, "it forgot what came before the silence");
    for (unsigned i = 0; i < 4; i++)
        free(after[i]);
    free(x);
    free(fresh);
    close_engine(e);
}
END_TEST

START_TEST(a_pause_discards_samples_but_not_states) {
    enum { HOPS = 30 };
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 2);
    const unsigned hop = engine_hop(e), delay = engine_delay(e);
    const size_t n = (size_t)HOPS * hop;
    float *x = noise(2 * n, .3f), *fresh = run(e, 0, x + n, HOPS);
    free(run(e, 1, x, HOPS));
    engine_pause(e, 1);
    ck_assert(engine_ran(e, 1));
    float *after = run(e, 1, x + n, HOPS);
    if (_i & 1)
        ck_assert(memcmp(after, fresh, n * sizeof *fresh) != 0);
    else
        check_same(after, fresh, n, "the samples before a pause are gone");
    engine_control(e, 1, (struct engine_controls){0});
    free(run(e, 1, x, HOPS));
    engine_pause(e, 1);
    float *dry = run(e, 1, x + n, HOPS);
    for (size_t i = 0; i < n; i++)
        ck_assert_float_eq_tol(dry[i], i < delay ? 0 : x[n + i - delay], 1e-5f);
    free(x);
    free(fresh);
    free(after);
    free(dry);
    close_engine(e);
}
END_TEST

START_TEST(streams_are_independent) {
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 3);
    unsigned n_hops = 40;
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = noise(n, .3f), *y = noise(n, .1f), *alone = run(e, 2, x, n_hops);
    engine_control(e, 1, (struct engine_controls){.5f, .1f, 80});
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    ck_assert(a && b);
    struct engine_job jobs[] = {{1, n_hops, y, b}, {0, n_hops, x, a}};
    ck_assert_int_eq(engine_process(e, jobs, 2), 0);
    check_same(a, alone, n, "beside another");
    free(x);
    free(y);
    free(a);
    free(b);
    free(alone);
    close_engine(e);
}
END_TEST

START_TEST(any_input_gives_finite_output) {
    static const float odd[] = {0, 1, -1, 1e-42f, 3e38f, NAN, INFINITY, -INFINITY};
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 1);
    unsigned n_hops = 30, n_odd = sizeof odd / sizeof *odd;
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = noise(n, 1);
    for (unsigned kind = 0; kind <= n_odd; kind++) { /* each of them for long, then all mixed; no reset between */
        for (size_t i = 0; i < n; i++)
            x[i] = odd[kind < n_odd ? kind : draw() >> 16 & 7];
        float *y = run(e, 0, x, n_hops);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(isfinite(y[i]), "kind %u, sample %zu", kind, i);
        free(y);
    }
    memset(x, 0, n * sizeof *x);
    free(run(e, 0, x, n_hops));
    float *y = run(e, 0, x, n_hops);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(y[i]) < 1e-6f, "silence sounds: %g", (double)y[i]);
    free(x);
    free(y);
    close_engine(e);
}
END_TEST

/* A model of several networks gives the weighted mean of what they give alone, its tail that of their tails. */
START_TEST(networks_have_their_mean) {
    static const char *const alone[] = {"gru", "lstm", "mamba2"};
    static const double shares[] = {.5, .125, .375};
    struct engine *e = open_engine("cpu", FIXTURES "/mean.safetensors", 1);
    const unsigned hop = engine_hop(e), delay = engine_delay(e), n_hops = 4000 / hop;
    const size_t n = (size_t)n_hops * hop;
    float *x = noise(n, .3f), *y = run(e, 0, x, n_hops), *tail = malloc(delay * sizeof *tail);
    double *mean = calloc(n + delay, sizeof *mean);
    ck_assert(tail && mean);
    engine_tail(e, 0, tail);
    close_engine(e);
    for (unsigned i = 0; i < 3; i++) {
        char path[128];
        float own_tail[64];
        snprintf(path, sizeof path, FIXTURES "/%s.safetensors", alone[i]);
        e = open_engine("cpu", path, 1);
        ck_assert_uint_eq(engine_delay(e), delay);
        ck_assert_uint_le(delay, 64);
        float *own = run(e, 0, x, n_hops);
        engine_tail(e, 0, own_tail);
        for (size_t j = 0; j < n + delay; j++)
            mean[j] += shares[i] * (double)(j < n ? own[j] : own_tail[j - n]);
        free(own);
        close_engine(e);
    }
    for (size_t j = 0; j < n + delay; j++)
        ck_assert_double_eq_tol(j < n ? y[j] : tail[j - n], mean[j], 1e-6);
    free(x);
    free(y);
    free(tail);
    free(mean);
}
END_TEST

/* At strength 0 the tail is the delayed input, faded out: adding the dry signal continues it without a step. */
START_TEST(tail_fades_to_dry) {
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 1);
    unsigned n_hops = 20, delay = engine_delay(e);
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = noise(n, .5f), *tail = malloc(delay * sizeof *tail);
    ck_assert_ptr_nonnull(tail);
    engine_control(e, 0, (struct engine_controls){0});
    free(run(e, 0, x, n_hops));
    engine_tail(e, 0, tail);
    const float *fade = engine_fade(e);
    for (unsigned i = 0; i < delay; i++) {
        float dry = x[n - delay + i];
        ck_assert_float_le(fade[i], 1.0001f);
        ck_assert_float_ge(fade[i], 0);
        if (i)
            ck_assert_float_le(fade[i], fade[i - 1] + 1e-6f);
        if (_i & 1) { /* a frame's windowed sum is the faded signal but for rounding */
            ck_assert_float_le(fabsf(tail[i] - fade[i] * dry), 1e-5f);
        } else
            ck_assert(tail[i] == fade[i] * dry);
    }
    ck_assert_float_ge(fade[0], .999f);
    ck_assert_float_le(fade[delay - 1], .001f);
    free(x);
    free(tail);
    close_engine(e);
}
END_TEST

START_TEST(hop_is_real_time_safe) {
    struct engine *e = open_engine(_i & 1 ? "cpu" : "null", models[_i / 2], 2);
    unsigned hop = engine_hop(e);
    float *x = noise(4 * hop, 1), *tail = noise(engine_delay(e), 1);
    struct engine_job jobs[] = {{0, 2, x, x}, {1, 2, x + 2 * hop, x + 2 * hop}};
    rt_guard_enter();
    for (unsigned i = 0; i < 3; i++) {
        engine_control(e, 0, (struct engine_controls){.3f, .1f, 80});
        engine_process(e, jobs, 2);
        engine_tail(e, 0, tail);
        engine_reset(e, 0);
    }
    rt_guard_leave();
    free(x);
    free(tail);
    close_engine(e);
}
END_TEST

START_TEST(unknown_engine_is_refused) {
    struct err err;
    struct engine *e = NULL;
    ck_assert_int_eq(model_load(&model, models[0], &err), 0);
    struct engine_options options = {.name = "abacus", .n_streams = 1, .max_hops = 1};
    ck_assert_int_lt(engine_open(&e, &options, model, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "abacus"));
    ck_assert_ptr_null(e);
    options.name = "auto";
    ck_assert_int_eq(engine_open(&e, &options, model, &err), 0);
    ck_assert_int_eq(strncmp(engine_name(e), "cpu (", 5), 0);
    close_engine(e);
}
END_TEST

int main(void) {
    seed = seed_of_run(20261121);
    Suite *suite = suite_create("engine");
    TCase *t = tcase_create("engine");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, null_engine_delays, 0, N_LONG);
    tcase_add_loop_test(t, strength_0_gives_the_delayed_input, 0, N_MODELS);
    tcase_add_loop_test(t, a_low_cut_attenuates_its_share_of_each_bin, 0, N_LONG);
    tcase_add_test(t, a_low_cut_switches_smoothly);
    tcase_add_loop_test(t, future_changes_nothing_past, 0, N_MODELS);
    tcase_add_loop_test(t, reset_is_fresh, 0, 2 * N_MODELS);
    tcase_add_loop_test(t, the_network_does_not_hear_silence, 0, N_MODELS);
    tcase_add_loop_test(t, a_pause_discards_samples_but_not_states, 0, 2 * N_MODELS);
    tcase_add_loop_test(t, streams_are_independent, 0, 2 * N_MODELS);
    tcase_add_loop_test(t, any_input_gives_finite_output, 0, 2 * N_MODELS);
    tcase_add_test(t, networks_have_their_mean);
    tcase_add_loop_test(t, tail_fades_to_dry, 0, 2 * N_LONG);
    tcase_add_loop_test(t, hop_is_real_time_safe, 0, 2 * N_MODELS);
    tcase_add_test(t, unknown_engine_is_refused);
    suite_add_tcase(suite, t);
    TCase *minute = tcase_create("minute");
    tcase_set_tags(minute, "slow"); /* an emulated processor takes half an hour */
    tcase_set_timeout(minute, 300);
    tcase_add_test(minute, a_low_cut_separates_hum_from_voices);
    tcase_add_loop_test(minute, hops_per_call_do_not_matter, 0, N_MODELS);
    suite_add_tcase(suite, minute);
    return run_suite(suite, CK_FORK);
}
