/* The network against PyTorch, block by block and as a whole, in four geometries; training/fixtures.py makes the
 * fixtures. */
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "net/net.h"
#include "tests/support/run.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"wide", "narrow", "long-hop", "low-delay", "mamba2", "gru", "lstm"};
static const char *const stages[] = {"mamba-16",  "mamba2-16", "gru-16",  "lstm-16",   "mamba-64",
                                     "mamba2-64", "gru-64",    "lstm-64", "mamba2-192"};
enum {
    N_NAMES = sizeof names / sizeof *names,
    N_STAGES = sizeof stages / sizeof *stages,
    LEAST_DB = 90,
    LEAST_INT16_DB = 80,
    LEAST_BF16_DB = 40,
    MOST_KERNELS = 8
};

static struct model *load(const char *name) {
    char path[512];
    struct err err;
    struct model *m;
    snprintf(path, sizeof path, FIXTURES "/%s.safetensors", name);
    ck_assert_msg(model_load(&m, path, &err) == 0, "%s", err.text);
    return m;
}

static float *read_floats(const char *name, const char *kind, size_t *n) {
    char path[512];
    snprintf(path, sizeof path, FIXTURES "/%s.%s", name, kind);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f, "%s", path);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f) / 4;
    rewind(f);
    unsigned char *bytes = malloc(4 * *n);
    float *to = malloc(*n * sizeof *to);
    ck_assert(bytes && to && fread(bytes, 4, *n, f) == *n);
    for (size_t i = 0; i < *n; i++) {
        union {
            uint32_t bits;
            float value;
        } u = {(uint32_t)bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8 | (uint32_t)bytes[4 * i + 2] << 16 |
               (uint32_t)bytes[4 * i + 3] << 24};
        to[i] = u.value;
    }
    free(bytes);
    fclose(f);
    return to;
}

/* Signal and error, summed over pieces. */
struct snr {
    double signal, error;
};

static void snr_add(struct snr *s, const float *is, const float *should, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double d = (double)is[i] - should[i];
        s->signal += (double)should[i] * should[i];
        s->error += d * d;
    }
}

static void snr_check(const struct snr *s, const struct kernels *k, const char *name, const char *what) {
    double db = 10 * log10(s->signal / s->error);
    const int least = !k->linear_pairs ? LEAST_DB : k->bf16 ? LEAST_BF16_DB : LEAST_INT16_DB;
    printf("%s, %s: %.1f dB\n", name, what, db);
    ck_assert_msg(s->signal > 0 && db >= least, "%s: %s, %s: %.1f dB", k->name, name, what, db);
}

/* Each block alone, with PyTorch's input, against PyTorch's output. */
static void check_blocks(const char *name, const struct kernels *kernels) {
    struct model *m = load(name);
    const struct model_config *g = model_config(m);
    const size_t p = g->n_positions, full = p * g->channels, half = (size_t)g->n_half * g->channels;
    size_t n;
    float *maps = read_floats(name, "blocks", &n);
    const size_t frame = 3 * p + 2 * full + half * (1 + 2 * g->n_blocks) + p + 2 * p;
    ck_assert_uint_eq(n % frame, 0);

    struct net *net;
    struct net_state s;
    ck_assert_int_eq(net_new(&net, m, kernels), 0);
    ck_assert_int_eq(net_state_init(net, &s), 0);
    float *y = malloc(full * sizeof *y);
    ck_assert_ptr_nonnull(y);
    struct snr embed = {0}, encode = {0}, down = {0}, time[16] = {0}, freq[16] = {0}, mask = {0}, phase = {0};
    for (const float *x = maps; x < maps + n; net_step(&s)) {
        net_stage(net, &s, STAGE_EMBED, 0, x, y);
        snr_add(&embed, y, x += 3 * p, full);
        net_stage(net, &s, STAGE_ENCODER, 0, x, y);
        snr_add(&encode, y, x += full, full);
        net_stage(net, &s, STAGE_DOWN, 0, x, y);
        snr_add(&down, y, x += full, half);
        for (unsigned b = 0; b < g->n_blocks; b++) {
            net_stage(net, &s, STAGE_TIME, b, x, y);
            snr_add(&time[b], y, x += half, half);
            net_stage(net, &s, STAGE_FREQ, b, x, y);
            snr_add(&freq[b], y, x += half, half);
        }
        net_stage(net, &s, STAGE_MASK, 0, x, y);
        for (unsigned i = 0; i < p; i++)
            y[i] = g->mask_ceiling / (1 + expf(-model_weights(m)->mask_slope[i] * y[i]));
        snr_add(&mask, y, x + half, p);
        net_stage(net, &s, STAGE_PHASE, 0, x, y);
        snr_add(&phase, y, x + half + p, 2 * p);
        x += half + p + 2 * p;
    }
    printf("kernels: %s\n", kernels->name);
    snr_check(&embed, kernels, name, "embed");
    snr_check(&encode, kernels, name, "encoder");
    snr_check(&down, kernels, name, "down");
    for (unsigned b = 0; b < g->n_blocks; b++) {
        snr_check(&time[b], kernels, name, "time stage");
        snr_check(&freq[b], kernels, name, "frequency stage");
    }
    snr_check(&mask, kernels, name, "mask decoder");
    snr_check(&phase, kernels, name, "phase decoder");
    free(y);
    free(maps);
    net_state_done(&s);
    net_free(net);
    model_free(m);
}

/* The time stage alone: checks the largest error of any value. */
static void check_stage(const char *name, const struct kernels *kernels) {
    struct model *m = load(name);
    const size_t map = (size_t)model_config(m)->n_half * model_config(m)->channels;
    size_t n;
    float *maps = read_floats(name, "time", &n), *y = malloc(map * sizeof *y), worst = 0, most = 0;
    struct net *net;
    struct net_state s;
    ck_assert_ptr_nonnull(y);
    ck_assert(n && n % (2 * map) == 0);
    ck_assert_int_eq(net_new(&net, m, kernels), 0);
    ck_assert_int_eq(net_state_init(net, &s), 0);
    for (const float *x = maps; x < maps + n; x += 2 * map, net_step(&s)) {
        net_stage(net, &s, STAGE_TIME, 0, x, y);
        for (size_t i = 0; i < map; i++) {
            worst = fmaxf(worst, fabsf(y[i] - x[map + i]));
            most = fmaxf(most, fabsf(x[map + i]));
        }
    }
    printf("%s, %s: error %.2g of at most %.2g\n", name, kernels->name, (double)worst, (double)most);
    ck_assert_msg(worst < 1e-5f, "%s, %s: error %g", name, kernels->name, (double)worst);
    free(y);
    free(maps);
    net_state_done(&s);
    net_free(net);
    model_free(m);
}

START_TEST(time_stages_match_pytorch) {
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++) {
        const struct kernels in_float = kernels_in_float(k); /* as the bar is */
        check_stage(stages[_i], &in_float);
    }
    check_stage(stages[_i], &kernels_reference);
}
END_TEST

START_TEST(blocks_match_pytorch) {
    const struct kernels *kernels = kernels_nth((unsigned)_i / N_NAMES);
    if (!kernels)
        return;
    const struct kernels in_float = kernels_in_float(kernels);
    check_blocks(names[_i % N_NAMES], kernels);
    check_blocks(names[_i % N_NAMES], &in_float);
}
END_TEST

START_TEST(reference_blocks_match_pytorch) {
    check_blocks(names[_i], &kernels_reference);
}
END_TEST

/* The formula of training/fixtures.py. */
static void make_signal(float *x, size_t n) {
    static const int levels[] = {0, 1, 16, 4};
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = 1664525 * state + 1013904223;
        x[i] = (float)(((int)(state >> 16) - 32768) * levels[i / 4000 % 4]) / 0x1p20f;
    }
}

/* Runs the model of this fixture, with this print unless it is NULL, over the signal of n hops. Returns its output,
 * without the delay. */
static float *run_whole(const char *name, const float *print, const struct kernels *kernels, size_t *n_out) {
    struct model *m = load(name);
    struct engine *e;
    struct err err;
    struct engine_options options = {
        .name = "cpu", .isa = kernels->name, .exact = !kernels->linear_pairs, .n_streams = 1, .max_hops = 1};
    if (print)
        ck_assert_msg(model_keep_voice(m, "voice", print, model_config(m)->voice_size, &err) == 0, "%s", err.text);
    ck_assert_msg(engine_open(&e, &options, m, &err) == 0, "%s", err.text);
    size_t n_should;
    float *should = read_floats(name, "output", &n_should);
    unsigned n_hops = (unsigned)((n_should + engine_delay(e)) / engine_hop(e));
    size_t n = (size_t)n_hops * engine_hop(e);
    float *x = malloc(n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    ck_assert_uint_eq(n_should, n - engine_delay(e));
    make_signal(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] != 0 ? x[i] : 1e-12f; /* the network would not hear digital silence */
    struct engine_job job = {0, n_hops, x, x};
    ck_assert_int_eq(engine_process(e, &job, 1), 0);
    memmove(x, x + engine_delay(e), n_should * sizeof *x);
    free(should);
    engine_close(e);
    model_free(m);
    *n_out = n_should;
    return x;
}

static void check_whole(const char *name, const float *print, const struct kernels *kernels) {
    size_t n, n_should;
    float *is = run_whole(name, print, kernels, &n), *should = read_floats(name, "output", &n_should);
    struct snr s = {0};
    snr_add(&s, is, should, n_should);
    snr_check(&s, kernels, name, print ? "whole, of one voice" : "whole");
    free(is);
    free(should);
}

START_TEST(whole_network_matches_pytorch) {
    const struct kernels *kernels = kernels_nth((unsigned)_i / N_NAMES);
    if (!kernels)
        return;
    const struct kernels in_float = kernels_in_float(kernels);
    check_whole(names[_i % N_NAMES], NULL, kernels);
    check_whole(names[_i % N_NAMES], NULL, &in_float);
}
END_TEST

/* A print changes the output as in PyTorch; a print of zeros changes no bit. */
START_TEST(a_voice_is_kept_as_by_pytorch) {
    const struct kernels *kernels = kernels_nth((unsigned)_i);
    if (!kernels)
        return;
    const struct kernels in_float = kernels_in_float(kernels);
    const float zeros[20] = {0};
    size_t n;
    float *print = read_floats("my-voice", "voice", &n);
    ck_assert_uint_eq(n, 20);
    check_whole("my-voice", print, kernels);
    check_whole("my-voice", print, &in_float);
    float *plain = run_whole("my-voice", NULL, kernels, &n), *zero = run_whole("my-voice", zeros, kernels, &n),
          *kept = run_whole("my-voice", print, kernels, &n);
    ck_assert_mem_eq(zero, plain, n * sizeof *zero);
    struct snr s = {0};
    snr_add(&s, kept, plain, n);
    ck_assert_double_gt(s.error, s.signal / 100);
    free(print);
    free(plain);
    free(zero);
    free(kept);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("net");
    TCase *t = tcase_create("net");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, blocks_match_pytorch, 0, MOST_KERNELS * N_NAMES);
    tcase_add_loop_test(t, reference_blocks_match_pytorch, 0, N_NAMES);
    tcase_add_loop_test(t, time_stages_match_pytorch, 0, N_STAGES);
    tcase_add_loop_test(t, whole_network_matches_pytorch, 0, MOST_KERNELS * N_NAMES);
    tcase_add_loop_test(t, a_voice_is_kept_as_by_pytorch, 0, MOST_KERNELS);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
