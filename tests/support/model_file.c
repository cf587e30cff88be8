#include "tests/support/model_file.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned char *original;
size_t n_original;
char path[] = "/tmp/test-model-XXXXXX.safetensors";

void read_original(const char *of) {
    FILE *f = fopen(of, "rb");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    n_original = (size_t)ftell(f);
    rewind(f);
    original = malloc(n_original);
    ck_assert(original && fread(original, 1, n_original, f) == n_original);
    fclose(f);
    int fd = mkstemps(path, 12);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

void remove_file(void) {
    unlink(path);
    free(original);
}

void write_file(const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, n, f) == n);
    ck_assert_int_eq(fclose(f), 0);
}

json_t *header(size_t *n_header) {
    uint64_t n = 0;
    for (unsigned i = 8; i-- > 0;)
        n = n << 8 | original[i];
    *n_header = n;
    json_t *h = json_loadb((const char *)original + 8, n, 0, NULL);
    ck_assert_ptr_nonnull(h);
    return h;
}

void write_text(const char *text, const unsigned char *data, size_t n_data) {
    size_t n = strlen(text);
    unsigned char *bytes = malloc(8 + n + n_data);
    ck_assert_ptr_nonnull(bytes);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, text, n);
    memcpy(bytes + 8 + n, data, n_data);
    write_file(bytes, 8 + n + n_data);
    free(bytes);
}

void write_header(json_t *h, size_t n_header) {
    char *text = json_dumps(h, JSON_COMPACT);
    write_text(text, original + 8 + n_header, n_original - 8 - n_header);
    free(text);
    json_decref(h);
}

void write_metadata(const char *key, const char *value) {
    size_t n;
    json_t *h = header(&n), *m = json_object_get(h, "__metadata__");
    if (value)
        json_object_set_new(m, key, json_string(value));
    else
        json_object_del(m, key);
    write_header(h, n);
}

/* Returns the file offset of one float of a tensor. */
static size_t place_of(const char *name, size_t index) {
    size_t n;
    json_t *h = header(&n), *offsets = json_object_get(json_object_get(h, name), "data_offsets");
    const size_t at = 8 + n + (size_t)json_integer_value(json_array_get(offsets, 0)) + 4 * index;
    json_decref(h);
    return at;
}

union bits {
    float value;
    uint32_t bits;
};

float peek(const char *name, size_t index) {
    const size_t at = place_of(name, index);
    union bits u = {.bits = 0};
    for (unsigned i = 0; i < 4; i++)
        u.bits |= (uint32_t)original[at + i] << 8 * i;
    return u.value;
}

void poke(const char *name, size_t index, float value) {
    const size_t at = place_of(name, index);
    union bits u = {value};
    unsigned char *bytes = malloc(n_original);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, original, n_original);
    for (unsigned i = 0; i < 4; i++)
        bytes[at + i] = (unsigned char)(u.bits >> 8 * i);
    write_file(bytes, n_original);
    free(bytes);
}
