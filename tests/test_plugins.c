/* What the plugins share (plugins/core.h): the library's output to the bit at 48 kHz, whatever the blocks; the delay
 * that is reported, at any rate and in bypass; a change of model while sound runs; controls that are no numbers. */
#include "lib/primeknet.h"
#include "plugins/core.h"
#include "draw.h"
#include "rt_guard.h"
#include "run.h"
#include "seed.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N = 60000, DELAY = 1024 };
static char directory[32]; /* of a test's own models */

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

/* `most` samples of a call at most; 0: always 256. In place. */
static void run_core(struct core *c, const struct core_controls *controls, float *const x[2], size_t n, unsigned most) {
    for (size_t i = 0, now; i < n; i += now) {
        now = most ? draw(most + 1) : 256;
        now = now < n - i ? now : n - i;
        core_run(c, controls, (const float *[]){x[0] + i, x[1] + i}, (float *[]){x[0] + i, x[1] + i}, (unsigned)now);
    }
}

/* What the library makes of x, as late as a core's output. */
static float *wanted(const char *model, float floor_db, float strength, const float *x, size_t n) {
    struct primeknet *p = primeknet_open(model, "cpu", 1, DELAY, NULL);
    ck_assert_ptr_nonnull(p);
    const unsigned hop = primeknet_hop(p), later = DELAY - primeknet_delay(p);
    float *y = get(n + later, sizeof *y);
    primeknet_control(p, 0, strength, floor_db, strength > 0 ? 70 : 0);
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

/* small keeps its hop of 512, base is a network with one of 256. */
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

static const double rates[] = {8000, 16000, 22050, 44100, 48000, 88200, 96000, 192000};
enum { N_RATES = sizeof rates / sizeof *rates };

/* A wave packet of 500 Hz: strength 0 gives it back, later. */
static void packet(float *x, size_t n, double at, double rate) {
    for (size_t i = 0; i < n; i++) {
        const double t = ((double)i - at) / rate;
        x[i] = (float)(.5 * cos(2 * M_PI * 500 * t) * exp(-t * t / (2 * .004 * .004)));
    }
}

START_TEST(delay_is_as_reported) {
    struct core_controls controls = plain;
    controls.strength = controls.low_cut_hz = 0;
    struct core *c = open_core(1, rates[_i], &controls);
    const size_t n = (size_t)rates[_i];
    float *x[2] = {get(n, sizeof **x), get(1, sizeof **x)}, *due = get(n, sizeof *due);
    packet(x[0], n, (double)n / 3, rates[_i]);
    packet(due, n, (double)n / 3 + core_delay(c), rates[_i]);
    for (size_t i = 0, now; i < n; i += now) {
        now = draw(1500) < n - i ? draw(1500) : 1;
        now = now < n - i ? now : n - i;
        core_run(c, &controls, &(const float *){x[0] + i}, &(float *){x[0] + i}, (unsigned)now);
    }
    double error = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        error += pow((double)(x[0][i] - due[i]), 2);
        all += pow((double)due[i], 2);
    }
    /* 500 Hz that is t late differs by 2 pi 500 t: half a sample's time is allowed. */
    ck_assert_msg(sqrt(error / all) < 2 * M_PI * 500 * .6 / rates[_i] + .002, "at %g Hz: %g of the signal is wrong",
                  rates[_i],
                  sqrt(error / all));
    free(x[0]);
    free(x[1]);
    free(due);
    core_close(c);
}
END_TEST

START_TEST(bypass_is_the_input_later) {
    struct core_controls controls = plain;
    controls.bypass = true;
    struct core *c = open_core(2, rates[_i], &controls);
    float *x[2] = {noise(N), noise(N)}, *y[2] = {get(N, sizeof **y), get(N, sizeof **y)};
    for (unsigned i = 0; i < 2; i++)
        memcpy(y[i], x[i], N * sizeof **y);
    run_core(c, &controls, y, N, 3000);
    for (unsigned i = 0; i < 2; i++)
        for (size_t k = 0; k < N; k++)
            ck_assert(y[i][k] == (k < core_delay(c) ? 0 : x[i][k - core_delay(c)]));
    for (unsigned i = 0; i < 2; i++) {
        free(x[i]);
        free(y[i]);
    }
    core_close(c);
}
END_TEST

START_TEST(bypass_comes_and_goes_without_a_click) {
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

/* The models that are installed, and those of two hops in either direction. */
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

START_TEST(the_delay_is_every_models) {
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

/* A core opened with one model and run with another gives what small gives. */
static void small_sounds(int opened, int run) {
    struct core_controls controls = plain;
    controls.model = (float)opened;
    struct core *c = open_core(1, 48000, &controls);
    float *x = noise(N), *y = wanted("small", -INFINITY, 1, x, N);
    controls.model = (float)run;
    core_run(c, &controls, &(const float *){x}, &x, N);
    for (size_t k = 0; k < N; k++)
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

START_TEST(another_model_takes_the_place_of_one_that_is_missing) {
    take_small_alone();
    small_sounds(_i, _i);
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
    ck_assert_ptr_null(core_open(1, 1e9));
}
END_TEST

START_TEST(without_a_model_the_input_passes) {
    setenv("PRIMEKNET_MODELS", "/nowhere", 1);
    struct core *c = open_core(1, 48000, &plain);
    float *x = noise(N), *y = get(N, sizeof *y);
    core_run(c, &plain, &(const float *){x}, &y, N);
    for (size_t k = 0; k < N; k++)
        ck_assert(y[k] == (k < DELAY ? 0 : x[k - DELAY]));
    free(x);
    free(y);
    core_close(c);
}
END_TEST

int main(void) {
    draw_seed = seed_of_run(20261124);
    Suite *suite = suite_create("plugins");
    TCase *t = tcase_create("plugins");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, output_is_the_librarys, 0, 24);
    tcase_add_loop_test(t, delay_is_as_reported, 0, N_RATES);
    tcase_add_loop_test(t, bypass_is_the_input_later, 0, N_RATES);
    tcase_add_test(t, bypass_comes_and_goes_without_a_click);
    tcase_add_loop_test(t, a_new_model_takes_over_while_sound_runs, 0, 3);
    tcase_add_test(t, the_delay_is_every_models);
    tcase_add_test(t, the_first_block_may_bring_the_model);
    tcase_add_test(t, a_block_within_the_first_hop_waits_for_nothing);
    tcase_add_loop_test(t, another_model_takes_the_place_of_one_that_is_missing, 0, 4);
    tcase_add_test(t, controls_may_be_anything);
    tcase_add_test(t, without_a_model_the_input_passes);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
