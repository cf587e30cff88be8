#include "model/safetensors.h"

#include "base/file.h"

#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 256 << 20, MAX_HEADER_BYTES = 4 << 20, MAX_SHOWN = 64 };

/* ---- printing text from the file ---- */

static const char *printable(char out[MAX_SHOWN], const char *text) {
    unsigned i;
    for (i = 0; i + 1 < MAX_SHOWN && text[i]; i++)
        out[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    out[i] = 0;
    return out;
}

/* ---- the file ---- */

static int read_header(struct safetensors *f) {
    uint64_t n;
    if (f->n_bytes < sizeof n)
        return err_set(f->err, -EINVAL, "%s: too short to be a model (%zu bytes)", f->path, f->n_bytes);
    memcpy(&n, f->bytes, sizeof n);
    n = le64toh(n);
    if (n > MAX_HEADER_BYTES)
        return err_set(f->err, -EINVAL, "%s: not a safetensors file", f->path);
    if (n > f->n_bytes - sizeof n)
        return err_set(f->err, -EINVAL, "%s: cut short: the header alone needs %zu bytes", f->path,
                       (size_t)n + sizeof n);
    json_error_t why;
    f->header = json_loadb(f->bytes + sizeof n, n, JSON_REJECT_DUPLICATES, &why);
    if (!f->header) {
        char shown[MAX_SHOWN];
        return err_set(f->err, -EINVAL, "%s: header is not JSON: %s at byte %d", f->path, printable(shown, why.text),
                       why.position);
    }
    if (!json_is_object(f->header))
        return err_set(f->err, -EINVAL, "%s: header is not a JSON object", f->path);
    f->data = (const unsigned char *)f->bytes + sizeof n + n;
    f->n_data = f->n_bytes - sizeof n - n;
    return 0;
}

int safetensors_open(struct safetensors *f, const char *path, struct err *err) {
    *f = (struct safetensors){.path = path, .err = err};
    const int code = file_read(&f->bytes, &f->n_bytes, path, MAX_FILE_BYTES, err);
    return code ? code : read_header(f);
}

void safetensors_close(struct safetensors *f) {
    json_decref(f->header);
    free(f->bytes);
}

/* ---- metadata: strings; those that are not plain text are JSON, which is independent of the locale ---- */

int metadata_wrong(struct safetensors *f, const char *key, const char *what) {
    return err_set(f->err, -EINVAL, "%s: metadata '%s%s': %s", f->path, f->prefix, key, what);
}

static const json_t *find(const struct safetensors *f, const char *key) {
    const json_t *metadata = json_object_get(f->header, "__metadata__"), *own;
    char full[TENSOR_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", f->prefix, key);
    return (own = json_object_get(metadata, full)) ? own : json_object_get(metadata, key);
}

bool metadata_has(const struct safetensors *f, const char *key) {
    return find(f, key) != NULL;
}

int metadata_text(struct safetensors *f, const char **ret, const char *key) {
    const char *text = json_string_value(find(f, key));
    if (!text)
        return metadata_wrong(f, key, "missing");
    if (!*text)
        return metadata_wrong(f, key, "empty");
    *ret = text;
    return 0;
}

static int get_json(struct safetensors *f, json_t **ret, const char *key) {
    const char *text;
    int code = metadata_text(f, &text, key);
    if (code)
        return code;
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!value)
        return metadata_wrong(f, key, "neither a number nor a list");
    *ret = value;
    return 0;
}

static int check_integer(struct safetensors *f, unsigned *ret, const char *key, const json_t *value, unsigned min,
                         unsigned max) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max)
        return err_set(f->err, -EINVAL, "%s: metadata '%s%s': not a whole number from %u to %u", f->path, f->prefix,
                       key, min, max);
    *ret = (unsigned)n;
    return 0;
}

int metadata_integer(struct safetensors *f, unsigned *ret, const char *key, unsigned min, unsigned max) {
    json_t *value;
    int code = get_json(f, &value, key);
    if (code)
        return code;
    code = check_integer(f, ret, key, value, min, max);
    json_decref(value);
    return code;
}

int metadata_number(struct safetensors *f, float *ret, const char *key, double min, double max) {
    json_t *value;
    int code = get_json(f, &value, key);
    if (code)
        return code;
    double x = json_number_value(value);
    if (json_is_number(value) && x >= min && x <= max)
        *ret = (float)x;
    else
        code = err_set(f->err, -EINVAL, "%s: metadata '%s%s': not a number from %g to %g", f->path, f->prefix, key, min,
                       max);
    json_decref(value);
    return code;
}

int metadata_list(struct safetensors *f, unsigned *ret, unsigned *n_ret, const char *key, unsigned max_n, unsigned min,
                  unsigned max) {
    json_t *list;
    int code = get_json(f, &list, key);
    if (code)
        return code;
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > max_n)
        code = err_set(f->err, -EINVAL, "%s: metadata '%s%s': not a list of at most %u numbers", f->path, f->prefix,
                       key, max_n);
    for (size_t i = 0; i < n && !code; i++) {
        code = check_integer(f, &ret[i], key, json_array_get(list, i), min, max);
        if (!code && i && ret[i] <= ret[i - 1])
            code = metadata_wrong(f, key, "the numbers are not in ascending order");
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

int metadata_window(struct safetensors *f, unsigned *ret, unsigned max) {
    const int code = metadata_integer(f, ret, "window", 32, max);
    if (code)
        return code;
    return *ret % 2 || !factors_2_3_5(*ret) ? metadata_wrong(f, "window", "not an even product of 2, 3 and 5") : 0;
}

int metadata_channels(struct safetensors *f, unsigned *ret) {
    const int code = metadata_integer(f, ret, "channels", 16, 256);
    if (code)
        return code;
    return *ret % 16 ? metadata_wrong(f, "channels", "not a multiple of 16") : 0;
}

int metadata_begin(struct safetensors *f, const char *format, char **name) {
    const char *text, *key;
    json_t *metadata = json_object_get(f->header, "__metadata__"), *value;
    char shown[MAX_SHOWN];
    if (!json_is_object(metadata))
        return err_set(f->err, -EINVAL, "%s: no metadata, so not a PrimeKnet model", f->path);
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return metadata_wrong(f, printable(shown, key), "not a string");
    int code = metadata_text(f, &text, "format");
    if (code)
        return code;
    if (strcmp(text, format))
        return err_set(f->err, -EINVAL, "%s: metadata 'format': this version only reads '%s'", f->path, format);
    if ((code = metadata_text(f, &text, "licence")) || (code = metadata_text(f, &text, "name")))
        return code;
    printable(shown, text);
    if (strcmp(shown, text))
        return metadata_wrong(f, "name", "longer than 63 characters or not plain ASCII");
    *name = strdup(text);
    return *name ? 0 : err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
}

/* ---- tensors ---- */

void tensors_want(struct tensors *t, const char *name, const size_t shape[TENSOR_MAX_DIMS + 1], const float **field) {
    if (t->n == t->n_room) {
        const unsigned n_room = t->n_room ? 2 * t->n_room : 64;
        struct tensor *all = realloc(t->all, n_room * sizeof *all);
        if (!all) {
            t->failed = true;
            return;
        }
        t->all = all;
        t->n_room = n_room;
    }
    struct tensor *one = &t->all[t->n++];
    *one = (struct tensor){.n = 1, .field = field};
    strcpy(one->name, name);
    memcpy(one->shape, shape, sizeof one->shape);
    for (unsigned d = 0; shape[d]; d++)
        one->n *= shape[d];
}

int tensor_wrong(struct safetensors *f, const char *name, const char *what) {
    return err_set(f->err, -EINVAL, "%s: tensor '%s%s': %s", f->path, f->prefix, name, what);
}

static int check_shape(struct safetensors *f, const struct tensor *t, const json_t *shape) {
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
    return err_set(f->err, -EINVAL, "%s: tensor '%s': shape is not [%s]", f->path, t->name, text);
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

static int read_tensor(struct safetensors *f, struct tensor *t, const json_t *entry) {
    if (!json_is_object(entry))
        return tensor_wrong(f, t->name, "missing");
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)entry, key, value)
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return tensor_wrong(f, t->name, "has a field besides dtype, shape and data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype || (strcmp(dtype, "F32") && strcmp(dtype, "F16")))
        return tensor_wrong(f, t->name, "dtype is neither F32 nor F16");
    size_t size = strcmp(dtype, "F16") ? 4 : 2;
    int code = check_shape(f, t, json_object_get(entry, "shape"));
    if (code)
        return code;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin) ||
        (uint64_t)json_integer_value(end) > f->n_data)
        return tensor_wrong(f, t->name, "data_offsets lie outside the file");
    t->begin = (size_t)json_integer_value(begin);
    t->end = (size_t)json_integer_value(end);
    if (t->end - t->begin != t->n * size)
        return tensor_wrong(f, t->name, "data_offsets do not fit the shape");
    if (!(t->data = malloc(t->n * sizeof *t->data)))
        return err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
    for (size_t i = 0; i < t->n; i++) {
        t->data[i] = read_value(f->data + t->begin + i * size, size);
        if (!isfinite(t->data[i]))
            return tensor_wrong(f, t->name, "holds a value that is not finite");
    }
    *t->field = t->data;
    return 0;
}

static int by_begin(const void *a, const void *b) {
    const struct tensor *s = *(struct tensor *const *)a, *t = *(struct tensor *const *)b;
    return (s->begin > t->begin) - (s->begin < t->begin);
}

/* Every byte of the data part belongs to exactly one tensor. */
static int check_layout(struct safetensors *f, struct tensors *t) {
    struct tensor **order = malloc(t->n * sizeof *order);
    if (!order)
        return err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
    for (unsigned i = 0; i < t->n; i++)
        order[i] = &t->all[i];
    qsort(order, t->n, sizeof *order, by_begin);
    int code = 0;
    size_t at = 0;
    for (unsigned i = 0; i < t->n && !code; at = order[i++]->end)
        if (order[i]->begin != at)
            code = tensor_wrong(f, order[i]->name,
                                order[i]->begin < at ? "overlaps another" : "the bytes before it belong to no tensor");
    free(order);
    if (!code && at != f->n_data)
        code = err_set(f->err, -EINVAL, "%s: %zu bytes after the last tensor", f->path, f->n_data - at);
    return code;
}

int tensors_read(struct tensors *t, struct safetensors *f) {
    if (t->failed)
        return err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
    int code;
    for (unsigned i = 0; i < t->n; i++)
        if ((code = read_tensor(f, &t->all[i], json_object_get(f->header, t->all[i].name))))
            return code;
    const char *key;
    json_t *value;
    if (json_object_size(f->header) != t->n + 1)
        json_object_foreach(f->header, key, value) {
            bool known = !strcmp(key, "__metadata__");
            for (unsigned i = 0; i < t->n && !known; i++)
                known = !strcmp(key, t->all[i].name);
            char shown[MAX_SHOWN];
            if (!known)
                return tensor_wrong(f, printable(shown, key), "is not part of the network that the metadata describes");
        }
    return check_layout(f, t);
}

void tensors_done(struct tensors *t) {
    for (unsigned i = 0; i < t->n; i++)
        free(t->all[i].data);
    free(t->all);
    *t = (struct tensors){0};
}
