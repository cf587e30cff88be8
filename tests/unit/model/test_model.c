/* The reader of model files: valid files are read completely, invalid ones are rejected with a line that names the file
 * and the place, and no bytes cause undefined behaviour (build with sanitizers to check that). */
#include "model/model.h"
#include "tests/support/model_file.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Loads the file. Checks that any failure gives a line that begins with the path, and leaves `ret` unchanged. */
static int try_load(struct err *err) {
    struct model *untouched = (struct model *)&path, *m = untouched;
    *err = (struct err){0};
    int code = model_load(&m, path, err);
    if (code == 0) {
        model_free(m);
        return 0;
    }
    ck_assert_int_lt(code, 0);
    ck_assert_ptr_eq(m, untouched);
    ck_assert_msg(!strncmp(err->text, path, strlen(path)), "%s", err->text);
    ck_assert_ptr_null(strchr(err->text, '\n'));
    return code;
}

static void check_refused(const char *words) {
    struct err err;
    ck_assert_msg(try_load(&err) < 0, "taken, though: %s", words);
    ck_assert_msg(strstr(err.text, words), "says: %s; should say: %s", err.text, words);
}

static void read_narrow(void) {
    read_original(FIXTURES "/narrow.safetensors");
}

START_TEST(reads_valid_files) {
    struct err err;
    struct model *m;
    ck_assert_msg(model_load(&m, FIXTURES "/wide.safetensors", &err) == 0, "%s", err.text);
    const struct model_config *g = model_config(m);
    ck_assert_str_eq(model_name(m), "wide");
    ck_assert(model_rate(m) == 48000 && model_hop(m) == 256 && model_delay(m) == 768);
    ck_assert(g->window == 1024 && g->n_bins == 513 && g->n_linear == 171 && g->n_bands == 30 && g->n_positions == 201);
    ck_assert(g->n_half == 100 && g->channels == 16 && g->d_inner == 32 && g->n_kernels == 4 && g->kernels[3] == 31);
    ck_assert(isinf(g->band_gain_maximum) && g->mask_ceiling == 2);
    ck_assert_float_eq_tol(model_weights(m)->analysis_window[512], 1, 1e-6);
    model_free(m);
    model_free(NULL);
}
END_TEST

/* Only a print of the right encoder and size is folded in, and only into a model that takes one. */
START_TEST(keeps_a_voice_of_its_own_encoder) {
    float print[20] = {1};
    struct err err;
    struct model *m;
    ck_assert_int_eq(model_load(&m, FIXTURES "/my-voice.safetensors", &err), 0);
    ck_assert_uint_eq(model_config(m)->voice_size, 20);
    const struct time_weights *t = &model_weights(m)->blocks[1].time[0];
    const float before = t->in.weight[5], scale = t->voice.weight[(size_t)5 * 20];
    ck_assert_int_eq(model_keep_voice(m, "another", print, 20, &err), -EINVAL);
    ck_assert_str_eq(err.text, "model my-voice takes prints by voice, not by another");
    ck_assert_int_eq(model_keep_voice(m, "voice", print, 19, &err), -EINVAL);
    ck_assert_str_eq(err.text, "model my-voice takes prints of 20 numbers, not of 19");
    ck_assert_float_eq(t->in.weight[5], before);
    ck_assert_int_eq(model_keep_voice(m, "voice", print, 20, &err), 0);
    ck_assert_float_eq_tol(t->in.weight[5], before * (1 + scale), 1e-6);
    model_free(m);
    ck_assert_int_eq(model_load(&m, FIXTURES "/narrow.safetensors", &err), 0);
    ck_assert_int_eq(model_keep_voice(m, "voice", print, 20, &err), -ENOTSUP);
    ck_assert_str_eq(err.text, "model narrow cannot tell voices apart");
    model_free(m);
}
END_TEST

static void read_my_voice(void) {
    read_original(FIXTURES "/my-voice.safetensors");
}

START_TEST(refuses_half_a_description_of_prints) {
    write_metadata("voice_encoder", NULL);
    check_refused("metadata 'voice_encoder': missing");
    write_metadata("voice_size", NULL);
    check_refused("metadata 'voice_size': missing");
    write_metadata("voice_size", "21");
    check_refused("tensor 'block.0.time.0.voice.weight'");
    write_metadata("voice_size", "2000");
    check_refused("metadata 'voice_size'");
}
END_TEST

static void read_mean(void) {
    read_original(FIXTURES "/mean.safetensors");
}

START_TEST(reads_all_networks) {
    struct err err;
    struct model *m;
    ck_assert_msg(model_load(&m, FIXTURES "/mean.safetensors", &err) == 0, "%s", err.text);
    static const enum model_mixer mixers[] = {MODEL_GRU, MODEL_LSTM, MODEL_MAMBA2};
    const struct model *network = m;
    for (unsigned i = 0; i < 3; i++, network = model_next(network)) {
        ck_assert_ptr_nonnull(network);
        ck_assert_str_eq(model_name(network), "mean");
        ck_assert_uint_eq(model_config(network)->mixer, mixers[i]);
        ck_assert_float_ne(model_weights(network)->embed.weight[0], 0);
    }
    ck_assert_ptr_null(network);
    model_free(m);
}
END_TEST

START_TEST(checks_all_networks) {
    write_metadata("networks", "5");
    check_refused("metadata 'networks': not a whole number from 1 to 4");
    write_metadata("networks", "4");
    check_refused("tensor '4.window.analysis': missing");
    write_metadata("networks", NULL);
    check_refused("is not part of the network");
    write_metadata("2.mixer", "rnn");
    check_refused("metadata '2.mixer': must be");
    write_metadata("3.d_state", "17");
    check_refused("metadata '3.d_state': not a multiple of 16");
    write_metadata("2.share", "2");
    check_refused("metadata '2.share': not a number from 0.001 to 1");
    write_metadata("2.rate", "16000");
    check_refused("network 2: rate, windows or hop are not those of the first one");
}
END_TEST

/* Half-precision storage gives the rounded values; all 65536 halves are converted correctly. */
START_TEST(reads_half_precision) {
    size_t n;
    json_t *h = header(&n), *entry = json_object_get(h, "encoder.3.taps"),
           *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0)), n_values = 9 * 64, cut = n_values * 2;
    json_object_set_new(entry, "dtype", json_string("F16"));
    const char *key;
    json_t *value;
    json_object_foreach(h, key, value) {
        json_t *o = json_object_get(value, "data_offsets");
        for (size_t i = 0; i < json_array_size(o); i++) {
            size_t at = (size_t)json_integer_value(json_array_get(o, i));
            if (at > begin)
                json_array_set_new(o, i, json_integer((json_int_t)(at - cut)));
        }
    }
    char *text = json_dumps(h, JSON_COMPACT);
    size_t n_data = n_original - 8 - n;
    unsigned char *data = malloc(n_data - cut), *from = original + 8 + n;
    ck_assert_ptr_nonnull(data);
    memcpy(data, from, begin);
    memcpy(data + begin + n_values * 2, from + begin + n_values * 4, n_data - begin - n_values * 4);
    for (unsigned first = 0; first < 0x10000; first += (unsigned)n_values) {
        for (unsigned i = 0; i < n_values; i++) {
            unsigned half = first + i;
            if (half >= 0x10000 || (half & 0x7c00) == 0x7c00)
                half = 0;
            data[begin + 2 * i] = (unsigned char)half;
            data[begin + 2 * i + 1] = (unsigned char)(half >> 8);
        }
        write_text(text, data, n_data - cut);
        struct model *m;
        struct err err;
        ck_assert_msg(model_load(&m, path, &err) == 0, "%s", err.text);
        const float *taps = model_weights(m)->encoder[3].taps;
        for (unsigned i = 0; i < n_values; i++) {
            unsigned half = data[begin + 2 * i] | (unsigned)data[begin + 2 * i + 1] << 8, exponent = half >> 10 & 31;
            double should = exponent ? ldexp(1024 + (half & 1023), (int)exponent - 25) : ldexp(half & 1023, -24);
            ck_assert_double_eq(taps[i], half >> 15 ? -should : should);
        }
        model_free(m);
    }
    data[begin] = 0;
    data[begin + 1] = 0x7c; /* infinity */
    write_text(text, data, n_data - cut);
    check_refused("'encoder.3.taps': holds a value that is not finite");
    free(data);
    free(text);
    json_decref(h);
}
END_TEST

START_TEST(truncations_are_refused) {
    size_t n_header, step;
    json_decref(header(&n_header));
    struct err err;
    for (size_t n = 0; n < n_original; n += step) {
        write_file(original, n);
        ck_assert_msg(try_load(&err) < 0, "taken at %zu bytes", n);
        /* each of the first bytes and around the end of the header, then strides */
        step = n < 64 || (n + 16 > 8 + n_header && n < 8 + n_header + 16) ? 1
               : n < 8 + n_header                                         ? (8 + n_header - n > 500 ? 487 : 1)
                                                                          : 9973;
    }
    for (size_t n = 1; n <= 8; n++) {
        write_file(original, n_original - n);
        check_refused("lie outside the file");
    }
}
END_TEST

/* Files with flipped bits in the header are accepted or refused, nothing else. */
START_TEST(flipped_bits_are_harmless) {
    size_t n_header;
    json_decref(header(&n_header));
    uint32_t seed = seed_of_run(12345);
    unsigned char *bytes = malloc(n_original);
    ck_assert_ptr_nonnull(bytes);
    for (unsigned round = 0; round < 1500; round++) {
        memcpy(bytes, original, n_original);
        for (unsigned flips = 1 + round % 3; flips > 0; flips--) {
            seed = seed * 1664525 + 1013904223;
            size_t at = round % 5 ? (seed >> 8) % (8 + n_header) : (seed >> 8) % n_original;
            seed = seed * 1664525 + 1013904223;
            bytes[at] ^= (unsigned char)(1 << (seed >> 29));
        }
        write_file(bytes, n_original);
        struct err err;
        try_load(&err);
    }
    free(bytes);
}
END_TEST

/* The error for one changed metadata value. */
static const struct {
    const char *key, *value, *words;
} metadata[] = {
    {"format", NULL, "metadata 'format': missing"},
    {"format", "primeknet-2", "metadata 'format': this version only reads"},
    {"licence", "", "metadata 'licence': empty"},
    {"name", "a\033[2Jb", "metadata 'name'"},
    {"rate", "0", "metadata 'rate': not a whole number from 8000"},
    {"rate", "16000.5", "metadata 'rate'"},
    {"rate", "\"16000\"", "metadata 'rate'"},
    {"rate", "16000 16000", "metadata 'rate'"},
    {"window", "402", "metadata 'window': not an even product of 2, 3 and 5"},
    {"window", "99999999999999999999", "metadata 'window'"},
    {"window", "512", "metadata 'linear_bins'|tensor"},
    {"synthesis", "800", "metadata 'synthesis'"},
    {"hop", "96", "metadata 'hop': does not divide"},
    {"hop", "201", "metadata 'hop'"},
    {"linear_bins", "200", "metadata 'band_edges'"},
    {"linear_bins", "1000", "metadata 'linear_bins'"},
    {"band_edges", "[201, 202]", "metadata 'band_edges'"},
    {"band_edges", "[1, 2, 3]", "metadata 'band_edges'"},
    {"band_edges", "7", "metadata 'band_edges': not a list"},
    {"scale", "-1", "metadata 'scale': not a number from"},
    {"scale", "NaN", "metadata 'scale': neither a number nor a list"},
    {"compression", "0", "metadata 'compression'"},
    {"mask_ceiling", "1e9", "metadata 'mask_ceiling'"},
    {"mask_minimum", "-1", "metadata 'mask_minimum'"},
    {"band_gain_maximum", "-1", "metadata 'band_gain_maximum'"},
    {"norm_epsilon", "0", "metadata 'norm_epsilon'"},
    {"channels", "24", "metadata 'channels': not a multiple of 16"},
    {"channels", "32", "tensor 'embed.weight': shape is not [32, 3]"},
    {"depth", "9", "metadata 'depth'"},
    {"depth", "3", "tensor 'encoder.3."},
    {"blocks", "3", "tensor 'block.2.time.0.gate.weight': missing"},
    {"blocks", "1", "is not part of the network"},
    {"mixer", "mamba3", "metadata 'mixer': must be 'mamba', 'mamba2', 'gru' or 'lstm'"},
    {"mixer", "mamba2", "metadata 'head': missing"},
    {"mixer", "gru", "tensor 'block.0.time.0.in.weight': shape is not [48, 16]"},
    {"mixer", "lstm", "tensor 'block.0.time.0.state.weight': missing"},
    {"kernels", "[]", "metadata 'kernels': empty"},
    {"kernels", "[4]", "metadata 'kernels': not odd"},
    {"kernels", "[11, 3]", "metadata 'kernels': the numbers are not in ascending order"},
    {"kernels", "[3, 11, 23, 29]", "shape is not [29, 16]"},
    {"d_state", "32", "shape is not"},
    {"d_conv", "1", "metadata 'd_conv'"},
    {"expand", "0", "metadata 'expand'"},
    {"step_rank", "2", "shape is not"},
};

START_TEST(metadata_is_checked) {
    write_metadata(metadata[_i].key, metadata[_i].value);
    char words[128];
    snprintf(words, sizeof words, "%s", metadata[_i].words);
    char *other = strchr(words, '|'); /* either will do */
    if (other)
        *other++ = 0;
    struct err err;
    ck_assert_int_lt(try_load(&err), 0);
    ck_assert_msg(strstr(err.text, words) || (other && strstr(err.text, other)), "says: %s; should say: %s", err.text,
                  metadata[_i].words);
}
END_TEST

/* JSON entries of one tensor, and their errors. */
static const struct {
    const char *name, *entry, *words;
} entries[] = {
    {"embed.bias", "7", "tensor 'embed.bias': missing"},
    {"embed.bias", "{}", "tensor 'embed.bias': dtype"},
    {"embed.bias", "{\"dtype\":\"BF16\",\"shape\":[16],\"data_offsets\":[0,32]}", "tensor 'embed.bias': dtype"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[0,64]}",
     "tensor 'embed.bias': shape is not [16]"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16.0],\"data_offsets\":[0,64]}", "tensor 'embed.bias': shape"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64,1]}", "tensor 'embed.bias': data_offsets"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[-64,0]}", "tensor 'embed.bias': data_offsets"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[64,0]}", "tensor 'embed.bias': data_offsets"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,9223372036854775807]}",
     "lie outside the file"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,60]}", "do not fit the shape"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64]}", "overlaps another|bytes before it"},
    {"embed.bias", "{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64],\"x\":1}", "has a field besides"},
    {"a\033[1m", "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
     "tensor 'a?[1m': is not part of the network"},
};

START_TEST(tensors_are_checked) {
    size_t n;
    json_t *h = header(&n);
    json_object_set_new(h, entries[_i].name, json_loads(entries[_i].entry, JSON_DECODE_ANY, NULL));
    write_header(h, n);
    char words[128];
    snprintf(words, sizeof words, "%s", entries[_i].words);
    char *other = strchr(words, '|');
    if (other)
        *other++ = 0;
    struct err err;
    ck_assert_int_lt(try_load(&err), 0);
    ck_assert_msg(strstr(err.text, words) || (other && strstr(err.text, other)), "says: %s; should say: %s", err.text,
                  entries[_i].words);
}
END_TEST

START_TEST(values_are_checked) {
    poke("mask.slope", 3, NAN);
    check_refused("tensor 'mask.slope': holds a value that is not finite");
    poke("mask.slope", 200, -INFINITY);
    check_refused("tensor 'mask.slope': holds a value that is not finite");
    poke("block.1.time.0.decay", 17, .5f);
    check_refused("tensor 'block.1.time.0.decay': holds a positive value");
    poke("window.synthesis", 100, .9f);
    check_refused("tensor 'window.synthesis': does not undo");
    poke("window.synthesis", 100, peek("window.synthesis", 100) + .001f); /* -60 dB of every hop */
    check_refused("tensor 'window.synthesis': does not undo");
    poke("window.synthesis", 100, peek("window.synthesis", 100));
    struct err err;
    ck_assert_msg(try_load(&err) == 0, "%s", err.text);
}
END_TEST

START_TEST(hostile_headers_are_refused) {
    write_text("", original, 0);
    check_refused("header is not JSON");
    write_text("[]", original, 0);
    check_refused("header is not a JSON object");
    write_text("{}", original, 0);
    check_refused("no metadata");
    write_text("{\"__metadata__\":{\"format\":1}}", original, 0);
    check_refused("metadata 'format': not a string");
    write_text("{\"a\":1,\"a\":2}", original, 0);
    check_refused("duplicate object key");
    write_text("{\"__metadata__\":{\"format\":\"\\u0000\"}}", original, 0);
    check_refused("header is not JSON");

    size_t n_deep = 1 << 20;
    char *deep = malloc(n_deep + 1);
    ck_assert_ptr_nonnull(deep);
    memset(deep, '[', n_deep);
    deep[n_deep] = 0;
    write_text(deep, original, 0);
    check_refused("header is not JSON");
    free(deep);

    unsigned char length[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    write_file(length, sizeof length);
    check_refused("not a safetensors file");
    memset(length, 0, sizeof length);
    length[1] = 1;
    write_file(length, sizeof length);
    check_refused("cut short");
    length[1] = 0;
    for (unsigned n = 1; n <= 8; n++) { /* the length is no part of the header */
        length[0] = (unsigned char)(sizeof length - 8 + n);
        write_file(length, sizeof length);
        check_refused("cut short");
    }

    size_t n;
    json_t *h = header(&n);
    char *text = json_dumps(h, JSON_COMPACT);
    unsigned char *longer = malloc(n_original);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, original + 8 + n, n_original - 8 - n);
    memset(longer + n_original - 8 - n, 0, 4);
    write_text(text, longer, n_original - 8 - n + 4);
    check_refused("4 bytes after the last tensor");
    free(longer);
    free(text);
    json_decref(h);
}
END_TEST

START_TEST(names_are_looked_up) {
    struct model *m = NULL;
    struct err err;
    ck_assert_int_eq(setenv("PRIMEKNET_MODELS", FIXTURES, 1), 0);
    ck_assert_msg(model_load(&m, "narrow", &err) == 0, "%s", err.text);
    ck_assert_str_eq(model_name(m), "narrow");
    model_free(m);
    ck_assert_int_eq(model_load(&m, "small", &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "small: no model of that name in " FIXTURES));
    ck_assert_int_eq(unsetenv("PRIMEKNET_MODELS"), 0);
    static const char *const shipped[] = {"small", "base", "large"};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_msg(model_load(&m, shipped[i], &err) == 0, "%s", err.text);
        ck_assert_str_eq(model_name(m), shipped[i]);
        ck_assert_uint_eq(model_rate(m), 48000);
        unsigned n_networks = 0;
        for (const struct model *network = m; network; network = model_next(network))
            n_networks++;
        ck_assert_uint_eq(n_networks, i + 1);
        model_free(m);
    }
    ck_assert_int_eq(model_load(&m, "./none.safetensors", &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "./none.safetensors: No such file"));
    ck_assert_int_lt(model_load(&m, "/", &err), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, read_narrow, remove_file);
    tcase_add_test(t, reads_valid_files);
    tcase_add_test(t, keeps_a_voice_of_its_own_encoder);
    tcase_add_test(t, reads_half_precision);
    tcase_add_test(t, truncations_are_refused);
    tcase_add_test(t, flipped_bits_are_harmless);
    tcase_add_loop_test(t, metadata_is_checked, 0, (int)(sizeof metadata / sizeof *metadata));
    tcase_add_loop_test(t, tensors_are_checked, 0, (int)(sizeof entries / sizeof *entries));
    tcase_add_test(t, values_are_checked);
    tcase_add_test(t, hostile_headers_are_refused);
    tcase_add_test(t, names_are_looked_up);
    suite_add_tcase(suite, t);
    t = tcase_create("voice");
    tcase_add_checked_fixture(t, read_my_voice, remove_file);
    tcase_add_test(t, refuses_half_a_description_of_prints);
    suite_add_tcase(suite, t);
    t = tcase_create("networks");
    tcase_add_checked_fixture(t, read_mean, remove_file);
    tcase_add_test(t, reads_all_networks);
    tcase_add_test(t, checks_all_networks);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
