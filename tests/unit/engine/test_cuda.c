/* The CUDA engine for live sound against the CPU engine: the same sound, and bit-equal output in any batch. Skipped if
 * no GPU opens. test_engine.c checks the guarantees of every engine. TEST_HOPS=N limits each run to N hops, for
 * tools that slow down the GPU. */
#include "engine/engine.h"
#include "model/model_type.h"
#include "tests/support/run.h"
#include "tests/support/snr.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS = 30, LEAST_DB = 80, N_STREAMS = 5, N_MANY = 67, N_SOUNDS = 4, SKIPPED = 77 };

static const char *const models[] = {"small",
                                     "base",
                                     "large",
                                     FIXTURES "/wide.safetensors",
                                     FIXTURES "/narrow.safetensors",
                                     FIXTURES "/long-hop.safetensors",
                                     FIXTURES "/mamba2.safetensors",
                                     FIXTURES "/gru.safetensors",
                                     FIXTURES "/lstm.safetensors",
                                     FIXTURES "/mean.safetensors"};
enum { N_MODELS = sizeof models / sizeof *models };

static struct model *model;
static unsigned most_hops = ~0u;

static unsigned at_most(unsigned n_hops) {
    return n_hops < most_hops ? n_hops : most_hops;
}

static struct engine *open_engine(const char *name, unsigned n_streams) {
    struct err err;
    struct engine *e;
    struct engine_options options = {.name = name, .exact = true, .n_streams = n_streams, .max_hops = 1};
    ck_assert_msg(engine_open(&e, &options, model, &err) == 0, "%s", err.text);
    return e;
}

static void load(const char *name) {
    struct err err;
    ck_assert_msg(model_load(&model, name, &err) == 0, "%s", err.text);
}

/* A signal like speech in noise: a gliding voice of 30 harmonics with pauses, over noise and hum. */
static float *speech(size_t n, uint32_t seed) {
    float *x = malloc(n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    double rate = model_rate(model), phase = 0;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        double t = (double)i / rate, pitch = 140 + 40 * sin(2 * M_PI * .7 * t), syllable = sin(2 * M_PI * 1.9 * t),
               voice = 0;
        phase += pitch / rate;
        phase -= floor(phase);
        for (int k = 1; k <= 30 && k * pitch < rate / 2; k++)
            voice += sin(2 * M_PI * k * phase) / k;
        x[i] = (float)(.15 * voice * (syllable > 0 ? syllable * syllable : 0) + .01 * sin(2 * M_PI * 50 * t) +
                       .03 * ((double)(seed >> 8) / 0x1p23 - 1));
    }
    return x;
}

static float *run(struct engine *e, unsigned stream, const float *x, unsigned n_hops) {
    float *y = malloc((size_t)n_hops * engine_hop(e) * sizeof *y);
    ck_assert_ptr_nonnull(y);
    struct engine_job job = {stream, n_hops, x, y};
    ck_assert_int_eq(engine_process(e, &job, 1), 0);
    return y;
}

static void check_sound(const char *name) {
    struct engine *cpu = open_engine("cpu", 1), *cuda = open_engine("cuda", 1);
    const unsigned hop = engine_hop(cpu), delay = engine_delay(cpu);
    const unsigned n_hops = at_most(SECONDS * model_rate(model) / hop);
    const size_t n = (size_t)n_hops * hop;
    float *x = speech(n, 1), *should = run(cpu, 0, x, n_hops), *is = run(cuda, 0, x, n_hops);
    const size_t n_end = n < model_rate(model) ? n : model_rate(model);
    const double db = snr_db(is, should, n), end_db = snr_db(is + n - n_end, should + n - n_end, n_end);
    float *tails[2] = {malloc(delay * sizeof(float)), malloc(delay * sizeof(float))};
    ck_assert(tails[0] && tails[1]);
    engine_tail(cuda, 0, tails[0]);
    engine_tail(cpu, 0, tails[1]);
    const double tail_db = snr_db(tails[0], tails[1], delay);
    printf("%s on %s: %.1f dB, last second %.1f dB, tail %.1f dB\n", name, engine_name(cuda), db, end_db, tail_db);
    ck_assert_msg(db >= LEAST_DB && end_db >= LEAST_DB && tail_db >= LEAST_DB, "%s: %.1f, %.1f, %.1f dB", name, db,
                  end_db, tail_db);

    const struct engine_controls controls = {.strength = .6f, .floor = .1f, .low_cut_hz = 80};
    engine_control(cpu, 0, controls);
    engine_control(cuda, 0, controls);
    engine_pause(cpu, 0);
    engine_pause(cuda, 0);
    const unsigned n_softer = at_most(200);
    float *softer = run(cpu, 0, x, n_softer), *on_gpu = run(cuda, 0, x, n_softer);
    const double softer_db = snr_db(on_gpu, softer, (size_t)n_softer * hop);
    printf("%s at strength 0.6, floor 0.1, low cut 80 Hz: %.1f dB\n", name, softer_db);
    ck_assert_double_ge(softer_db, LEAST_DB);
    free(x);
    free(should);
    free(is);
    free(softer);
    free(on_gpu);
    free(tails[0]);
    free(tails[1]);
    engine_close(cpu);
    engine_close(cuda);
}

START_TEST(sounds_like_the_cpu) {
    load(models[_i]);
    check_sound(models[_i]);
    model_free(model);
}
END_TEST

/* A synthesis window as long as the frame, longer than any shipped model's. */
START_TEST(long_synthesis_sounds_like_the_cpu) {
    load("small");
    struct model *const small = model, longer = *small;
    const unsigned n = longer.config.window;
    float *window = malloc(n * sizeof *window);
    ck_assert_ptr_nonnull(window);
    for (unsigned i = 0; i < n; i++)
        window[i] = (float)sin(M_PI * (i + .5) / n);
    longer.config.synthesis = n;
    longer.config.hop = n / 2;
    longer.weights.analysis_window = longer.weights.synthesis_window = window;
    model = &longer;
    check_sound("small with a long synthesis window");
    free(window);
    model_free(small);
}
END_TEST

/* The bits are the same alone, after a reset, and beside one to four other streams in any order of jobs. */
START_TEST(other_streams_change_nothing) {
    load(models[_i]);
    struct engine *e = open_engine("cuda", N_STREAMS);
    const unsigned hop = engine_hop(e), n_hops = at_most(100), step = n_hops / (2 * N_STREAMS);
    const size_t n = (size_t)n_hops * hop;
    float *x[N_STREAMS], *alone[N_STREAMS], *together[N_STREAMS];
    for (unsigned i = 0; i < N_STREAMS; i++) {
        x[i] = speech(n, i);
        alone[i] = run(e, i, x[i], n_hops);
        together[i] = malloc(n * sizeof *together[i]);
        ck_assert_ptr_nonnull(together[i]);
    }
    for (unsigned n_jobs = 1; n_jobs <= N_STREAMS; n_jobs++) {
        struct engine_job jobs[N_STREAMS];
        for (unsigned j = 0; j < n_jobs; j++) {
            unsigned stream = (2 * j + n_jobs) % N_STREAMS;
            engine_reset(e, stream);
            jobs[j] = (struct engine_job){stream, n_hops - step * j, x[stream], together[stream]};
        }
        ck_assert_int_eq(engine_process(e, jobs, n_jobs), 0);
        for (unsigned j = 0; j < n_jobs; j++)
            for (size_t i = 0; i < (size_t)jobs[j].n_hops * hop; i++)
                ck_assert_msg(jobs[j].out[i] == alone[jobs[j].stream][i],
                              "%u together, stream %u: sample %zu is %.9g, not %.9g", n_jobs, jobs[j].stream, i,
                              (double)jobs[j].out[i], (double)alone[jobs[j].stream][i]);
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        free(x[i]);
        free(alone[i]);
        free(together[i]);
    }
    engine_close(e);
    model_free(model);
}
END_TEST

/* Batches of every size: one job after the other ends, and the last ones begin a second batch. */
START_TEST(any_batch) {
    load(models[_i]);
    struct engine *e = open_engine("cuda", N_MANY);
    const unsigned hop = engine_hop(e);
    const size_t n = (size_t)N_MANY * hop;
    struct engine_job jobs[N_MANY];
    float *x[N_SOUNDS], *alone[N_SOUNDS];
    for (unsigned i = 0; i < N_SOUNDS; i++) {
        x[i] = speech(n, i);
        alone[i] = run(e, i, x[i], at_most(N_MANY));
        engine_reset(e, i);
    }
    for (unsigned i = 0; i < N_MANY; i++) {
        jobs[i] = (struct engine_job){i, at_most(i + 1), x[i % N_SOUNDS], malloc(n * sizeof(float))};
        ck_assert_ptr_nonnull(jobs[i].out);
    }
    ck_assert_int_eq(engine_process(e, jobs, N_MANY), 0);
    for (unsigned i = 0; i < N_MANY; i++) {
        const float *should = alone[i % N_SOUNDS];
        for (size_t k = 0; k < (size_t)jobs[i].n_hops * hop; k++)
            ck_assert_msg(jobs[i].out[k] == should[k], "stream %u: sample %zu is %.9g, not %.9g", i, k,
                          (double)jobs[i].out[k], (double)should[k]);
        free(jobs[i].out);
    }
    for (unsigned i = 0; i < N_SOUNDS; i++) {
        free(x[i]);
        free(alone[i]);
    }
    engine_close(e);
    model_free(model);
}
END_TEST

/* Reports why the tests are skipped. */
static bool opens(void) {
    struct err err;
    struct engine *e;
    struct engine_options options = {.name = "cuda", .n_streams = 1, .max_hops = 1};
    if (model_load(&model, "small", &err) < 0) {
        printf("%s\n", err.text);
        return true; /* so that the tests fail: a GPU is there */
    }
    bool ok = engine_open(&e, &options, model, &err) == 0;
    if (ok)
        engine_close(e);
    else
        printf("skipped: %s\n", err.text);
    model_free(model);
    return ok;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("TEST_HOPS"))
        most_hops = (unsigned)strtoul(getenv("TEST_HOPS"), NULL, 10);
    if (!opens())
        return SKIPPED;
    Suite *suite = suite_create("cuda");
    TCase *t = tcase_create("cuda");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, sounds_like_the_cpu, 0, N_MODELS);
    tcase_add_test(t, long_synthesis_sounds_like_the_cpu);
    tcase_add_loop_test(t, other_streams_change_nothing, 0, N_MODELS);
    suite_add_tcase(suite, t);
    t = tcase_create("many");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, any_batch, 0, N_MODELS);
    suite_add_tcase(suite, t);
    /* a process that has used CUDA cannot use it after a fork */
    return run_suite(suite, CK_NOFORK);
}
