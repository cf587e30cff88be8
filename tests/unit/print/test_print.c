/* Voice prints against PyTorch (training/fixtures.py makes the fixtures), which windows count, and files that are
 * wrong. */
#include "kernels/kernels.h"
#include "print/encoder.h"
#include "print/features.h"
#include "print/print.h"
#include "tests/support/model_file.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"voice", "voice-half"};
enum { N_NAMES = sizeof names / sizeof *names, N_SOUND = 32000, STEPS = 8000, MAX_SIZE = 32 };

/* The parts of the signal of which the fixtures have prints, as in training/fixtures.py. In whole segments of 4000
 * samples the signal is silent, quiet, loud and less loud. */
static const struct {
    size_t first, n;
} prints[] = {{8000, 800}, {8000, 2400}, {8000, 2401}, {8000, 3001}, {0, 16000}, {6000, 5000}, {10000, 21234}};
enum { N_PRINTS = sizeof prints / sizeof *prints };

static float sound[N_SOUND];

static void make_sound(void) {
    static const int levels[] = {0, 1, 16, 4};
    uint32_t state = 1;
    for (size_t i = 0; i < N_SOUND; i++) {
        state = 1664525 * state + 1013904223;
        sound[i] = (float)(((int)(state >> 16) - 32768) * levels[i / 4000 % 4]) / 0x1p20f;
    }
}

static void begin(void) {
    make_sound();
    read_original(FIXTURES "/voice.safetensors");
}

static struct voice_print *open_fixture(const char *name, const struct kernels *k) {
    char file[512];
    struct err err;
    struct voice_print *p;
    snprintf(file, sizeof file, FIXTURES "/%s.safetensors", name);
    ck_assert_msg(voice_print_open(&p, file, k, &err) == 0, "%s", err.text);
    return p;
}

static float *read_floats(const char *name, const char *kind, size_t n) {
    char file[512];
    snprintf(file, sizeof file, FIXTURES "/%s.%s", name, kind);
    FILE *f = fopen(file, "rb");
    float *to = malloc(n * sizeof *to);
    ck_assert(f && to);
    for (size_t i = 0; i < n; i++) {
        unsigned char b[4];
        ck_assert_uint_eq(fread(b, 1, 4, f), 4);
        const uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&to[i], &bits, sizeof bits);
    }
    ck_assert_int_eq(fgetc(f), EOF);
    fclose(f);
    return to;
}

static float largest_error(const float *is, const float *should, size_t n) {
    float worst = 0;
    for (size_t i = 0; i < n; i++) {
        ck_assert(isfinite(is[i]));
        worst = fmaxf(worst, fabsf(is[i] - should[i]));
    }
    return worst;
}

static double rms(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* ---- against PyTorch ---- */

static void check_steps(const char *name, const struct kernels *k) {
    char file[512];
    struct err err;
    struct encoder e;
    struct features f;
    struct pool pool = {0};
    snprintf(file, sizeof file, FIXTURES "/%s.safetensors", name);
    ck_assert_msg(encoder_read(&e, file, &err) == 0, "%s", err.text);
    features_init(&f, &e, k, &pool);
    ck_assert(pool_ok(&pool));
    const size_t n = (size_t)features_n_steps(&e.config, e.config.span) * e.config.stack * e.config.n_bands;
    float *should = read_floats(name, "steps", n), *is = malloc(n * sizeof *is);
    ck_assert_ptr_nonnull(is);
    features_compute(&f, sound + STEPS, e.config.span, (float)(1 / rms(sound + STEPS, e.config.span)), is);
    const float worst = largest_error(is, should, n);
    printf("%s, %s: steps: error %.2g\n", name, k->name, (double)worst);
    ck_assert(worst < 1e-4f);
    free(is);
    free(should);
    pool_done(&pool);
    encoder_done(&e);
}

static void check_prints(const char *name, const struct kernels *k) {
    struct voice_print *p = open_fixture(name, k);
    const unsigned size = voice_print_size(p);
    float *should = read_floats(name, "prints", (size_t)N_PRINTS * size), worst = 0;
    for (unsigned i = 0; i < N_PRINTS; i++) {
        float is[MAX_SIZE];
        ck_assert_int_eq(voice_print_compute(p, sound + prints[i].first, prints[i].n, is), 0);
        ck_assert_float_eq_tol(voice_print_similarity(is, is, size), 1, 1e-6f);
        worst = fmaxf(worst, largest_error(is, should + (size_t)i * size, size));
    }
    printf("%s, %s: prints: error %.2g\n", name, k->name, (double)worst);
    ck_assert(worst < 2e-5f);
    free(should);
    voice_print_close(p);
}

START_TEST(agrees_with_pytorch) {
    const struct kernels *k = &kernels_reference;
    for (unsigned i = 0; k; k = kernels_nth(i++)) {
        check_steps(names[_i], k);
        check_prints(names[_i], k);
    }
}
END_TEST

/* ---- the sound ---- */

START_TEST(tells_what_it_opened) {
    struct voice_print *p = open_fixture("voice", &kernels_reference);
    ck_assert_str_eq(voice_print_name(p), "voice");
    ck_assert(voice_print_rate(p) == 8000 && voice_print_size(p) == 20);
    voice_print_close(p);
    voice_print_close(NULL);
}
END_TEST

START_TEST(refuses_too_little) {
    struct voice_print *p = open_fixture("voice", kernels_nth(0));
    float print[MAX_SIZE] = {7};
    ck_assert_int_eq(voice_print_compute(p, sound + 8000, 0, print), -ENODATA);
    ck_assert_int_eq(voice_print_compute(p, sound + 8000, 799, print), -ENODATA);
    ck_assert_int_eq(voice_print_compute(p, sound, 4000, print), -ENOMSG);
    ck_assert_float_eq(print[0], 7);
    ck_assert_int_eq(voice_print_compute(p, sound + 4000, 4000, print), 0); /* quiet, but nothing is louder */
    voice_print_close(p);
    p = open_fixture("voice-half", kernels_nth(0)); /* silence up to a higher level */
    ck_assert_int_eq(voice_print_compute(p, sound + 4000, 4000, print), -ENOMSG);
    ck_assert_int_eq(voice_print_compute(p, sound + 8000, 152, print), 0);
    voice_print_close(p);
}
END_TEST

/* The print is that of the windows that count: those with more than a tenth of the loudest one's level. */
START_TEST(quiet_windows_do_not_count) {
    enum { SPAN = 2400, STEP = 1200, N_WINDOWS = 3, N = SPAN + (N_WINDOWS - 1) * STEP };
    struct voice_print *p = open_fixture("voice", kernels_nth(0));
    for (unsigned counts = 0; counts < 2; counts++) {
        float x[N], sum[MAX_SIZE] = {0}, is[MAX_SIZE];
        const double gain = (counts ? .1001 : .0999) * rms(sound + 8000, SPAN) / rms(sound + 13000, SPAN);
        memcpy(x, sound + 8000, SPAN * sizeof *x);
        for (unsigned i = 0; i < SPAN; i++)
            x[SPAN + i] = (float)(sound[13000 + i] * gain);
        for (unsigned w = 0; w < N_WINDOWS - 1 + counts; w++) {
            ck_assert_int_eq(voice_print_compute(p, x + w * STEP, SPAN, is), 0);
            for (unsigned i = 0; i < 20; i++)
                sum[i] += is[i];
        }
        const float length = sqrtf(voice_print_similarity(sum, sum, 20));
        for (unsigned i = 0; i < 20; i++)
            sum[i] /= length;
        ck_assert_int_eq(voice_print_compute(p, x, N, is), 0);
        ck_assert(largest_error(is, sum, 20) < 1e-6f);
    }
    voice_print_close(p);
}
END_TEST

START_TEST(level_does_not_matter) {
    struct voice_print *p = open_fixture("voice", kernels_nth(0));
    static const float gains[] = {1e-3f, -1, 100, 1e36f, FLT_MAX};
    float x[6000], should[MAX_SIZE], is[MAX_SIZE];
    ck_assert_int_eq(voice_print_compute(p, sound + 8000, 6000, should), 0);
    for (unsigned g = 0; g < sizeof gains / sizeof *gains; g++) {
        for (unsigned i = 0; i < 6000; i++)
            x[i] = sound[8000 + i] * gains[g];
        ck_assert_int_eq(voice_print_compute(p, x, 6000, is), 0);
        ck_assert_msg(largest_error(is, should, 20) < 2e-5f, "gain %g", (double)gains[g]);
    }
    voice_print_close(p);
}
END_TEST

START_TEST(numbers_that_are_not_finite_count_as_silence) {
    struct voice_print *p = open_fixture("voice", kernels_nth(0));
    float x[6000], should[MAX_SIZE], is[MAX_SIZE];
    memcpy(x, sound + 8000, sizeof x);
    x[0] = x[2000] = x[2001] = x[5999] = 0;
    ck_assert_int_eq(voice_print_compute(p, x, 6000, should), 0);
    x[0] = x[2001] = NAN;
    x[2000] = INFINITY;
    x[5999] = -INFINITY;
    ck_assert_int_eq(voice_print_compute(p, x, 6000, is), 0);
    ck_assert_mem_eq(is, should, 20 * sizeof *is);
    for (unsigned i = 0; i < 6000; i++)
        x[i] = NAN;
    ck_assert_int_eq(voice_print_compute(p, x, 6000, is), -ENOMSG);
    voice_print_close(p);
}
END_TEST

START_TEST(compares_prints) {
    static const float a[] = {.6f, .8f, 0}, b[] = {-.6f, -.8f, 0}, c[] = {.8f, -.6f, 0}, d[] = {0, .6f, .8f};
    ck_assert_float_eq_tol(voice_print_similarity(a, a, 3), 1, 1e-6f);
    ck_assert_float_eq_tol(voice_print_similarity(a, b, 3), -1, 1e-6f);
    ck_assert_float_eq_tol(voice_print_similarity(a, c, 3), 0, 1e-6f);
    ck_assert_float_eq_tol(voice_print_similarity(a, d, 3), .48f, 1e-6f);
}
END_TEST

/* ---- the file ---- */

/* Opens the changed file. Checks that any failure gives a line that begins with the path. */
static int try_open(struct voice_print **ret, struct err *err) {
    *err = (struct err){0};
    *ret = NULL;
    const int code = voice_print_open(ret, path, kernels_nth(0), err);
    if (code) {
        ck_assert(code < 0 && !*ret);
        ck_assert_msg(!strncmp(err->text, path, strlen(path)), "%s", err->text);
    }
    return code;
}

static void check_refused(const char *words) {
    struct voice_print *p;
    struct err err;
    ck_assert_msg(try_open(&p, &err) < 0, "taken, though: %s", words);
    ck_assert_msg(strstr(err.text, words), "says: %s; should say: %s", err.text, words);
}

static const struct {
    const char *key, *value, *words;
} metadata[] = {
    {"format", "primeknet-1", "metadata 'format': this version only reads 'primeknet-voice-1'"},
    {"name", NULL, "metadata 'name': missing"},
    {"rate", "7999", "metadata 'rate': not a whole number from 8000 to 48000"},
    {"window", "42", "metadata 'window': not an even product of 2, 3 and 5"},
    {"window", "45", "metadata 'window': not an even product of 2, 3 and 5"},
    {"window", "2160", "metadata 'window': not a whole number from 32 to 2048"},
    {"window", "48", "tensor 'window': shape is not [48]"},
    {"hop", "41", "metadata 'hop': not a whole number from 16 to 40"},
    {"bands", "129", "metadata 'bands'"},
    {"bands", "6", "tensor 'bands': shape is not [6, 21]"},
    {"stack", "0", "metadata 'stack'"},
    {"stack", "3", "tensor 'in.weight': shape is not [16, 15]"},
    {"floor", "0", "metadata 'floor'"},
    {"channels", "24", "metadata 'channels': not a multiple of 16"},
    {"channels", "272", "metadata 'channels'"},
    {"layers", "1", "tensor 'gru.1.in.weight': is not part of"},
    {"layers", "3", "tensor 'gru.2.in.weight': missing"},
    {"layers", "5", "metadata 'layers'"},
    {"size", "1025", "metadata 'size'"},
    {"size", "21", "tensor 'out.weight': shape is not [21, 16]"},
    {"span", "59", "metadata 'span': not a whole number from 60 to 81920"},
    {"span", "81921", "metadata 'span'"},
    {"span", "1e3", "metadata 'span'"},
    {"span", "100", "metadata 'step': not a whole number from 20 to 100"},
    {"step", "19", "metadata 'step'"},
    {"least", "59", "metadata 'least': not a whole number from 60 to 2400"},
    {"least", "2401", "metadata 'least'"},
    {"silence", "0", "metadata 'silence'"},
    {"silence", "NaN", "metadata 'silence'"},
    {"quiet", "1", "metadata 'quiet': not a number from 0 to 0.9"},
};

START_TEST(metadata_is_checked) {
    write_metadata(metadata[_i].key, metadata[_i].value);
    check_refused(metadata[_i].words);
}
END_TEST

START_TEST(tensors_are_checked) {
    size_t n;
    json_t *h = header(&n);
    json_object_del(h, "in.prelu");
    write_header(h, n);
    check_refused("tensor 'in.prelu': missing");
    h = header(&n);
    json_object_set(h, "mask.slope", json_object_get(h, "window"));
    write_header(h, n);
    check_refused("tensor 'mask.slope': is not part of");
    poke("pool.bias", 0, NAN);
    check_refused("tensor 'pool.bias': holds a value that is not finite");
    poke("out.weight", 20, -2e6f);
    check_refused("tensor 'out.weight': holds a value whose magnitude is above 1e6");
    poke("bands", 30, -.1f);
    check_refused("tensor 'bands': holds a negative value");
    write_file(original, n_original - 1);
    check_refused("data_offsets lie outside the file");
    write_file("", 0);
    check_refused("too short to be a model");
}
END_TEST

/* The largest weights, of either sign, give finite prints. */
START_TEST(large_weights_do_not_overflow) {
    static const char *const tensors[] = {"window",           "bands",       "in.weight", "in.prelu", "gru.0.in.weight",
                                          "gru.1.state.bias", "pool.weight", "out.weight"};
    for (unsigned i = 0; i < sizeof tensors / sizeof *tensors; i++)
        for (float sign = strcmp(tensors[i], "bands") ? -1 : 1; sign <= 1; sign += 2) {
            struct voice_print *p;
            struct err err;
            float print[MAX_SIZE];
            poke(tensors[i], 10, sign * 1e6f);
            ck_assert_msg(try_open(&p, &err) == 0, "%s", err.text);
            ck_assert_int_eq(voice_print_compute(p, sound + 8000, 8000, print), 0);
            ck_assert_float_eq_tol(voice_print_similarity(print, print, 20), 1, 1e-6f);
            voice_print_close(p);
        }
}
END_TEST

/* Files with flipped bits are refused, or give prints or errors, nothing else. */
START_TEST(flipped_bits_are_harmless) {
    size_t n_header;
    json_decref(header(&n_header));
    uint32_t seed = seed_of_run(4711);
    unsigned char *bytes = malloc(n_original);
    ck_assert_ptr_nonnull(bytes);
    for (unsigned round = 0; round < 600; round++) {
        memcpy(bytes, original, n_original);
        for (unsigned flips = 1 + round % 3; flips > 0; flips--) {
            seed = seed * 1664525 + 1013904223;
            const size_t at = (seed >> 8) % (round % 3 ? n_original : 8 + n_header);
            seed = seed * 1664525 + 1013904223;
            bytes[at] ^= (unsigned char)(1 << (seed >> 29));
        }
        write_file(bytes, n_original);
        struct voice_print *p;
        struct err err;
        float print[MAX_SIZE];
        if (try_open(&p, &err) == 0) {
            ck_assert_uint_eq(voice_print_size(p), 20);
            const int code = voice_print_compute(p, sound + 8000, 3000, print);
            ck_assert(code == 0 || code == -ENODATA || code == -ENOMSG);
            for (unsigned i = 0; i < 20 && code == 0; i++)
                ck_assert(isfinite(print[i]));
        }
        voice_print_close(p);
    }
    free(bytes);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("print");
    TCase *t = tcase_create("print");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, begin, remove_file);
    tcase_add_loop_test(t, agrees_with_pytorch, 0, N_NAMES);
    tcase_add_test(t, tells_what_it_opened);
    tcase_add_test(t, refuses_too_little);
    tcase_add_test(t, quiet_windows_do_not_count);
    tcase_add_test(t, level_does_not_matter);
    tcase_add_test(t, numbers_that_are_not_finite_count_as_silence);
    tcase_add_test(t, compares_prints);
    tcase_add_loop_test(t, metadata_is_checked, 0, (int)(sizeof metadata / sizeof *metadata));
    tcase_add_test(t, tensors_are_checked);
    tcase_add_test(t, large_weights_do_not_overflow);
    tcase_add_test(t, flipped_bits_are_harmless);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
