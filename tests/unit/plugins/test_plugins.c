/* The plugins' core (plugins/core.h): the library's output bit for bit at 48 kHz, for any blocks; the reported delay,
 * at any rate and in bypass; changes of the model while sound runs, in every order of a host's calls; controls that are
 * NaN. For both plugins, a host's other calls. */
#include "plugins/core.c" /* to see the states of a change of model */

#include "tests/support/draw.h"
#include "plugins/ports.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ladspa.h>
#include <lv2/core/lv2.h>
#include <time.h>
#include <unistd.h>

enum { N = 60000 };
static char directory[32]; /* of a test's own models */
static const struct primeknet_options alone = {.size = sizeof alone, .engine = "cpu", .block = DELAY};
static const struct core_controls plain = {.strength = 1, .floor_db = -60, .low_cut_hz = 70, .model = 1};

static float *noise(size_t n) {
    float *x = get(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)draw(1 << 24) / 0x1p24f - .5f) * (i / 8000 % 2 ? .3f : .03f);
    return x;
}

static struct core *open_core(unsigned n_channels, double rate, const struct core_controls *controls) {
    struct core *c = core_open(n_channels, rate);
    ck_assert_ptr_nonnull(c);
    core_activate(c, controls);
    return c;
}

/* Runs in place, with at most `most` samples per call; 0: always 256. */
static void run_core(struct core *c, const struct core_controls *controls, float *const x[2], size_t n, unsigned most) {
    for (size_t i = 0, now; i < n; i += now) {
        now = most ? draw(most + 1) : 256;
        now = now < n - i ? now : n - i;
        float *const at[] = {x[0] + i, c->n_channels > 1 ? x[1] + i : NULL};
        core_run(c, controls, (const float *const *)at, at, (unsigned)now);
    }
}

/* Returns the library's output for x, delayed like a core's output. */
static float *wanted(const char *model, float floor_db, float strength, const float *x, size_t n) {
    struct primeknet *p;
    ck_assert_int_eq(primeknet_open(&p, model, &alone, NULL), 0);
    const unsigned hop = primeknet_get_hop(p), later = DELAY - primeknet_get_delay(p);
    float *y = get(n + later, sizeof *y);
    const struct primeknet_controls controls = {sizeof controls, strength, floor_db, strength > 0 ? 70 : 0, 0};
    primeknet_set_controls(p, 0, &controls);
    ck_assert_int_eq(primeknet_process(p, &(const float *){x}, &(float *){y + later}, n / hop * hop), 0);
    primeknet_close(p);
    return y;
}

static void link_model(const char *name, const char *to) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
    ck_assert_int_eq(symlink(to, path), 0);
}

static void take_small_alone(void) {
    strcpy(directory, "/tmp/primeknet-plugins-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    link_model("small", FIXTURES "/../../models/small.safetensors");
    ck_assert_int_eq(setenv("PRIMEKNET_MODELS", directory, 1), 0);
}

/* `small` keeps its hop of 512; `base` is a network with a hop of 256. */
static void take_models_of_two_hops(void) {
    take_small_alone();
    link_model("base", FIXTURES "/wide.safetensors");
}

static void return_to_models(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(unsetenv("PRIMEKNET_MODELS"), 0);
}

START_TEST(output_is_the_librarys) {
    const unsigned most[] = {0, 1, 64, 480, 2048, 9000}, n_channels = 1 + _i % 2, model = 1 + _i / 2 % 2;
    const unsigned n = most[_i / 4] == 1 ? N / 4 : N;
    struct core_controls controls = plain;
    controls.floor_db = -25;
    controls.model = (float)model;
    take_models_of_two_hops();
    struct core *c = open_core(n_channels, 48000, &controls);
    ck_assert_uint_eq(core_delay(c), DELAY);
    float *x[2] = {noise(n), noise(n)}, *y[2];
    for (unsigned i = 0; i < 2; i++)
        y[i] = wanted(model == 1 ? "small" : "base", -25, 1, x[i], n);
    for (unsigned again = 0; again < 2; again++) { /* and once more, after nothing was heard */
        float *z[2] = {get(n, sizeof **z), get(n, sizeof **z)};
        for (unsigned i = 0; i < 2; i++)
            memcpy(z[i], x[i], n * sizeof **z);
        run_core(c, &controls, z, n, most[_i / 4]);
        for (unsigned i = 0; i < n_channels; i++)
            for (size_t k = 0; k < n; k++)
                ck_assert_msg(z[i][k] == y[i][k], "channel %u, sample %zu: %.9g, not %.9g", i, k, (double)z[i][k],
                              (double)y[i][k]);
        core_activate(c, &controls);
        free(z[0]);
        free(z[1]);
    }
    for (unsigned i = 0; i < 2; i++) {
        free(x[i]);
        free(y[i]);
    }
    core_close(c);
    return_to_models();
}
END_TEST

static const double rates[] = {8000,  8001,  11025,  16000,  22050,  44100,  47999,  48000, 48001,
                               88200, 96000, 192000, 250000, 340000, 352800, 383999, 384000};
enum { N_RATES = sizeof rates / sizeof *rates, N_ANY_RATES = 60 };

/* A wave packet of 500 Hz, which strength 0 delays without change. */
static void packet(float *x, size_t n, double at, double rate) {
    for (size_t i = 0; i < n; i++) {
        const double t = ((double)i - at) / rate;
        x[i] = (float)(.5 * cos(2 * M_PI * 500 * t) * exp(-t * t / (2 * .004 * .004)));
    }
}

static void is_later_as_reported(double rate, unsigned most) {
    struct core_controls controls = plain;
    controls.strength = controls.low_cut_hz = 0;
    struct core *c = open_core(1, rate, &controls);
    const size_t n = (size_t)rate;
    float *x[2] = {get(n, sizeof **x)}, *due = get(n, sizeof *due);
    packet(x[0], n, (double)n / 3, rate);
    packet(due, n, (double)n / 3 + core_delay(c), rate);
    run_core(c, &controls, x, n, most);
    double error = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        error += pow((double)(x[0][i] - due[i]), 2);
        all += pow((double)due[i], 2);
    }
    /* 500 Hz that is t late differs by 2 pi 500 t: half a sample's time is allowed. */
    ck_assert_msg(sqrt(error / all) < 2 * M_PI * 500 * .6 / rate + .002, "at %g Hz: %g of the signal is wrong", rate,
                  sqrt(error / all));
    free(x[0]);
    free(due);
    core_close(c);
}

START_TEST(delay_is_as_reported) {
    is_later_as_reported(rates[_i], 1500);
}
END_TEST

/* The numbers of samples that the resamplers take and give differ from block to block, and fit at every rate. */
START_TEST(any_rate_and_any_block) {
    static const unsigned most[] = {1, 2, 300, 2048, 2049, 10000};
    setenv("PRIMEKNET_MODELS", "/nowhere", 1);
    draw_seed += (unsigned)_i * 7919;
    is_later_as_reported(RATE_MIN + draw(RATE_MAX - RATE_MIN + 1), most[_i % 6]);
}
END_TEST

START_TEST(bypass_is_the_delayed_input) {
    const unsigned n = (unsigned)rates[_i] / 4;
    struct core_controls controls = plain;
    controls.bypass = true;
    struct core *c = open_core(2, rates[_i], &controls);
    float *x[2] = {noise(n), noise(n)}, *y[2] = {get(n, sizeof **y), get(n, sizeof **y)};
    ck_assert_uint_lt(core_delay(c), n / 2);
    for (unsigned i = 0; i < 2; i++)
        memcpy(y[i], x[i], n * sizeof **y);
    run_core(c, &controls, y, n, n / 8);
    for (unsigned i = 0; i < 2; i++)
        for (size_t k = 0; k < n; k++)
            ck_assert(y[i][k] == (k < core_delay(c) ? 0 : x[i][k - core_delay(c)]));
    for (unsigned i = 0; i < 2; i++) {
        free(x[i]);
        free(y[i]);
    }
    core_close(c);
}
END_TEST

START_TEST(bypass_switches_without_a_click) {
    struct core_controls controls = plain;
    controls.strength = controls.low_cut_hz = 0;
    struct core *c = open_core(1, 48000, &controls);
    float x[256], last = 0, step = 0;
    for (unsigned block = 0; block < 200; block++) {
        for (unsigned i = 0; i < 256; i++)
            x[i] = sinf(.02f * (float)(block * 256 + i));
        controls.bypass = block / 20 % 2;
        core_run(c, &controls, &(const float *){x}, &(float *){x}, 256);
        for (unsigned i = 0; i < 256; i++) {
            if (block > 10)
                step = fmaxf(step, fabsf(x[i] - last));
            last = x[i];
        }
    }
    ck_assert_float_lt(step, .0205f);
    core_close(c);
}
END_TEST

/* The installed models, and two with different hops in either direction. */
START_TEST(a_new_model_takes_over_while_sound_runs) {
    const char *const names[] = {"small", "base"};
    const unsigned first = _i == 2;
    struct core_controls controls = plain;
    if (_i)
        take_models_of_two_hops();
    controls.model = 1 + (float)first;
    struct core *c = open_core(1, 48000, &controls);
    const size_t n = 48000 * 12;
    float *x = noise(n), *y = get(n, sizeof *y), *old = wanted(names[first], -INFINITY, 1, x, n),
          *new = wanted(names[!first], -INFINITY, 1, x, n);
    size_t changed = 0;
    for (size_t i = 0; i + 256 <= n; i += 256) {
        controls.model = 1 + (float)(i < 48000 ? first : !first);
        core_run(c, &controls, &(const float *){x + i}, &(float *){y + i}, 256);
        if (i >= 48000 && !changed) /* the file is read meanwhile */
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (!changed && memcmp(y + i, old + i, 256 * sizeof *y) != 0)
            changed = i;
    }
    ck_assert_uint_ge(changed, 48000);
    double from_old = 0, from_new = 0, step = 0;
    for (size_t i = changed + 48000; i < n / 256 * 256; i++) {
        from_old += pow((double)(y[i] - old[i]), 2);
        from_new += pow((double)(y[i] - new[i]), 2);
    }
    for (size_t i = changed - 5; i < changed + 2000; i++)
        step = fmax(step, fabs((double)(y[i] - y[i - 1])));
    ck_assert_double_lt(from_new, .1 * from_old); /* not 0: it heard a third of a second only */
    ck_assert_double_lt(step, .1);
    free(x);
    free(y);
    free(old);
    free(new);
    core_close(c);
    if (_i)
        return_to_models();
}
END_TEST

START_TEST(the_delay_is_the_same_for_every_model) {
    const size_t n = 48000 * 12;
    struct core_controls controls = plain;
    controls.strength = controls.low_cut_hz = 0;
    take_models_of_two_hops();
    struct core *c = open_core(1, 48000, &controls);
    float *x = noise(n), *y = get(n, sizeof *y);
    float *both[] = {wanted("small", -INFINITY, 0, x, n), wanted("base", -INFINITY, 0, x, n)};
    unsigned n_of[2] = {0};
    for (size_t i = 0, now; i < n; i += now) {
        now = draw(600) < n - i ? draw(600) : 1;
        now = now < n - i ? now : n - i;
        const unsigned model = i / 96000 % 2;
        controls.model = 1 + (float)model;
        core_run(c, &controls, &(const float *){x + i}, &(float *){y + i}, (unsigned)now);
        if (memcmp(y + i, both[model] + i, now * sizeof *y) != 0) /* its file is read meanwhile */
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        const float due = i < DELAY ? 0 : x[i - DELAY];
        ck_assert_msg(fabsf(y[i] - due) < 1e-6f, "sample %zu: %.9g, not %.9g", i, (double)y[i], (double)due);
        for (unsigned m = 0; m < 2; m++) /* they round differently */
            n_of[m] += y[i] == both[m][i] && y[i] != both[!m][i];
    }
    ck_assert_uint_gt(n_of[0], 48000);
    ck_assert_uint_gt(n_of[1], 48000);
    free(x);
    free(y);
    free(both[0]);
    free(both[1]);
    core_close(c);
    return_to_models();
}
END_TEST

/* A core opened with one model and run with another gives the output of `small`. */
static void small_sounds(int opened, int run) {
    const unsigned n = N / 4;
    struct core_controls controls = plain;
    controls.model = (float)opened;
    struct core *c = open_core(1, 48000, &controls);
    float *x = noise(n), *y = wanted("small", -INFINITY, 1, x, n);
    controls.model = (float)run;
    core_run(c, &controls, &(const float *){x}, &x, n);
    for (size_t k = 0; k < n; k++)
        ck_assert(x[k] == y[k]);
    free(x);
    free(y);
    core_close(c);
}

START_TEST(the_first_block_may_bring_the_model) {
    small_sounds(2, (int)plain.model);
}
END_TEST

START_TEST(a_block_within_the_first_hop_waits_for_nothing) {
    struct core *c = open_core(2, 48000, &plain);
    float *const x[2] = {noise(32), noise(32)};
    rt_guard_enter();
    core_run(c, &plain, (const float *const *)x, x, 32);
    rt_guard_leave();
    free(x[0]);
    free(x[1]);
    core_close(c);
}
END_TEST

START_TEST(a_missing_model_is_replaced) {
    take_small_alone();
    small_sounds(_i, _i);
    return_to_models();
}
END_TEST

/* Installs a fixture with changed bytes in its header as `base`. */
static void patch(const char *fixture, const char *from, const char *to) {
    char path[sizeof FIXTURES + 64], *at;
    snprintf(path, sizeof path, FIXTURES "/%s.safetensors", fixture);
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    char *const model = get((1 << 20) + 1, 1);
    const size_t size = fread(model, 1, 1 << 20, f);
    fclose(f);
    ck_assert_ptr_nonnull(at = strstr(model + 8, from)); /* after the header's length */
    memcpy(at, to, strlen(to));
    snprintf(path, sizeof path, "%s/base.safetensors", directory);
    ck_assert_ptr_nonnull(f = fopen(path, "we"));
    ck_assert_uint_eq(fwrite(model, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
    free(model);
}

/* The library opens models with another rate or delay, but their sound would be too fast or come at another time. */
START_TEST(a_model_that_does_not_fit_is_replaced) {
    char error[PRIMEKNET_ERROR];
    take_small_alone();
    if (_i == 0)
        patch("wide", "\"48000\"", "\"24000\"");
    else
        patch("low-delay",
              "random weights, for tests\",\"mixer\":\"mamba\",\"band_gain_maximum\":\"none\",\"rate\":\"8000",
              "random weight, for tests\",\"mixer\":\"mamba\",\"band_gain_maximum\":\"none\",\"rate\":\"48000");
    struct primeknet *p;
    ck_assert_msg(primeknet_open(&p, "base", &alone, error) == 0, "%s", error);
    primeknet_close(p);
    small_sounds(2, 2);
    return_to_models();
}
END_TEST

START_TEST(controls_may_be_anything) {
    const float odd[] = {NAN, INFINITY, -INFINITY, -1, 1e30f};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct core_controls controls = {.strength = odd[i], .floor_db = odd[i], .low_cut_hz = odd[i], .model = 1};
        struct core *c = open_core(1, 48000, &controls);
        float *x = noise(5000);
        core_run(c, &controls, &(const float *){x}, &(float *){x}, 5000);
        ck_assert(isfinite(x[4999]));
        free(x);
        core_close(c);
    }
    ck_assert_ptr_null(core_open(1, NAN));
    ck_assert_ptr_null(core_open(1, 0));
    ck_assert_ptr_null(core_open(1, 7999));
    ck_assert_ptr_null(core_open(1, 384001));
    ck_assert_ptr_null(core_open(1, 1e9));
}
END_TEST

static float *output_with(const struct core_controls *controls, const float *x) {
    struct core *c = open_core(1, RATE, controls);
    float *y = get(N, sizeof *y);
    memcpy(y, x, N * sizeof *y);
    run_core(c, controls, (float *[2]){y}, N, 0);
    core_close(c);
    return y;
}

/* Values out of range are clamped, NaN counts as the lowest value, and a model number is rounded. */
START_TEST(controls_are_clamped) {
    static const struct {
        struct core_controls set, counts_as;
    } cases[] = {
        {{NAN, NAN, NAN, true, NAN, NAN, false}, {0, -60, 0, true, -32, 0, false}},
        {{-1, -1000, -5, true, -33, -1, false}, {0, -60, 0, true, -32, 0, false}},
        {{7, 9, 1e30f, true, 0, 7, false}, {1, 0, 280, true, -14, 3, false}},
        {{INFINITY, -30, INFINITY, false, INFINITY, INFINITY, false}, {1, -30, 280, false, -23, 3, false}},
        {{.5f, -30, 70, true, -20, 1.6f, false}, {.5f, -30, 70, true, -20, 2, false}},
        {{.5f, -30, 70, true, -20, 1.4f, false}, {.5f, -30, 70, true, -20, 1, false}},
    };
    take_models_of_two_hops();
    link_model("large", FIXTURES "/long-hop.safetensors");
    link_model("auto", FIXTURES "/wide.safetensors");
    float *x = noise(N), *is = output_with(&cases[_i].set, x), *due = output_with(&cases[_i].counts_as, x);
    ck_assert_mem_eq(is, due, N * sizeof *is);
    free(x);
    free(is);
    free(due);
    return_to_models();
}
END_TEST

/* Whatever sounded before, at a rate where the resamplers and their spare samples have state, too. */
START_TEST(activation_resets_the_state) {
    struct core_controls controls = plain;
    if (_i / 2)
        setenv("PRIMEKNET_MODELS", "/nowhere", 1);
    struct core *c = open_core(1, _i / 2 == 2 ? RATE : 44100, &controls);
    float *x = noise(N), *first = get(N, sizeof *first), *then = get(N, sizeof *then);
    controls.bypass = _i == 1;
    core_activate(c, &controls);
    memcpy(first, x, N * sizeof *x);
    run_core(c, &controls, (float *[2]){first}, N, 0);
    core_activate(c, &controls);
    memcpy(then, x, N * sizeof *x);
    run_core(c, &controls, (float *[2]){then}, N, 0);
    ck_assert_mem_eq(first, then, N * sizeof *first);
    free(x);
    free(first);
    free(then);
    core_close(c);
}
END_TEST

/* Gives a hop to the core, and waits until its thread has computed that. */
static void let_the_thread_compute(struct core *c) {
    float *x = noise(DELAY);
    core_run(c, &plain, &(const float *){x}, &(float *){x}, DELAY);
    for (unsigned i = 0; i < 20000 && c->n_out <= c->n_in; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ck_assert(c->n_out > c->n_in);
    free(x);
}

/* The longer the host does other things, the less it has to compute. */
START_TEST(the_thread_computes_while_the_host_is_busy) {
    struct core *c = open_core(1, RATE, &plain);
    let_the_thread_compute(c);
    core_close(c);
}
END_TEST

/* Closes the core. */
static void check_input_passes(struct core *c) {
    float *x = noise(N), *y = get(N, sizeof *y);
    core_run(c, &plain, &(const float *){x}, &y, N);
    for (size_t k = 0; k < N; k++)
        ck_assert(y[k] == (k < DELAY ? 0 : x[k - DELAY]));
    free(x);
    free(y);
    core_close(c);
}

START_TEST(without_a_model_the_input_passes) {
    setenv("PRIMEKNET_MODELS", "/nowhere", 1);
    check_input_passes(open_core(1, RATE, &plain));
}
END_TEST

/* ---- every order of what a host may do -------------------------------------------------------------------------- */

/* The core's thread stops before it opens a model and before it feeds that any sound, until the test lets it
 * continue. */
enum gate { NO_GATE, BEFORE_OPEN, BEFORE_HEARING };
static bool gated;
static pthread_t host;
static sem_t let;
static _Atomic int gate_at, n_opened, n_tries;
static atomic_bool fails;             /* computing a hop */
static const struct primeknet *fresh; /* opened by the core's thread, has heard nothing */
static bool asks;
static sigset_t blocked; /* where a test asks: by the core's thread when it last computed */

static void stop_at(enum gate gate) {
    if (!gated || pthread_equal(pthread_self(), host))
        return;
    gate_at = (int)gate;
    sem_wait(&let);
}

int __real_primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                          char *error);
int __wrap_primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                          char *error);
int __wrap_primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                          char *error) {
    stop_at(BEFORE_OPEN);
    n_tries++;
    const int code = __real_primeknet_open(ret, model, options, error);
    n_opened += code == 0;
    if (!pthread_equal(pthread_self(), host))
        fresh = *ret;
    return code;
}

int __real_primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);
int __wrap_primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n);
int __wrap_primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n) {
    if (asks && !pthread_equal(pthread_self(), host))
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (gated && p == fresh && n > 2 * primeknet_get_hop(p)) { /* less is heard with the lock held */
        fresh = NULL;
        stop_at(BEFORE_HEARING);
    }
    return fails ? -EIO : __real_primeknet_process(p, in, out, n);
}

void __real_primeknet_close(struct primeknet *p);
void __wrap_primeknet_close(struct primeknet *p);
void __wrap_primeknet_close(struct primeknet *p) {
    n_opened -= p != NULL;
    __real_primeknet_close(p);
}

/* The library's output for the input since the core was activated, delayed like a core's output. */
struct reference {
    struct primeknet *p;
    unsigned hop;
    float last[512], due[512];
};

static void refer(struct reference *r, const float *x) {
    float y[512];
    primeknet_process(r->p, &x, &(float *){y}, 512);
    memcpy(r->due, r->last + 512 - r->hop, r->hop * sizeof *y);
    memcpy(r->due + r->hop, y, (512 - r->hop) * sizeof *y);
    memcpy(r->last, y, sizeof y);
}

/* A host, and the expected state of its core by the table in core.h. */
struct course {
    struct core *core;
    struct core_controls controls;
    struct reference references[CORE_MODELS]; /* none of auto */
    char steps[64];                           /* so far, for messages */
    enum state state;
    unsigned wanted, present, coming; /* models */
    enum gate gate;                   /* where the thread has stopped */
    unsigned n_in;
    float x[512], y[512]; /* since the last multiple of 512 samples */
};

static void is_as_it_ought(const struct course *h) {
    struct core *const c = h->core;
    bool is = false;
    for (unsigned i = 0; i < 20000 && !is; i++) { /* the thread does it meanwhile */
        pthread_mutex_lock(&c->lock);
        is = c->state == h->state && c->present == h->present && gate_at == (int)h->gate &&
             (c->coming == h->coming || h->state == SETTLED || h->state == ABANDONED);
        pthread_mutex_unlock(&c->lock);
        if (!is)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    ck_assert_msg(is, "%s: state %d, present %u, coming %u, gate %d; not %d, %u, %u, %d", h->steps, (int)c->state,
                  c->present, c->coming, gate_at, (int)h->state, h->present, h->coming, (int)h->gate);
}

/* The thread has nothing to do, or starts to load the requested model. */
static void settles(struct course *h) {
    h->state = h->wanted == h->present ? SETTLED : LOADING;
    h->gate = h->state == LOADING ? BEFORE_OPEN : NO_GATE;
    h->coming = h->wanted;
}

static void activated(struct course *h) {
    h->wanted = h->present = (unsigned)h->controls.model;
    h->state = h->gate ? ABANDONED : SETTLED;
    h->n_in = 0;
    for (unsigned i = 1; i < CORE_MODELS; i++) {
        primeknet_reset(h->references[i].p, 0);
        memset(h->references[i].last, 0, sizeof h->references[i].last);
    }
}

static void activate(struct course *h) {
    core_activate(h->core, &h->controls);
    activated(h);
}

/* The new model's share of the output while it takes over never falls, and grows no faster than a hop's fade; the
 * shortest hop has 256 samples. Where both models give the same output, the share is unknown. */
static void fades_in(const struct course *h, float *share, unsigned *known) {
    const float *const old = h->references[h->present].due, *const new = h->references[h->coming].due;
    for (unsigned j = 0; j < 512; j++) {
        ++*known;
        if (fabsf(new[j] - old[j]) < 1e-3f)
            continue;
        const float now = (h->y[j] - old[j]) / (new[j] - old[j]);
        ck_assert_msg(now > *share - .01f && now < *share + (float)*known / 256 + .01f,
                      "%s: the share goes from %g to %g", h->steps, (double)*share, (double)now);
        *share = now;
        *known = 0;
    }
}

/* Ends within a hop, so that the thread has none to compute. A model that took over gives the output that it would have
 * given from the start, because it was fed all of the sound. */
static void sounds(struct course *h) {
    const unsigned before = h->n_in, n = before ? 2048 : 2048 + 100;
    if (!before && h->present != (unsigned)h->controls.model)
        activated(h);
    h->wanted = (unsigned)h->controls.model;
    const bool takes_over = h->state == READY;
    float share = 0;
    unsigned known = 0; /* samples since it was known */
    for (unsigned i = 0; i < n; i++) {
        const unsigned k = h->n_in++ % 512;
        h->x[k] = ((float)draw(1 << 24) / 0x1p24f - .5f) * .3f;
        core_run(h->core, &h->controls, &(const float *){h->x + k}, &(float *){h->y + k}, 1);
        if (k < 511)
            continue;
        for (unsigned m = 1; m < CORE_MODELS; m++)
            refer(&h->references[m], h->x);
        if (takes_over && i < 1024) {
            fades_in(h, &share, &known);
            continue;
        }
        const unsigned sounding = takes_over ? h->coming : h->present;
        for (unsigned j = 0; j < 512; j++)
            ck_assert_msg(h->y[j] == h->references[sounding].due[j], "%s: sample %u is not that of %s", h->steps,
                          h->n_in - 512 + j, models[sounding]);
    }
    if (takes_over) {
        h->present = h->coming;
        h->state = SETTLED;
    }
    if (h->state == SETTLED)
        settles(h);
}

/* Lets the thread run to its next stop. */
static void lets(struct course *h) {
    const enum gate gate = h->gate;
    if (gate == NO_GATE)
        return;
    const unsigned hop = h->references[h->coming].hop;
    const uint64_t heard = (h->core->n_out - h->references[h->present].hop) / hop * hop;
    h->gate = NO_GATE;
    if (h->state == ABANDONED || h->wanted != h->coming)
        settles(h);
    else if (gate == BEFORE_OPEN && heard > 2 * hop)
        h->gate = BEFORE_HEARING;
    else
        h->state = READY;
    gate_at = NO_GATE;
    sem_post(&let);
}

static void begin_course(struct course *h) {
    h->core = core_open(1, RATE);
    ck_assert_ptr_nonnull(h->core);
    h->steps[0] = '\0';
    h->state = SETTLED;
    h->gate = NO_GATE;
    h->present = CORE_MODELS;
    activate(h);
}

/* s: sets another model; a: activates (deactivation does not reach the core); r: runs; l: lets the thread continue. */
static void step(struct course *h, char what) {
    const size_t n = strlen(h->steps);
    h->steps[n] = what;
    h->steps[n + 1] = '\0';
    if (what == 's')
        h->controls.model = (float)((unsigned)h->controls.model % 3 + 1);
    else if (what == 'a' || (what == 'r' && h->n_in > 10000)) /* more than 14336 a new model does not hear */
        activate(h);
    else if (what == 'r')
        sounds(h);
    else
        lets(h);
    is_as_it_ought(h);
}

/* Closing works wherever the thread has stopped; the thread then ends and leaves nothing behind. */
static void end_course(struct course *h, int n_others) {
    core_close(h->core);
    ck_assert(h->gate || n_opened == n_others);
    while (n_opened > n_others || h->gate) {
        if (gate_at)
            h->gate = NO_GATE;
        if (atomic_exchange(&gate_at, NO_GATE))
            sem_post(&let);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void open_host(struct course *h) {
    take_models_of_two_hops();
    link_model("large", FIXTURES "/long-hop.safetensors");
    host = pthread_self();
    sem_init(&let, 0, 0);
    h->controls = plain;
    h->controls.floor_db = -25;
    for (unsigned i = 1; i < CORE_MODELS; i++) {
        struct reference *const r = &h->references[i];
        ck_assert_int_eq(primeknet_open(&r->p, models[i], &alone, NULL), 0);
        r->hop = primeknet_get_hop(r->p);
        const struct primeknet_controls controls = {sizeof controls, h->controls.strength, h->controls.floor_db,
                                                    h->controls.low_cut_hz, 0};
        primeknet_set_controls(r->p, 0, &controls);
    }
    gated = true;
}

static void close_host(struct course *h) {
    for (unsigned i = 1; i < CORE_MODELS; i++)
        primeknet_close(h->references[i].p);
    ck_assert_int_eq(n_opened, 0);
    return_to_models();
}

START_TEST(every_order_ends_with_the_last_request) {
    enum { STEPS = 5, ORDERS = 1 << 2 * STEPS, PARTS = 16 };
    static struct course h;
    open_host(&h);
    for (unsigned order = (unsigned)_i; order < ORDERS; order += PARTS) {
        begin_course(&h);
        for (unsigned i = 0; i < STEPS; i++)
            step(&h, "sarl"[order >> 2 * i & 3]);
        end_course(&h, CORE_MODELS - 1);
    }
    close_host(&h);
}
END_TEST

START_TEST(any_long_order_ends_with_the_last_request) {
    static struct course h;
    open_host(&h);
    for (unsigned course = 0; course < 40; course++) {
        begin_course(&h);
        for (unsigned i = 1 + draw(sizeof h.steps - 2); i > 0; i--)
            step(&h, "sarrllll"[draw(8)]);
        end_course(&h, CORE_MODELS - 1);
    }
    close_host(&h);
}
END_TEST

static atomic_bool watches;

/* Holds the lock for a while, as the core's thread does while it computes, and counts how often that thread would start
 * to load a model. */
static void *watch(void *data) {
    struct core *const c = data;
    size_t n_loads = 0;
    while (watches) {
        pthread_mutex_lock(&c->lock);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        n_loads += c->state == SETTLED && c->wanted != c->present;
        pthread_mutex_unlock(&c->lock);
    }
    return (void *)n_loads;
}

START_TEST(a_model_that_the_call_loads_is_not_loaded_twice) {
    take_models_of_two_hops();
    struct core_controls controls = plain;
    struct core *c = open_core(1, RATE, &controls);
    float x[100] = {0};
    pthread_t watcher;
    void *n_loads;
    watches = true;
    ck_assert_int_eq(pthread_create(&watcher, NULL, watch, c), 0);
    for (unsigned i = 0; i < 20; i++) {
        controls.model = 2 - (float)(i % 2);
        if (i / 2 % 2)
            core_run(c, &controls, &(const float *){x}, &(float *){x}, 100);
        core_activate(c, &controls);
    }
    watches = false;
    pthread_join(watcher, &n_loads);
    ck_assert_ptr_null(n_loads);
    core_close(c);
    return_to_models();
}
END_TEST

/* While the new model is fed past sound, for longer than that takes, and while it waits to take over. */
START_TEST(controls_set_before_a_model_sounds_apply_to_it) {
    static struct course h;
    open_host(&h);
    begin_course(&h);
    for (const char *steps = _i ? "rsrll" : "rsrl"; *steps; steps++)
        step(&h, *steps);
    ck_assert_int_eq(h.state, _i ? READY : LOADING);
    h.controls.strength = h.controls.low_cut_hz = 0;
    float *x[2] = {noise(N)}, *y = noise(N);
    run_core(h.core, &h.controls, x, HISTORY + 8000, 0);
    if (!_i)
        lets(&h);
    while (h.core->present != (unsigned)h.controls.model) {
        run_core(h.core, &h.controls, x, 100, 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    memcpy(x[0], y, N * sizeof *y);
    run_core(h.core, &h.controls, x, N, 0);
    for (size_t i = 2 * DELAY; i < N; i++) /* from the last hop before on */
        ck_assert_float_eq_tol(x[0][i], y[i - DELAY], 1e-6f);
    core_close(h.core);
    free(x[0]);
    free(y);
    close_host(&h);
}
END_TEST

START_TEST(a_model_takes_over_in_a_fade) {
    static struct course h;
    open_host(&h);
    for (unsigned model = 1; model < CORE_MODELS; model++) {
        h.controls.model = (float)model;
        begin_course(&h);
        for (const char *steps = "rsrllr"; *steps; steps++)
            step(&h, *steps);
        ck_assert_uint_eq(h.present, model % 3 + 1);
        end_course(&h, CORE_MODELS - 1);
    }
    close_host(&h);
}
END_TEST

START_TEST(activation_opens_only_missing_models) {
    static struct course h;
    open_host(&h);
    begin_course(&h);
    int tries = n_tries;
    step(&h, 'a');
    ck_assert_int_eq(n_tries, tries);
    for (const char *steps = "rsrll"; *steps; steps++)
        step(&h, *steps);
    ck_assert_int_eq(h.state, READY);
    ck_assert_int_eq(n_tries, tries + 1);
    step(&h, 'a');
    ck_assert_int_eq(n_tries, tries + 1);
    step(&h, 'r');
    end_course(&h, CORE_MODELS - 1);
    close_host(&h);
}
END_TEST

/* The present model continues instead. */
START_TEST(a_model_that_cannot_be_opened_is_not_retried) {
    take_small_alone();
    struct core_controls controls = plain;
    struct core *c = open_core(1, RATE, &controls);
    float *x = noise(N), *y = wanted("small", -INFINITY, 1, x, N);
    return_to_models();
    setenv("PRIMEKNET_MODELS", "/nowhere", 1);
    int tries = 0;
    for (unsigned i = 0; i + 256 <= N; i += 256) {
        controls.model = i < 4096 ? 1 : 3;
        core_run(c, &controls, &(const float *){x + i}, &(float *){x + i}, 256);
        for (unsigned k = 0; i == 8192 && k < 20000 && c->present != 3; k++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (i == 8192)
            tries = n_tries;
    }
    ck_assert_uint_eq(c->present, 3);
    ck_assert_int_eq(n_tries, tries);
    ck_assert_mem_eq(x, y, N / 256 * 256 * sizeof *x);
    free(x);
    free(y);
    core_close(c);
}
END_TEST

START_TEST(a_failed_hop_outputs_the_input) {
    struct core *c = open_core(1, RATE, &plain);
    fails = true;
    check_input_passes(c);
}
END_TEST

/* ---- in real time ------------------------------------------------------------------------------------------------ */

/* Returns false if this process may not. */
static bool start_in_real_time(pthread_t *ret, void *(*begin)(void *), void *data) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &(struct sched_param){.sched_priority = 5});
    const int code = pthread_create(ret, &attributes, begin, data);
    pthread_attr_destroy(&attributes);
    ck_assert(code == 0 || code == EPERM);
    return code == 0;
}

static void *first_block(void *data) {
    struct core *const c = data;
    struct core_controls controls = plain;
    float x[100] = {0};
    controls.model = 2;
    core_run(c, &controls, &(const float *){x}, &(float *){x}, 100);
    ck_assert_uint_eq(c->present, 1);
    return NULL;
}

START_TEST(no_model_is_loaded_in_real_time) {
    take_models_of_two_hops();
    struct core *c = open_core(1, RATE, &plain);
    pthread_t thread;
    if (start_in_real_time(&thread, first_block, c))
        pthread_join(thread, NULL);
    core_close(c);
    return_to_models();
}
END_TEST

static void *waits_for_lock(void *data) {
    struct core *const c = data;
    pthread_mutex_lock(&c->lock);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Returns the kernel's number: 20 for a normal thread, -6 for one with real-time priority 5. */
static int own_priority(void) {
    char text[1024];
    int priority = 0;
    FILE *f = fopen("/proc/thread-self/stat", "re");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %d", &priority);
    return priority;
}

START_TEST(the_thread_inherits_the_priority_of_a_waiting_host) {
    struct core *c = open_core(1, RATE, &plain);
    pthread_t thread;
    pthread_mutex_lock(&c->lock);
    if (start_in_real_time(&thread, waits_for_lock, c)) {
        for (unsigned i = 0; i < 20000 && own_priority() != -6; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        ck_assert_int_eq(own_priority(), -6);
        pthread_mutex_unlock(&c->lock);
        pthread_join(thread, NULL);
    } else {
        pthread_mutex_unlock(&c->lock);
    }
    core_close(c);
}
END_TEST

/* ---- what hosts do apart from sound ------------------------------------------------------------------------------ */

static unsigned count_threads(void) {
    unsigned n = 0;
    DIR *threads = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(threads);
    for (struct dirent *thread; (thread = readdir(threads));)
        n += thread->d_name[0] != '.';
    closedir(threads);
    return n;
}

/* An emulator adds a thread of its own, and /proc shows the masks that it needs: each thread is asked for its mask. */
START_TEST(signals_are_for_the_hosts_threads) {
    const unsigned n_before = count_threads();
    sigset_t here;
    host = pthread_self();
    asks = true;
    struct core *c = open_core(1, RATE, &plain);
    ck_assert_uint_eq(count_threads(), n_before + 1);
    let_the_thread_compute(c);
    core_close(c);
    pthread_sigmask(SIG_BLOCK, NULL, &here);
    for (int s = 1; s < 32; s++) {
        ck_assert_msg(s == SIGKILL || s == SIGSTOP || sigismember(&blocked, s), "signal %d reaches the thread", s);
        ck_assert_msg(!sigismember(&here, s), "signal %d is blocked", s);
    }
}
END_TEST

static void find_in_plugin(void *ret, const char *kind, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, PLUGINS "/%s/.libs/primeknet.so", kind);
    void *const module = dlopen(path, RTLD_NOW);
    ck_assert_msg(module, "%s", dlerror());
    ck_assert_int_eq(dlclose(module), 0);
    ck_assert_msg(dlopen(path, RTLD_NOW | RTLD_NOLOAD), "%s is gone, though a thread may run in it", path);
    void *const symbol = dlsym(module, name);
    memcpy(ret, &symbol, sizeof symbol);
}

/* ffmpeg calls cleanup after an instantiate that failed, as it does below 8 kHz. */
START_TEST(ladspa_cleans_up_after_a_failed_instantiate) {
    LADSPA_Descriptor_Function describe;
    find_in_plugin(&describe, "ladspa", "ladspa_descriptor");
    for (unsigned long i = 0; i < 2; i++) {
        const LADSPA_Descriptor *const d = describe(i);
        ck_assert_ptr_null(d->instantiate(d, 7999));
        d->cleanup(NULL);
    }
    ck_assert_ptr_null(describe(2));
}
END_TEST

struct range {
    double fallback, least, greatest;
};

static struct range ladspa_range(const LADSPA_PortRangeHint *hint) {
    const double least = hint->LowerBound, greatest = hint->UpperBound;
    const int fallback = hint->HintDescriptor & LADSPA_HINT_DEFAULT_MASK;
    return (struct range){fallback == LADSPA_HINT_DEFAULT_MINIMUM  ? least
                          : fallback == LADSPA_HINT_DEFAULT_LOW    ? .75 * least + .25 * greatest
                          : fallback == LADSPA_HINT_DEFAULT_MIDDLE ? .5 * least + .5 * greatest
                          : fallback == LADSPA_HINT_DEFAULT_1      ? 1
                                                                   : 0,
                          least, greatest};
}

static struct range lv2_range(const char *port) {
    struct range r;
    const char *const fallback = strstr(port, "lv2:default ");
    ck_assert(fallback && sscanf(fallback, "lv2:default %lf ; lv2:minimum %lf ; lv2:maximum %lf", &r.fallback, &r.least,
                                 &r.greatest) == 3);
    return r;
}

static void check_ranges(const char *name, struct range a, struct range b) {
    ck_assert_msg(a.fallback == b.fallback && a.least == b.least && a.greatest == b.greatest,
                  "%s: %g, %g to %g; %g, %g to %g", name, a.fallback, a.least, a.greatest, b.fallback, b.least,
                  b.greatest);
}

/* "off" in the settings is the plugins' lowest floor, and another of their ports for the level; the plugins' low cut
 * has a smaller range. */
static void check_setting(const char *name, struct range setting, struct range port) {
    if (strcmp(name, "floor_db") == 0)
        setting.fallback = setting.least;
    if (strcmp(name, "level") == 0)
        setting.fallback = PRIMEKNET_LEVEL_TARGET;
    if (strcmp(name, "low_cut_hz") == 0 && setting.greatest > port.greatest)
        setting.greatest = port.greatest;
    check_ranges(name, setting, port);
}

START_TEST(bounds_are_those_of_ladspa_and_of_the_settings) {
    static const struct {
        const char *symbol, *setting;
        unsigned port;
    } controls[] = {
        {"strength", "strength", STRENGTH}, {"floor", "floor_db", FLOOR}, {"low_cut", "low_cut_hz", LOW_CUT},
        {"level_target", "level", TARGET},  {"model", "", MODEL},         {"level", "", LEVEL}};
    static const struct {
        const char *name;
        struct range range;
    } settings[] = {
#define NUMBER(name, fallback, least, greatest, word, unit, allowed) {#name, {fallback, least, greatest}},
#define TEXT(name, size, fallback, least, greatest, fits, allowed)
#define SWITCH(name, fallback)
#include "control/settings.def"
    };
    LADSPA_Descriptor_Function describe;
    find_in_plugin(&describe, "ladspa", "ladspa_descriptor");
    char *text = get(1 << 16, 1), *at = text;
    FILE *const file = fopen(FIXTURES "/../../src/plugins/primeknet.lv2/primeknet.ttl", "r");
    ck_assert(file && fread(text, 1, (1 << 16) - 1, file) && fclose(file) == 0);
    for (unsigned plugin = 0; plugin < 2; plugin++) {
        ck_assert_ptr_nonnull(at = strstr(at, "\n<urn:primeknet:") + 1);
        for (unsigned i = 0; i < sizeof controls / sizeof *controls; i++) {
            char symbol[64];
            const unsigned number = controls[i].port + (controls[i].port < LEVEL ? 0 : 2 * (plugin + 1));
            snprintf(symbol, sizeof symbol, "lv2:index %u ; lv2:symbol \"%s\"", number, controls[i].symbol);
            const char *const port = strstr(at, symbol);
            ck_assert_msg(port, "no %s", symbol);
            const struct range range = lv2_range(port);
            check_ranges(symbol, range, ladspa_range(&describe(plugin)->PortRangeHints[number]));
            for (unsigned k = 0; k < sizeof settings / sizeof *settings; k++)
                if (strcmp(settings[k].name, controls[i].setting) == 0)
                    check_setting(settings[k].name, settings[k].range, range);
        }
        for (unsigned i = 0; i < CORE_MODELS; i++) {
            char label[64];
            snprintf(label, sizeof label, "[ rdfs:label \"%s\" ; rdf:value %u ]", models[i], i);
            ck_assert_msg(strstr(at, label), "no %s", label);
        }
    }
    free(text);
}
END_TEST

START_TEST(lv2_cleans_up_after_a_failed_instantiate) {
    LV2_Descriptor_Function describe;
    find_in_plugin(&describe, "lv2", "lv2_descriptor");
    for (uint32_t i = 0; i < 2; i++) {
        const LV2_Descriptor *const d = describe(i);
        ck_assert_ptr_null(d->instantiate(d, 7999, "", (const LV2_Feature *const[]){NULL}));
        d->cleanup(NULL);
    }
    ck_assert_ptr_null(describe(2));
}
END_TEST

/* Hosts and saved sessions refer to ports by number, so new controls must not renumber any. */
START_TEST(ports_keep_their_numbers) {
    enum { SAMPLES = 512, BLOCKS = 40 };
    LADSPA_Descriptor_Function ladspa;
    LV2_Descriptor_Function lv2;
    find_in_plugin(&ladspa, "ladspa", "ladspa_descriptor");
    find_in_plugin(&lv2, "lv2", "lv2_descriptor");
    const unsigned channels = (unsigned)_i + 1;
    const LADSPA_Descriptor *const d = ladspa((unsigned long)_i);
    const LV2_Descriptor *const e = lv2((uint32_t)_i);
    ck_assert_uint_eq(d->PortCount, 6 + 2 * channels + 2);
    for (unsigned i = 0; i < d->PortCount; i++)
        ck_assert_msg(!LADSPA_IS_PORT_AUDIO(d->PortDescriptors[i]) == (i < 6 || i >= 6 + 2 * channels), "port %u", i);
    ck_assert_str_eq(d->PortNames[0], "Strength");
    ck_assert_str_eq(d->PortNames[5], "latency");
    void *const handles[] = {d->instantiate(d, 48000),
                             e->instantiate(e, 48000, "", (const LV2_Feature *const[]){NULL})};
    for (unsigned h = 0; h < 2; h++) {
        float controls[] = {0, -60, 0, 1, h == 0 ? 0 : 1, -1}, sound[4][SAMPLES];
        ck_assert_ptr_nonnull(handles[h]);
        for (unsigned i = 0; i < 6 + 2 * channels; i++) {
            float *const at = i < 6 ? &controls[i] : sound[i - 6];
            h == 0 ? d->connect_port(handles[0], i, at) : e->connect_port(handles[1], i, at);
        }
        h == 0 ? d->activate(handles[0]) : e->activate(handles[1]);
        for (unsigned block = 0; block < BLOCKS; block++) {
            for (unsigned i = 0; i < SAMPLES; i++)
                for (unsigned c = 0; c < channels; c++)
                    sound[c][i] = .25f * (float)(c + 1);
            h == 0 ? d->run(handles[0], SAMPLES) : e->run(handles[1], SAMPLES);
        }
        ck_assert(controls[5] > 0 && controls[5] < SAMPLES * BLOCKS);
        for (unsigned c = 0; c < channels; c++) /* at strength 0: the input */
            ck_assert_float_eq_tol(sound[channels + c][SAMPLES - 1], .25f * (float)(c + 1), 1e-3f);
        h == 0 ? d->cleanup(handles[0]) : e->cleanup(handles[1]);
    }
}
END_TEST

int main(void) {
    draw_seed = seed_of_run(20261124);
    Suite *suite = suite_create("plugins");
    TCase *t = tcase_create("plugins");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, any_rate_and_any_block, 0, N_ANY_RATES);
    tcase_add_loop_test(t, bypass_is_the_delayed_input, 0, N_RATES);
    tcase_add_test(t, bypass_switches_without_a_click);
    tcase_add_test(t, the_first_block_may_bring_the_model);
    tcase_add_test(t, a_block_within_the_first_hop_waits_for_nothing);
    tcase_add_loop_test(t, a_missing_model_is_replaced, 0, 4);
    tcase_add_loop_test(t, a_model_that_does_not_fit_is_replaced, 0, 2);
    tcase_add_test(t, controls_may_be_anything);
    tcase_add_loop_test(t, activation_resets_the_state, 0, 5);
    tcase_add_test(t, the_thread_computes_while_the_host_is_busy);
    tcase_add_test(t, without_a_model_the_input_passes);
    tcase_add_test(t, signals_are_for_the_hosts_threads);
    tcase_add_test(t, ladspa_cleans_up_after_a_failed_instantiate);
    tcase_add_test(t, bounds_are_those_of_ladspa_and_of_the_settings);
    tcase_add_test(t, lv2_cleans_up_after_a_failed_instantiate);
    tcase_add_loop_test(t, ports_keep_their_numbers, 0, 2);
    suite_add_tcase(suite, t);
    TCase *seconds = tcase_create("seconds"); /* of sound through networks */
    tcase_set_tags(seconds, "slow");          /* an emulated processor takes hours */
    tcase_set_timeout(seconds, 300);
    tcase_add_loop_test(seconds, output_is_the_librarys, 0, 24);
    tcase_add_loop_test(seconds, delay_is_as_reported, 0, N_RATES);
    tcase_add_loop_test(seconds, a_new_model_takes_over_while_sound_runs, 0, 3);
    tcase_add_test(seconds, the_delay_is_the_same_for_every_model);
    tcase_add_loop_test(seconds, controls_are_clamped, 0, 6);
    tcase_add_loop_test(seconds, every_order_ends_with_the_last_request, 0, 16);
    tcase_add_test(seconds, any_long_order_ends_with_the_last_request);
    suite_add_tcase(suite, seconds);
    TCase *orders = tcase_create("orders");
    tcase_set_timeout(orders, 300);
    tcase_add_test(orders, a_model_that_the_call_loads_is_not_loaded_twice);
    tcase_add_loop_test(orders, controls_set_before_a_model_sounds_apply_to_it, 0, 2);
    tcase_add_test(orders, a_model_takes_over_in_a_fade);
    tcase_add_test(orders, activation_opens_only_missing_models);
    tcase_add_test(orders, a_model_that_cannot_be_opened_is_not_retried);
    tcase_add_test(orders, a_failed_hop_outputs_the_input);
    tcase_add_test(orders, no_model_is_loaded_in_real_time);
    tcase_add_test(orders, the_thread_inherits_the_priority_of_a_waiting_host);
    suite_add_tcase(suite, orders);
    return run_suite(suite, CK_FORK);
}
