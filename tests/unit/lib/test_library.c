/* The guarantees of primeknet.h: the engine's output bit for bit for any block sizes, the reported delay, streams,
 * reset, controls, handles that share a model, errors for invalid arguments, real-time safe calls. The test can make a
 * handle's engine fail. */
#include "config.h"

#include "engine/engine.h"
#include "engine/level.h"
#include "engine/team.h"
#include "lib/primeknet.h"
#include "model/model.h"
#include "tests/support/draw.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIDE FIXTURES "/wide.safetensors"
static const char *const models[] = {WIDE, FIXTURES "/narrow.safetensors", FIXTURES "/long-hop.safetensors",
                                     FIXTURES "/low-delay.safetensors"};
enum { N_MODELS = sizeof models / sizeof *models, N_STREAMS = 3, N_HOPS = 40 };

static bool fails;
int __real_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    return fails ? -EIO : __real_engine_process(e, jobs, n_jobs);
}

static char asked_gpu[8]; /* of the last engine */
int __real_engine_open(struct engine **ret, const struct engine_options *options, const struct model *model,
                       struct err *err);
int __wrap_engine_open(struct engine **ret, const struct engine_options *options, const struct model *model,
                       struct err *err);
int __wrap_engine_open(struct engine **ret, const struct engine_options *options, const struct model *model,
                       struct err *err) {
    snprintf(asked_gpu, sizeof asked_gpu, "%s", options->gpu ? options->gpu : "");
    return __real_engine_open(ret, options, model, err);
}

static unsigned n_helpers; /* of the last team */
int __real_team_new(struct team **ret, unsigned n, team_work *work, void *context);
int __wrap_team_new(struct team **ret, unsigned n, team_work *work, void *context);
int __wrap_team_new(struct team **ret, unsigned n, team_work *work, void *context) {
    n_helpers = n;
    return fails ? -EAGAIN : __real_team_new(ret, n, work, context);
}

static float *noise(size_t n) {
    float *x = get(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)draw(1 << 24) / 0x1p24f - .5f;
    return x;
}

static struct primeknet *open_handle(const char *model, unsigned n_streams, unsigned block) {
    const struct primeknet_options options = {
        .size = sizeof options, .engine = "cpu", .block = block, .n_streams = n_streams};
    char error[PRIMEKNET_ERROR];
    struct primeknet *p;
    ck_assert_msg(primeknet_open(&p, model, &options, error) == 0, "%s", error);
    return p;
}

static int control(struct primeknet *p, unsigned stream, float strength, float floor_db, float low_cut_hz,
                   float level_target) {
    const struct primeknet_controls c = {sizeof c, strength, floor_db, low_cut_hz, level_target};
    return primeknet_set_controls(p, stream, &c);
}

/* Returns the engine's own output for x, a whole number of hops; heard: after it has heard x once, and paused. */
static float *engine_output_if(bool heard, const char *path, struct engine_controls controls, const float *x,
                               size_t n) {
    struct err err;
    struct model *model;
    struct engine *e;
    ck_assert_msg(model_load(&model, path, &err) == 0, "%s", err.text);
    const struct engine_options options = {.name = "cpu", .n_streams = 1, .max_hops = 1};
    ck_assert_msg(engine_open(&e, &options, model, &err) == 0, "%s", err.text);
    engine_control(e, 0, controls);
    float *y = get(n, sizeof *y);
    const struct engine_job job = {.n_hops = (unsigned)(n / engine_hop(e)), .in = x, .out = y};
    if (heard) {
        ck_assert_int_eq(engine_process(e, &job, 1), 0);
        engine_pause(e, 0);
    }
    ck_assert_int_eq(engine_process(e, &job, 1), 0);
    engine_close(e);
    model_free(model);
    return y;
}

static float *engine_output(const char *path, struct engine_controls controls, const float *x, size_t n) {
    return engine_output_if(false, path, controls, x, n);
}

static const struct engine_controls fresh = {.strength = 1};

/* Checks that y is `wanted` delayed by n_later samples. */
static void check_later(const float *y, const float *wanted, size_t n, size_t n_later) {
    for (size_t i = 0; i < n; i++) {
        const float due = i < n_later ? 0 : wanted[i - n_later];
        ck_assert_msg(y[i] == due, "sample %zu is %.9g, not %.9g", i, (double)y[i], (double)due);
    }
}

static unsigned divisor(unsigned a, unsigned b) {
    return b ? divisor(b, a % b) : a;
}

/* Each call passes a random number of samples of some of the streams. */
static void push_at_random(struct primeknet *p, unsigned grain, float *const x[], float *y[], size_t n) {
    size_t done[N_STREAMS] = {0};
    for (bool more = true; more;) {
        const float *in[N_STREAMS] = {0};
        float *out[N_STREAMS] = {0};
        size_t now = grain * (size_t)draw(draw(4) ? 400 / grain + 2 : 5000 / grain + 2);
        for (unsigned s = 0; s < N_STREAMS; s++)
            if (draw(4) && done[s] + now <= n) {
                in[s] = x[s] + done[s];
                out[s] = y[s] + done[s];
                done[s] += now;
            }
        ck_assert_int_eq(primeknet_process(p, in, out, now), 0);
        more = false;
        for (unsigned s = 0; s < N_STREAMS; s++)
            more = more || done[s] + 6000 < n;
    }
    for (unsigned s = 0; s < N_STREAMS; s++) { /* the rest, in place */
        const float *in[N_STREAMS] = {0};
        float *out[N_STREAMS] = {0};
        memcpy(y[s] + done[s], x[s] + done[s], (n - done[s]) * sizeof *x[s]);
        in[s] = out[s] = y[s] + done[s];
        ck_assert_int_eq(primeknet_process(p, in, out, n - done[s]), 0);
    }
}

/* Fresh streams of this model give the engine's output for random calls. */
static void check_pushes(struct primeknet *p, const char *model, unsigned grain) {
    const unsigned hop = primeknet_get_hop(p);
    const size_t n = (size_t)N_HOPS * hop + 6000 / hop * hop;
    float *x[N_STREAMS], *y[N_STREAMS];
    for (unsigned s = 0; s < N_STREAMS; s++) {
        x[s] = noise(n);
        y[s] = get(n, sizeof *y[s]);
    }
    push_at_random(p, grain, x, y, n);
    for (unsigned s = 0; s < N_STREAMS; s++) {
        float *wanted = engine_output(model, fresh, x[s], n);
        check_later(y[s], wanted, n, hop - grain);
        free(wanted);
        free(x[s]);
        free(y[s]);
    }
}

START_TEST(any_pushes_give_the_engines_output) {
    const char *model = models[_i % N_MODELS];
    struct primeknet *p = open_handle(model, 1, 1);
    const unsigned hop = primeknet_get_hop(p), blocks[] = {1, 96, hop, 7 * hop};
    primeknet_close(p);
    const unsigned block = blocks[_i / N_MODELS], grain = divisor(block, hop);
    p = open_handle(model, N_STREAMS, block);
    check_pushes(p, model, grain);
    primeknet_close(p);
}
END_TEST

START_TEST(threads_change_nothing) {
    const unsigned n_threads[] = {2, 1, 3, 8}, wanted_helpers[] = {1, 0, 2, 2}; /* more than streams are of no use */
    struct primeknet *p = open_handle(models[_i], N_STREAMS, 1);
    ck_assert_int_eq(primeknet_set_threads(p, 0), -EINVAL);
    ck_assert_int_eq(primeknet_set_threads(NULL, 2), -EINVAL);
    for (unsigned t = 0; t < 4; t++) {
        n_helpers = 0;
        ck_assert_int_eq(primeknet_set_threads(p, n_threads[t]), 0);
        ck_assert_uint_eq(n_helpers, wanted_helpers[t]);
        for (unsigned s = 0; s < N_STREAMS; s++)
            ck_assert_int_eq(primeknet_reset(p, s), 0);
        check_pushes(p, models[_i], 1);
    }
    primeknet_close(p);
}
END_TEST

START_TEST(without_threads_the_caller_computes_alone) {
    struct primeknet *p = open_handle(WIDE, 2, 1);
    const size_t n = (size_t)N_HOPS * primeknet_get_hop(p);
    float *x = noise(n), *y[2] = {get(n, sizeof **y), get(n, sizeof **y)}, *wanted = engine_output(WIDE, fresh, x, n);
    fails = true;
    ck_assert_int_eq(primeknet_set_threads(p, 2), -EAGAIN);
    fails = false;
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, x}, y, n), 0);
    for (unsigned s = 0; s < 2; s++) {
        check_later(y[s], wanted, n, primeknet_get_hop(p) - 1);
        free(y[s]);
    }
    free(x);
    free(wanted);
    primeknet_close(p);
}
END_TEST

/* A forked child has none of its parent's threads. It computes alone, and does not stop the parent's threads. */
START_TEST(a_forked_child_runs_single_threaded) {
    struct primeknet *p = open_handle(WIDE, N_STREAMS, 1);
    const size_t n = (size_t)N_HOPS * primeknet_get_hop(p);
    float *x = noise(n), *y[N_STREAMS] = {NULL, get(n, sizeof **y), get(n, sizeof **y)};
    float *wanted = engine_output(WIDE, fresh, x, n);
    ck_assert_int_eq(primeknet_set_threads(p, N_STREAMS), 0);
    const pid_t child = fork();
    const int code = primeknet_process(p, (const float *[]){NULL, x, x}, y, n);
    if (child == 0) {
        const size_t later = primeknet_get_hop(p) - 1;
        primeknet_close(p);
        _exit(code || memcmp(y[2] + later, wanted, (n - later) * sizeof *x) != 0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(code, 0);
    for (unsigned s = 1; s < N_STREAMS; s++) {
        check_later(y[s], wanted, n, primeknet_get_hop(p) - 1);
        free(y[s]);
    }
    free(x);
    free(wanted);
    primeknet_close(p);
}
END_TEST

enum { TEAM = 4, MOST_JOBS = 9 };

struct crew {
    pthread_barrier_t all;
    bool meets;
    unsigned n_done[MOST_JOBS], by[TEAM];
};

static void do_job(void *context, unsigned thread, unsigned job) {
    struct crew *c = context;
    if (c->meets)
        pthread_barrier_wait(&c->all);
    c->n_done[job]++;
    c->by[thread]++;
}

/* One job per thread, each of which waits for the others: this ends only if all threads work. */
START_TEST(a_team_works_in_parallel) {
    struct crew c = {.meets = true};
    struct team *team;
    ck_assert_int_eq(pthread_barrier_init(&c.all, NULL, TEAM), 0);
    ck_assert_int_eq(team_new(&team, TEAM - 1, do_job, &c), 0);
    for (unsigned i = 0; i < 1000; i++)
        team_run(team, TEAM);
    for (unsigned i = 0; i < TEAM; i++)
        ck_assert(c.n_done[i] == 1000 && c.by[i] == 1000);
    team_free(team);
    pthread_barrier_destroy(&c.all);
}
END_TEST

START_TEST(a_team_does_each_job_once) {
    struct crew c = {.meets = false};
    struct team *team;
    unsigned wanted[MOST_JOBS] = {0};
    ck_assert_int_eq(team_new(&team, TEAM - 1, do_job, &c), 0);
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned n = draw(MOST_JOBS + 1);
        team_run(team, n);
        for (unsigned k = 0; k < n; k++)
            wanted[k]++;
    }
    team_free(team);
    ck_assert_mem_eq(c.n_done, wanted, sizeof wanted);
    team_free(NULL);
}
END_TEST

START_TEST(delay_is_as_reported) {
    struct primeknet *p = open_handle(models[_i % N_MODELS], 1, 1);
    const unsigned hop = primeknet_get_hop(p), blocks[] = {1, 96, hop, 7 * hop}, block = blocks[_i / N_MODELS];
    primeknet_close(p);
    p = open_handle(models[_i % N_MODELS], 1, block);
    const size_t n = 28 * (size_t)block / divisor(block, hop) * hop, at = n / 3;
    float *x = get(n, sizeof *x), *y = get(n, sizeof *y);
    x[at] = 1;
    ck_assert_int_eq(control(p, 0, 0, -INFINITY, 0, 0), 0); /* strength 0: the delayed input */
    for (size_t i = 0; i < n; i += block)
        ck_assert_int_eq(primeknet_process(p, &(const float *){x + i}, &(float *){y + i}, block), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(y[i] - (i == at + primeknet_get_delay(p))) < 1e-5f,
                      "block %u: sample %zu is %g, not as after %u", block, i, (double)y[i], primeknet_get_delay(p));
    free(x);
    free(y);
    primeknet_close(p);
}
END_TEST

START_TEST(lengths_that_are_no_multiple_are_refused) {
    struct primeknet *p = open_handle(WIDE, 1, 96);
    float x[96] = {0};
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &(float *){x}, 64), 0); /* 32 divides both 96 and 256 */
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &(float *){x}, 48), -EINVAL);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &(float *){x}, 0), 0);
    primeknet_close(p);
}
END_TEST

START_TEST(controls_are_the_engines) {
    struct primeknet *p = open_handle(WIDE, 2, 1);
    const size_t n = (size_t)N_HOPS * primeknet_get_hop(p);
    float *x = noise(n), *y[2] = {get(n, sizeof **y), get(n, sizeof **y)};
    ck_assert_int_eq(control(p, 1, .7f, -20, 100, 0), 0);
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, x}, y, n), 0);
    float *wanted[] = {
        engine_output(WIDE, fresh, x, n),
        engine_output(WIDE, (struct engine_controls){.strength = .7f, .floor = .1f, .low_cut_hz = 100}, x, n)};
    for (unsigned s = 0; s < 2; s++) {
        check_later(y[s], wanted[s], n, primeknet_get_hop(p) - 1);
        free(wanted[s]);
        free(y[s]);
    }
    free(x);
    primeknet_close(p);
}
END_TEST

/* Three sounds of two channels. */
START_TEST(channels_are_levelled_together) {
    const struct primeknet_options options = {.size = sizeof options, .engine = "cpu", .n_streams = 6, .n_channels = 2};
    struct primeknet *p[2];
    ck_assert_int_eq(primeknet_open(&p[0], WIDE, &options, NULL), 0);
    ck_assert_int_eq(primeknet_open_like(&p[1], p[0], &options, NULL), 0);
    const size_t n = 200 * (size_t)primeknet_get_hop(p[0]);
    float *x[2][6] = {{0}}, *noises = noise(4 * n);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned s = 0; s < 4; s++) {
            x[i][s] = get(n, sizeof ***x);
            for (size_t k = 0; k < n; k++)
                x[i][s][k] = noises[s * n + k] * (s % 2 ? .15f : .3f);
        }
    ck_assert_int_eq(control(p[1], 0, 1, -INFINITY, 0, -20), 0);
    ck_assert_int_eq(control(p[1], 3, 1, -INFINITY, 0, -20), 0); /* no first channel's */
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(primeknet_process(p[i], (const float *const *)x[i], x[i], n), 0);
    for (size_t k = 0; k < n; k++) {
        const float gained = x[1][0][k] * x[0][1][k], other = x[1][1][k] * x[0][0][k];
        ck_assert_float_eq_tol(gained, other, 1e-5f * fabsf(gained) + 1e-20f);
    }
    ck_assert_float_gt(fabsf(x[1][0][n - 1]), 1.1f * fabsf(x[0][0][n - 1]));
    for (unsigned s = 2; s < 4; s++)
        ck_assert_mem_eq(x[1][s], x[0][s], n * sizeof ***x);

    ck_assert_int_eq(control(p[1], 0, 1, -INFINITY, 0, 0), 0);
    ck_assert_int_eq(control(p[1], 2, 1, -INFINITY, 0, -14), 0);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned s = 0; s < 4; s++) {
            memcpy(x[i][s], noises + s * n, n * sizeof ***x);
            ck_assert_int_eq(primeknet_reset(p[i], s), 0);
        }
        ck_assert_int_eq(primeknet_process(p[i], (const float *const *)x[i], x[i], n), 0);
    }
    for (unsigned s = 0; s < 2; s++) {
        ck_assert_mem_eq(x[1][s], x[0][s], n * sizeof ***x);
        ck_assert_mem_ne(x[1][2 + s], x[0][2 + s], n * sizeof ***x);
    }
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned s = 0; s < 4; s++)
            free(x[i][s]);
        primeknet_close(p[i]);
    }
    free(noises);
}
END_TEST

START_TEST(a_stream_that_is_reset_is_fresh) {
    struct primeknet *p = open_handle(WIDE, 1, 1);
    const size_t n = (size_t)N_HOPS * primeknet_get_hop(p);
    float *x = noise(n), *y = get(n, sizeof *y), *wanted = engine_output(WIDE, fresh, x, n);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &y, n - 77), 0);
    ck_assert_int_eq(primeknet_reset(p, 0), 0);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &y, n), 0);
    check_later(y, wanted, n, primeknet_get_hop(p) - 1);
    free(x);
    free(y);
    free(wanted);
    primeknet_close(p);
}
END_TEST

START_TEST(a_stream_that_is_paused_remembers) {
    struct primeknet *p = open_handle(WIDE, 1, 1);
    const unsigned hop = primeknet_get_hop(p);
    const size_t n = (size_t)N_HOPS * hop;
    float *x = noise(n), *y = get(n, sizeof *y), *wanted = engine_output_if(true, WIDE, fresh, x, n);
    float *afresh = engine_output(WIDE, fresh, x, n);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &y, n), 0);
    ck_assert_int_eq(primeknet_pause(p, 0), 0);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &y, n), 0);
    check_later(y, wanted, n, hop - 1);
    ck_assert_mem_ne(afresh, wanted, n * sizeof *wanted);
    ck_assert_int_eq(primeknet_pause(p, 1), -EINVAL);
    ck_assert_int_eq(primeknet_pause(NULL, 0), -EINVAL);
    free(x);
    free(y);
    free(wanted);
    free(afresh);
    primeknet_close(p);
}
END_TEST

START_TEST(nan_counts_as_0) {
    struct primeknet *p = open_handle(WIDE, 2, 1);
    const size_t n = (size_t)N_HOPS * primeknet_get_hop(p);
    float *x = noise(n), *z = get(n, sizeof *z), *y[2] = {get(n, sizeof **y), get(n, sizeof **y)};
    memcpy(z, x, n * sizeof *x);
    for (unsigned i = 0; i < 99; i++) {
        const size_t at = draw((uint32_t)n);
        x[at] = i % 3 ? i % 2 ? INFINITY : -INFINITY : NAN;
        z[at] = 0;
    }
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, z}, y, n), 0);
    check_later(y[0], y[1], n, 0);
    ck_assert(isfinite(y[0][n - 1]));
    free(x);
    free(z);
    free(y[0]);
    free(y[1]);
    primeknet_close(p);
}
END_TEST

static void check_refused(const char *model, struct primeknet_options options, int code, const char *why) {
    char error[PRIMEKNET_ERROR];
    struct primeknet *p = (struct primeknet *)error;
    options.size = options.size ? options.size : sizeof options;
    ck_assert_int_eq(primeknet_open(&p, model, &options, NULL), code);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(primeknet_open(&p, model, &options, error), code);
    ck_assert_msg(strstr(error, why), "'%s' does not say '%s'", error, why);
    ck_assert_ptr_null(strchr(error, '\n'));
}

START_TEST(failed_opens_report_why) {
    const struct primeknet_options cpu = {.engine = "cpu"};
    char error[PRIMEKNET_ERROR];
    struct primeknet *p;
    check_refused(NULL, cpu, -EINVAL, "model");
    check_refused(WIDE, (struct primeknet_options){.engine = "abacus"}, -EINVAL, "abacus");
    check_refused("nobody", cpu, -ENOENT, "nobody");
    check_refused("/nowhere/x.safetensors", cpu, -ENOENT, "/nowhere/x.safetensors: No such file");
    check_refused(FIXTURES "/wide.output", cpu, -EINVAL, "wide.output: header is not JSON");
    check_refused("./Makefile", cpu, -EINVAL, "./Makefile: not a safetensors file");
    check_refused(WIDE, (struct primeknet_options){.n_streams = 1025}, -EINVAL, "n_streams: 1025");
    check_refused(WIDE, (struct primeknet_options){.n_channels = 1025}, -EINVAL, "n_streams: 1025");
    check_refused(WIDE, (struct primeknet_options){.n_streams = 3, .n_channels = 2}, -EINVAL, "n_channels: 3 streams");
    check_refused(WIDE, (struct primeknet_options){.block = 1048577}, -EINVAL, "block: 1048577");
    check_refused(WIDE, (struct primeknet_options){.block = SIZE_MAX}, -EINVAL, "block");
    check_refused(WIDE, (struct primeknet_options){.size = 8}, -EINVAL, "size");
    ck_assert_int_eq(primeknet_open_like(&p, NULL, NULL, error), -EINVAL);
    ck_assert_ptr_null(p);
    ck_assert_ptr_nonnull(strstr(error, "no handle"));
    primeknet_close(NULL);
}
END_TEST

/* The structures of later versions are longer. Their new members are refused unless they are 0. */
START_TEST(programs_built_for_later_versions_work) {
    struct {
        struct primeknet_options known;
        size_t later;
    } options = {{.size = sizeof options, .engine = "cpu", .n_streams = 2}, 0};
    struct {
        struct primeknet_controls known;
        float later[2];
    } controls = {{sizeof controls, 1, -20, 70, 0}, {0, 0}};
    struct primeknet *p, *q;
    char error[PRIMEKNET_ERROR];
    ck_assert_int_eq(primeknet_open(&p, WIDE, &options.known, error), 0);
    ck_assert_int_eq(primeknet_set_controls(p, 1, &controls.known), 0);
    options.later = 1;
    controls.later[1] = 1;
    ck_assert_int_eq(primeknet_open(&q, WIDE, &options.known, error), -E2BIG);
    ck_assert_int_eq(primeknet_open_like(&q, p, &options.known, NULL), -E2BIG);
    ck_assert_ptr_null(q);
    ck_assert_ptr_nonnull(strstr(error, "this version of libprimeknet"));
    ck_assert_int_eq(primeknet_set_controls(p, 1, &controls.known), -E2BIG);
    controls.known.size = sizeof controls.known - 1;
    ck_assert_int_eq(primeknet_set_controls(p, 1, &controls.known), -EINVAL);
    primeknet_close(p);
}
END_TEST

START_TEST(the_requested_gpu_is_used) {
    const struct primeknet_options options = {.size = sizeof options, .engine = "cpu", .gpu = "7", .block = 1 << 16};
    struct primeknet *p, *q;
    ck_assert_int_eq(primeknet_open(&p, WIDE, &options, NULL), 0);
    ck_assert_str_eq(asked_gpu, "7");
    ck_assert_int_eq(primeknet_open_like(&q, p, NULL, NULL), 0);
    ck_assert_str_eq(asked_gpu, "7");
    primeknet_close(p);
    primeknet_close(q);
    p = open_handle(WIDE, 1, 1);
    ck_assert_str_eq(asked_gpu, "");
    primeknet_close(p);
}
END_TEST

START_TEST(the_version_is_the_packages) {
    char text[32];
    const unsigned v = primeknet_version();
    snprintf(text, sizeof text, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    ck_assert_str_eq(text, PACKAGE_VERSION);
    ck_assert_uint_eq(v, PRIMEKNET_VERSION);
}
END_TEST

START_TEST(arguments_that_are_wrong_are_refused) {
    struct primeknet *p = open_handle(WIDE, 2, 1);
    float x[300] = {0};
    const float *in[2] = {x};
    float *out[2] = {0};
    ck_assert_int_eq(primeknet_process(p, in, out, 300), -EINVAL); /* in[0] has no out[0] */
    ck_assert_int_eq(primeknet_process(p, NULL, out, 300), -EINVAL);
    ck_assert_int_eq(primeknet_process(p, in, NULL, 300), -EINVAL);
    ck_assert_int_eq(primeknet_process(NULL, in, out, 300), -EINVAL);
    ck_assert_int_eq(primeknet_reset(p, 2), -EINVAL);
    ck_assert_int_eq(control(p, 2, 1, 0, 0, 0), -EINVAL);
    ck_assert_int_eq(control(NULL, 0, 1, 0, 0, 0), -EINVAL);
    ck_assert_int_eq(primeknet_set_controls(p, 0, NULL), -EINVAL);
    const float wrong[][4] = {{-.1f, 0, 0, 0}, {1.1f, 0, 0, 0}, {NAN, 0, 0, 0},   {1, 1, 0, 0},
                              {1, NAN, 0, 0},  {1, 0, -1, 0},   {1, 0, NAN, 0},   {1, 0, 24001, 0},
                              {1, 0, 0, -33},  {1, 0, 0, NAN},  {1, 0, 0, -13.9f}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(control(p, 0, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]), -EINVAL);
    ck_assert_int_eq(control(p, 0, 1, 0, 0, -32), 0);
    ck_assert(PRIMEKNET_LEVEL_TARGET_MIN == LEVEL_TARGET_LEAST && PRIMEKNET_LEVEL_TARGET == LEVEL_TARGET &&
              PRIMEKNET_LEVEL_TARGET_MAX == LEVEL_TARGET_GREATEST);
    primeknet_close(p);
}
END_TEST

START_TEST(a_handle_outlives_the_one_it_shares_with) {
    const struct primeknet_options options = {.size = sizeof options, .block = 256, .n_streams = 2};
    struct primeknet *first = open_handle("small", 1, 1), *p;
    ck_assert_int_eq(primeknet_open_like(&p, first, &options, NULL), 0);
    ck_assert_str_eq(primeknet_get_description(p), primeknet_get_description(first));
    ck_assert_ptr_eq(strstr(primeknet_get_description(p), "small on cpu ("), primeknet_get_description(p));
    ck_assert_str_eq(primeknet_get_engine(p), "cpu");
    ck_assert_uint_eq(primeknet_get_rate(p), 48000);
    ck_assert_uint_eq(primeknet_get_hop(p), 512);
    ck_assert_uint_eq(primeknet_get_delay(p), 768);
    ck_assert_uint_eq(primeknet_get_delay(first), 1023);
    primeknet_close(first);
    float x[256] = {0};
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){x, NULL}, 256), 0);
    primeknet_close(p);
}
END_TEST

struct part {
    struct primeknet *p;
    const float *x;
    float *y;
    size_t n;
};

static void *run_part(void *data) {
    const struct part *t = data;
    for (size_t i = 0, now; i < t->n; i += now) {
        now = t->n - i < 100 ? t->n - i : 100;
        if (primeknet_process(t->p, &(const float *){t->x + i}, &(float *){t->y + i}, now) < 0)
            abort();
    }
    return NULL;
}

START_TEST(handles_run_side_by_side) {
    struct part parts[3];
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++) {
        struct part *t = &parts[i];
        if (i == 1)
            ck_assert_int_eq(primeknet_open_like(&t->p, parts[0].p, NULL, NULL), 0);
        else
            t->p = open_handle(WIDE, 1, 1);
        t->n = (size_t)N_HOPS * primeknet_get_hop(t->p);
        t->x = noise(t->n);
        t->y = get(t->n, sizeof *t->y);
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    for (unsigned i = 0; i < 1000; i++) /* from this thread meanwhile; it changes nothing */
        ck_assert_int_eq(control(parts[i % 3].p, 0, 1, -INFINITY, 0, 0), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct part *t = &parts[i];
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        float *wanted = engine_output(WIDE, fresh, t->x, t->n);
        check_later(t->y, wanted, t->n, primeknet_get_hop(t->p) - 1);
        free(wanted);
        free((void *)t->x);
        free(t->y);
        primeknet_close(t->p);
    }
}
END_TEST

START_TEST(calls_are_real_time_safe) {
    struct primeknet *p = open_handle(models[_i], 2, 1);
    float *x[] = {noise(3000), noise(3000)};
    int failed = 0;
    rt_guard_enter();
    for (unsigned i = 0; i < 3000; i += 100)
        failed |= primeknet_process(p, (const float *[]){x[0] + i, x[1] + i}, (float *[]){x[0] + i, x[1] + i}, 100);
    failed |= primeknet_process(p, (const float *const *)x, x, 3000);
    failed |= control(p, 1, .5f, -10, 70, 0);
    failed |= !isfinite(primeknet_get_voice(p, 0));
    failed |= primeknet_reset(p, 0);
    failed |= primeknet_get_delay(p) == 0 || !primeknet_get_description(p) || !primeknet_get_engine(p);
    rt_guard_leave();
    ck_assert_int_eq(failed, 0);
    free(x[0]);
    free(x[1]);
    primeknet_close(p);
}
END_TEST

/* tests/live/test_voice shows whether it is right. */
START_TEST(voice_is_a_probability_or_unknown) {
    struct primeknet *p = open_handle(models[_i], 2, 1);
    const unsigned hop = primeknet_get_hop(p);
    float *x = noise(20 * hop);
    x[7] = NAN;
    x[9] = INFINITY;
    ck_assert(isnan(primeknet_get_voice(p, 0)));
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){x, NULL}, hop - 1), 0);
    ck_assert(isnan(primeknet_get_voice(p, 0)));
    for (unsigned i = hop - 1; i < 19 * hop; i += 100) {
        ck_assert_int_eq(primeknet_process(p, (const float *[]){x + i, NULL}, (float *[]){x + i, NULL}, 100), 0);
        const float voice = primeknet_get_voice(p, 0);
        ck_assert(voice >= 0 && voice <= 1);
    }
    ck_assert(isnan(primeknet_get_voice(p, 1)) && isnan(primeknet_get_voice(p, 2)));
    ck_assert(isnan(primeknet_get_voice(NULL, 0)));
    ck_assert_int_eq(control(p, 0, 0, -INFINITY, 0, 0), 0);
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){x, NULL}, hop), 0);
    ck_assert(isnan(primeknet_get_voice(p, 0)));
    ck_assert_int_eq(control(p, 0, 1, -INFINITY, 0, 0), 0);
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){x, NULL}, hop), 0);
    ck_assert(isfinite(primeknet_get_voice(p, 0)));
    ck_assert_int_eq(primeknet_reset(p, 0), 0);
    ck_assert(isnan(primeknet_get_voice(p, 0)));
    free(x);
    primeknet_close(p);
}
END_TEST

START_TEST(a_lost_engine_is_silent) {
    struct primeknet *p = open_handle(WIDE, 2, 1);
    float *x = noise(3000), *y = noise(3000), *other = noise(1);
    const float untouched = *other;
    fails = true;
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){y, other}, 3000), -EIO);
    fails = false;
    for (unsigned i = 0; i < 3000; i++)
        ck_assert(y[i] == 0);
    ck_assert_int_eq(primeknet_reset(p, 0), 0);
    y[0] = 1;
    ck_assert_int_eq(primeknet_process(p, (const float *[]){x, NULL}, (float *[]){y, other}, 1), -EIO);
    ck_assert(y[0] == 0 && *other == untouched);
    free(x);
    free(y);
    free(other);
    primeknet_close(p);
}
END_TEST

int main(void) {
    draw_seed = seed_of_run(20261124);
    Suite *suite = suite_create("library");
    TCase *t = tcase_create("library");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, any_pushes_give_the_engines_output, 0, 4 * N_MODELS);
    tcase_add_loop_test(t, threads_change_nothing, 0, N_MODELS);
    tcase_add_test(t, without_threads_the_caller_computes_alone);
    tcase_add_test(t, a_forked_child_runs_single_threaded);
    tcase_add_test(t, a_team_works_in_parallel);
    tcase_add_test(t, a_team_does_each_job_once);
    tcase_add_loop_test(t, delay_is_as_reported, 0, 4 * N_MODELS);
    tcase_add_test(t, lengths_that_are_no_multiple_are_refused);
    tcase_add_test(t, controls_are_the_engines);
    tcase_add_test(t, a_stream_that_is_reset_is_fresh);
    tcase_add_test(t, a_stream_that_is_paused_remembers);
    tcase_add_test(t, nan_counts_as_0);
    tcase_add_test(t, failed_opens_report_why);
    tcase_add_test(t, programs_built_for_later_versions_work);
    tcase_add_test(t, the_requested_gpu_is_used);
    tcase_add_test(t, the_version_is_the_packages);
    tcase_add_test(t, arguments_that_are_wrong_are_refused);
    tcase_add_test(t, a_handle_outlives_the_one_it_shares_with);
    tcase_add_test(t, handles_run_side_by_side);
    tcase_add_loop_test(t, calls_are_real_time_safe, 0, N_MODELS);
    tcase_add_loop_test(t, voice_is_a_probability_or_unknown, 0, N_MODELS);
    tcase_add_test(t, a_lost_engine_is_silent);
    suite_add_tcase(suite, t);
    TCase *minute = tcase_create("minute");
    tcase_set_tags(minute, "slow"); /* an emulated processor takes minutes */
    tcase_set_timeout(minute, 300);
    tcase_add_test(minute, channels_are_levelled_together);
    suite_add_tcase(suite, minute);
    return run_suite(suite, CK_FORK);
}
