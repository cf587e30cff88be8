#include "model/model_type.h"

#include "base/beside.h"
#include "base/file.h"

#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT "primeknet-1"

enum { MAX_FILE_BYTES = 256 << 20, MAX_HEADER_BYTES = 4 << 20, MAX_SHOWN = 64 };

/* The file being read, for functions that may report errors in it. */
struct reader {
    const char *path;
    struct err *err;
    char *bytes;
    size_t n_bytes;
    json_t *header;
    const unsigned char *data;
    size_t n_data;
};

/* ---- printing text from the file ---- */

static const char *printable(char out[MAX_SHOWN], const char *text) {
    unsigned i;
    for (i = 0; i + 1 < MAX_SHOWN && text[i]; i++)
        out[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    out[i] = 0;
    return out;
}

/* ---- metadata: strings; those that are not plain text are JSON, which is independent of the locale ---- */

static int bad_key(struct reader *r, const char *key, const char *what) {
    return err_set(r->err, -EINVAL, "%s: metadata '%s': %s", r->path, key, what);
}

static int get_text(struct reader *r, const char **ret, const char *key) {
    const char *text = json_string_value(json_object_get(json_object_get(r->header, "__metadata__"), key));
    if (!text)
        return bad_key(r, key, "missing");
    if (!*text)
        return bad_key(r, key, "empty");
    *ret = text;
    return 0;
}

static int get_json(struct reader *r, json_t **ret, const char *key) {
    const char *text;
    int code = get_text(r, &text, key);
    if (code)
        return code;
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!value)
        return bad_key(r, key, "neither a number nor a list");
    *ret = value;
    return 0;
}

static int check_integer(struct reader *r, unsigned *ret, const char *key, const json_t *value, unsigned min,
                         unsigned max) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max)
        return err_set(r->err, -EINVAL, "%s: metadata '%s': not a whole number from %u to %u", r->path, key, min, max);
    *ret = (unsigned)n;
    return 0;
}

static int get_integer(struct reader *r, unsigned *ret, const char *key, unsigned min, unsigned max) {
    json_t *value;
    int code = get_json(r, &value, key);
    if (code)
        return code;
    code = check_integer(r, ret, key, value, min, max);
    json_decref(value);
    return code;
}

static int get_number(struct reader *r, float *ret, const char *key, double min, double max) {
    json_t *value;
    int code = get_json(r, &value, key);
    if (code)
        return code;
    double x = json_number_value(value);
    if (json_is_number(value) && x >= min && x <= max)
        *ret = (float)x;
    else
        code = err_set(r->err, -EINVAL, "%s: metadata '%s': not a number from %g to %g", r->path, key, min, max);
    json_decref(value);
    return code;
}

/* A list of whole numbers in [min, max], in ascending order. */
static int get_list(struct reader *r, unsigned *ret, unsigned *n_ret, const char *key, unsigned max_n, unsigned min,
                    unsigned max) {
    json_t *list;
    int code = get_json(r, &list, key);
    if (code)
        return code;
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > max_n)
        code = err_set(r->err, -EINVAL, "%s: metadata '%s': not a list of at most %u numbers", r->path, key, max_n);
    for (size_t i = 0; i < n && !code; i++) {
        code = check_integer(r, &ret[i], key, json_array_get(list, i), min, max);
        if (!code && i && ret[i] <= ret[i - 1])
            code = bad_key(r, key, "the numbers are not in ascending order");
    }
    json_decref(list);
    if (!code)
        *n_ret = (unsigned)n;
    return code;
}

static bool factors_2_3_5(unsigned n) {
    static const unsigned primes[] = {2, 3, 5};
    for (unsigned i = 0; i < 3; i++)
        while (n % primes[i] == 0)
            n /= primes[i];
    return n == 1;
}

static int read_geometry(struct reader *r, struct model_config *c) {
    int code;
    unsigned n_edges = 0;
    if ((code = get_integer(r, &c->rate, "rate", 8000, 192000)) ||
        (code = get_integer(r, &c->window, "window", 32, 4096)) ||
        (code = get_integer(r, &c->synthesis, "synthesis", 32, c->window)) ||
        (code = get_integer(r, &c->hop, "hop", 16, c->synthesis / 2)))
        return code;
    if (c->window % 2 || !factors_2_3_5(c->window))
        return bad_key(r, "window", "not an even product of 2, 3 and 5");
    if (c->synthesis % c->hop)
        return bad_key(r, "hop", "does not divide the synthesis window");
    c->n_bins = c->window / 2 + 1;
    if ((code = get_integer(r, &c->n_linear, "linear_bins", 1, c->n_bins)) ||
        (code = get_list(r, c->band_edges, &n_edges, "band_edges", MODEL_MAX_BANDS + 1, c->n_linear, c->n_bins)))
        return code;
    if (n_edges ? n_edges < 3 || c->band_edges[0] != c->n_linear || c->band_edges[n_edges - 1] != c->n_bins
                : c->n_linear != c->n_bins)
        return bad_key(r, "band_edges", "must run from the last linear bin to the last bin in at least two bands");
    c->n_bands = n_edges ? n_edges - 1 : 0;
    c->n_positions = c->n_linear + c->n_bands;
    if (c->n_positions % 2 == 0 || c->n_positions < 3)
        return bad_key(r, "band_edges", "linear bins plus bands must be an odd number of at least 3");
    c->n_half = (c->n_positions - 1) / 2;
    return 0;
}

static int read_constants(struct reader *r, struct model_config *c) {
    int code;
    const char *text;
    if ((code = get_number(r, &c->scale, "scale", 1e-3, 1e6)) ||
        (code = get_number(r, &c->compression, "compression", .1, 1)) ||
        (code = get_number(r, &c->mask_ceiling, "mask_ceiling", 1, 8)) ||
        (code = get_number(r, &c->mask_minimum, "mask_minimum", 0, 1)) ||
        (code = get_number(r, &c->rotation_epsilon, "rotation_epsilon", 1e-12, 1e-2)) ||
        (code = get_number(r, &c->magnitude_minimum, "magnitude_minimum", 1e-12, 1e-2)) ||
        (code = get_number(r, &c->power_minimum, "power_minimum", 1e-24, 1e-4)) ||
        (code = get_number(r, &c->norm_epsilon, "norm_epsilon", 1e-12, 1e-1)) ||
        (code = get_text(r, &text, "band_gain_maximum")))
        return code;
    c->band_gain_maximum = INFINITY;
    return strcmp(text, "none") ? get_number(r, &c->band_gain_maximum, "band_gain_maximum", 0, 1e3) : 0;
}

static int read_mixer(struct reader *r, struct model_config *c) {
    static const char *const words[] = {"mamba", "mamba2", "gru", "lstm"};
    const unsigned n_words = sizeof words / sizeof *words;
    const char *mixer;
    unsigned word = 0, expand;
    int code = get_text(r, &mixer, "mixer");
    if (code)
        return code;
    while (word < n_words && strcmp(mixer, words[word]))
        word++;
    if (word == n_words)
        return bad_key(r, "mixer", "must be 'mamba', 'mamba2', 'gru' or 'lstm'");
    c->mixer = (enum model_mixer)word;
    c->d_inner = c->channels;
    if (c->mixer != MODEL_MAMBA && c->mixer != MODEL_MAMBA2)
        return 0;
    if ((code = get_integer(r, &c->d_state, "d_state", 16, 64)) ||
        (code = get_integer(r, &c->d_conv, "d_conv", 2, 8)) || (code = get_integer(r, &expand, "expand", 1, 4)))
        return code;
    if (c->d_state % 16)
        return bad_key(r, "d_state", "not a multiple of 16");
    c->d_inner = expand * c->channels;
    if (c->mixer == MODEL_MAMBA)
        return get_integer(r, &c->step_rank, "step_rank", 1, 64);
    if ((code = get_integer(r, &c->head_dim, "head", 16, c->d_inner)))
        return code;
    if (c->head_dim % 16 || c->d_inner % c->head_dim)
        return bad_key(r, "head", "not a multiple of 16 that divides expand times channels");
    return 0;
}

static int read_shape(struct reader *r, struct model_config *c) {
    int code;
    if ((code = get_integer(r, &c->channels, "channels", 16, 256)) ||
        (code = get_integer(r, &c->depth, "depth", 1, MODEL_MAX_DEPTH)) ||
        (code = get_integer(r, &c->n_blocks, "blocks", 1, MODEL_MAX_BLOCKS)) ||
        (code = get_integer(r, &c->n_time, "time_layers", 1, MODEL_MAX_LAYERS)) ||
        (code = get_integer(r, &c->n_freq, "frequency_layers", 1, MODEL_MAX_LAYERS)) ||
        (code = get_list(r, c->kernels, &c->n_kernels, "kernels", MODEL_MAX_KERNELS, 1, 63)))
        return code;
    if (c->channels % 16)
        return bad_key(r, "channels", "not a multiple of 16");
    if (!c->n_kernels)
        return bad_key(r, "kernels", "empty");
    for (unsigned i = 0; i < c->n_kernels; i++)
        if (c->kernels[i] % 2 == 0)
            return bad_key(r, "kernels", "not odd");
    return read_mixer(r, c);
}

static int read_metadata(struct reader *r, struct model *m) {
    const char *text, *key;
    json_t *metadata = json_object_get(r->header, "__metadata__"), *value;
    char shown[MAX_SHOWN];
    if (!json_is_object(metadata))
        return err_set(r->err, -EINVAL, "%s: no metadata, so not a PrimeKnet model", r->path);
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return bad_key(r, printable(shown, key), "not a string");
    int code = get_text(r, &text, "format");
    if (code)
        return code;
    if (strcmp(text, FORMAT))
        return bad_key(r, "format", "this version only reads '" FORMAT "'");
    if ((code = get_text(r, &text, "licence")) || (code = get_text(r, &text, "name")))
        return code;
    if (!(m->name = strdup(text)))
        return err_set(r->err, -ENOMEM, "%s: out of memory", r->path);
    printable(shown, text);
    if (strcmp(shown, text))
        return bad_key(r, "name", "longer than 63 characters or not plain ASCII");
    if ((code = read_geometry(r, &m->config)) || (code = read_constants(r, &m->config)))
        return code;
    return read_shape(r, &m->config);
}

/* ---- the tensors that a configuration requires ---- */

static void want(void *data, const char *name, const size_t shape[SCHEMA_MAX_DIMS + 1], const float **field) {
    struct model *m = data;
    if (m->tensors) {
        struct tensor *t = &m->tensors[m->n_tensors];
        strcpy(t->name, name);
        memcpy(t->shape, shape, sizeof t->shape);
        t->n = 1;
        for (unsigned d = 0; shape[d]; d++)
            t->n *= shape[d];
        t->field = field;
    }
    m->n_tensors++;
}

static void want_all(struct model *m) {
    m->n_tensors = 0;
    schema_walk(&m->config, &m->weights, want, m);
}

/* ---- the tensors in the file ---- */

static int bad_tensor(struct reader *r, const char *name, const char *what) {
    return err_set(r->err, -EINVAL, "%s: tensor '%s': %s", r->path, name, what);
}

static int check_shape(struct reader *r, const struct tensor *t, const json_t *shape) {
    unsigned n_dims = 0;
    while (t->shape[n_dims])
        n_dims++;
    bool same = json_is_array(shape) && json_array_size(shape) == n_dims;
    for (unsigned d = 0; d < n_dims && same; d++) {
        const json_t *n = json_array_get(shape, d);
        same = json_is_integer(n) && json_integer_value(n) == (json_int_t)t->shape[d];
    }
    if (same)
        return 0;
    char text[80];
    int at = 0;
    for (unsigned d = 0; d < n_dims; d++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%zu", d ? ", " : "", t->shape[d]);
    return err_set(r->err, -EINVAL, "%s: tensor '%s': shape is not [%s]", r->path, t->name, text);
}

static float from_half(uint16_t h) {
    float x = ldexpf((float)(h & 1023) + (h >> 10 & 31 ? 1024.f : 0.f), (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25);
    if ((h >> 10 & 31) == 31)
        x = INFINITY; /* NaN too: both are rejected */
    return h >> 15 ? -x : x;
}

static float read_value(const unsigned char *at, size_t size) {
    if (size == 2) {
        uint16_t half;
        memcpy(&half, at, sizeof half);
        return from_half(le16toh(half));
    }
    uint32_t bits;
    float x;
    memcpy(&bits, at, sizeof bits);
    bits = le32toh(bits);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int read_tensor(struct reader *r, struct tensor *t, const json_t *entry) {
    if (!json_is_object(entry))
        return bad_tensor(r, t->name, "missing");
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)entry, key, value)
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return bad_tensor(r, t->name, "has a field besides dtype, shape and data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype || (strcmp(dtype, "F32") && strcmp(dtype, "F16")))
        return bad_tensor(r, t->name, "dtype is neither F32 nor F16");
    size_t size = strcmp(dtype, "F16") ? 4 : 2;
    int code = check_shape(r, t, json_object_get(entry, "shape"));
    if (code)
        return code;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin) ||
        (uint64_t)json_integer_value(end) > r->n_data)
        return bad_tensor(r, t->name, "data_offsets lie outside the file");
    t->begin = (size_t)json_integer_value(begin);
    t->end = (size_t)json_integer_value(end);
    if (t->end - t->begin != t->n * size)
        return bad_tensor(r, t->name, "data_offsets do not fit the shape");
    if (!(t->data = malloc(t->n * sizeof *t->data)))
        return err_set(r->err, -ENOMEM, "%s: out of memory", r->path);
    for (size_t i = 0; i < t->n; i++) {
        t->data[i] = read_value(r->data + t->begin + i * size, size);
        if (!isfinite(t->data[i]))
            return bad_tensor(r, t->name, "holds a value that is not finite");
    }
    *t->field = t->data;
    return 0;
}

static int by_begin(const void *a, const void *b) {
    const struct tensor *s = *(struct tensor *const *)a, *t = *(struct tensor *const *)b;
    return (s->begin > t->begin) - (s->begin < t->begin);
}

/* Every byte of the data part belongs to exactly one tensor. */
static int check_layout(struct reader *r, struct model *m) {
    struct tensor **order = malloc(m->n_tensors * sizeof *order);
    if (!order)
        return err_set(r->err, -ENOMEM, "%s: out of memory", r->path);
    for (unsigned i = 0; i < m->n_tensors; i++)
        order[i] = &m->tensors[i];
    qsort(order, m->n_tensors, sizeof *order, by_begin);
    int code = 0;
    size_t at = 0;
    for (unsigned i = 0; i < m->n_tensors && !code; at = order[i++]->end)
        if (order[i]->begin != at)
            code = bad_tensor(r, order[i]->name,
                              order[i]->begin < at ? "overlaps another" : "the bytes before it belong to no tensor");
    free(order);
    if (!code && at != r->n_data)
        code = err_set(r->err, -EINVAL, "%s: %zu bytes after the last tensor", r->path, r->n_data - at);
    return code;
}

static int read_tensors(struct reader *r, struct model *m) {
    want_all(m); /* counts */
    if (!(m->tensors = calloc(m->n_tensors, sizeof *m->tensors)))
        return err_set(r->err, -ENOMEM, "%s: out of memory", r->path);
    want_all(m); /* fills in */
    int code;
    for (unsigned i = 0; i < m->n_tensors; i++)
        if ((code = read_tensor(r, &m->tensors[i], json_object_get(r->header, m->tensors[i].name))))
            return code;
    const char *key;
    json_t *value;
    if (json_object_size(r->header) != m->n_tensors + 1)
        json_object_foreach(r->header, key, value) {
            bool known = !strcmp(key, "__metadata__");
            for (unsigned i = 0; i < m->n_tensors && !known; i++)
                known = !strcmp(key, m->tensors[i].name);
            char shown[MAX_SHOWN];
            if (!known)
                return bad_tensor(r, printable(shown, key), "is not part of the network that the metadata describes");
        }
    return check_layout(r, m);
}

/* ---- checks of values ---- */

/* Synthesis must undo analysis: at each position in a hop, the products of the windows of all frames that cover it add
 * up to 1. */
static int check_windows(struct reader *r, const struct model *m) {
    const struct model_config *g = &m->config;
    const float *analysis = m->weights.analysis_window + g->window - g->synthesis;
    const float *synthesis = m->weights.synthesis_window;
    for (unsigned i = 0; i < g->hop; i++) {
        double sum = 0;
        for (unsigned j = i; j < g->synthesis; j += g->hop)
            sum += (double)analysis[j] * synthesis[j];
        if (!(fabs(sum - 1) < 1e-4))
            return bad_tensor(r, "window.synthesis",
                              "does not undo window.analysis: their overlapped product is not 1");
    }
    return 0;
}

/* A scan with a positive decay rate would diverge. */
static int check_decays(struct reader *r, const struct model *m) {
    const struct model_config *g = &m->config;
    size_t n = 0;
    if (g->mixer == MODEL_MAMBA)
        n = (size_t)g->d_inner * g->d_state;
    else if (g->mixer == MODEL_MAMBA2)
        n = g->d_inner / g->head_dim;
    for (unsigned b = 0; b < g->n_blocks; b++)
        for (unsigned i = 0; i < g->n_time; i++) {
            const struct time_weights *t = &m->weights.blocks[b].time[i];
            const float *decay = g->mixer == MODEL_MAMBA ? t->decay : t->head_decay;
            for (size_t j = 0; j < n; j++)
                if (decay[j] > 0)
                    return err_set(r->err, -EINVAL, "%s: tensor 'block.%u.time.%u.decay': holds a positive value",
                                   r->path, b, i);
        }
    return 0;
}

/* ---- the file ---- */

static int read_header(struct reader *r) {
    uint64_t n;
    if (r->n_bytes < sizeof n)
        return err_set(r->err, -EINVAL, "%s: too short to be a model (%zu bytes)", r->path, r->n_bytes);
    memcpy(&n, r->bytes, sizeof n);
    n = le64toh(n);
    if (n > MAX_HEADER_BYTES)
        return err_set(r->err, -EINVAL, "%s: not a safetensors file", r->path);
    if (n > r->n_bytes - sizeof n)
        return err_set(r->err, -EINVAL, "%s: cut short: the header alone needs %zu bytes", r->path,
                       (size_t)n + sizeof n);
    json_error_t why;
    r->header = json_loadb(r->bytes + sizeof n, n, JSON_REJECT_DUPLICATES, &why);
    if (!r->header) {
        char shown[MAX_SHOWN];
        return err_set(r->err, -EINVAL, "%s: header is not JSON: %s at byte %d", r->path, printable(shown, why.text),
                       why.position);
    }
    if (!json_is_object(r->header))
        return err_set(r->err, -EINVAL, "%s: header is not a JSON object", r->path);
    r->data = (const unsigned char *)r->bytes + sizeof n + n;
    r->n_data = r->n_bytes - sizeof n - n;
    return 0;
}

static int load(struct model **ret, const char *path, struct err *err) {
    struct reader r = {.path = path, .err = err};
    struct model *m = calloc(1, sizeof *m);
    int code = m ? 0 : err_set(err, -ENOMEM, "%s: out of memory", path);
    if (!code && !(code = file_read(&r.bytes, &r.n_bytes, path, MAX_FILE_BYTES, err)) && !(code = read_header(&r)) &&
        !(code = read_metadata(&r, m)) && !(code = read_tensors(&r, m)) && !(code = check_windows(&r, m)))
        code = check_decays(&r, m);
    json_decref(r.header);
    free(r.bytes);
    if (code)
        model_free(m);
    else
        *ret = m;
    return code;
}

/* ---- shipped models ---- */

static bool is_file(char path[PATH_MAX], const char *dir, const char *name) {
    int n = snprintf(path, PATH_MAX, "%s/%s.safetensors", dir, name);
    return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

static bool beside_program(char path[PATH_MAX], const char *name) {
    char file[NAME_MAX];
    const int n = snprintf(file, sizeof file, "models/%s.safetensors", name);
    return n < (int)sizeof file && beside_find(path, file);
}

int model_load(struct model **ret, const char *name_or_path, struct err *err) {
    const char *dot = strrchr(name_or_path, '.'), *chosen = getenv("PRIMEKNET_MODELS");
    if (strchr(name_or_path, '/') || (dot && !strcmp(dot, ".safetensors")))
        return load(ret, name_or_path, err);
    char path[PATH_MAX];
    if (chosen ? is_file(path, chosen, name_or_path)
               : beside_program(path, name_or_path) || is_file(path, MODELDIR, name_or_path))
        return load(ret, path, err);
    return err_set(err, -ENOENT, "%s: no model of that name in %s", name_or_path, chosen ? chosen : MODELDIR);
}

void model_free(struct model *m) {
    if (!m)
        return;
    for (unsigned i = 0; m->tensors && i < m->n_tensors; i++)
        free(m->tensors[i].data);
    free(m->tensors);
    free(m->name);
    free(m);
}
