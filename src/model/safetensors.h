/* safetensors.h - reads safetensors files whose metadata says which tensors they have (docs/model-format.md).
 *
 * The reader is safe on any bytes. Its functions return 0, or a negative errno and an error line that names the file
 * and the metadata key or tensor. Each file belongs to one thread at a time. */
#ifndef PRIMEKNET_SAFETENSORS_H
#define PRIMEKNET_SAFETENSORS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct safetensors {
    const char *path;
    struct err *err;
    char *bytes;
    size_t n_bytes;
    struct json_t *header;
    const unsigned char *data; /* the part after the header */
    size_t n_data;
    char prefix[16]; /* of keys and of tensors in messages: "", or "2." for the second of several networks; a key that
                      * is missing with its prefix is read without it */
};

/* Reads a file. path and err must outlive f; close f in any case. Blocks on I/O. */
int safetensors_open(struct safetensors *f, const char *path, struct err *err);
void safetensors_close(struct safetensors *f);

/* ---- metadata ---- */

/* Checks what all of our files have: metadata of strings, this `format`, a licence and a name, which the caller frees.
 * Call it before the functions below. */
int metadata_begin(struct safetensors *f, const char *format, char **name);

bool metadata_has(const struct safetensors *f, const char *key);
/* Read a value. Numbers may be from min to max; those of a list, at most max_n, ascend. */
int metadata_text(struct safetensors *f, const char **ret, const char *key);
int metadata_integer(struct safetensors *f, unsigned *ret, const char *key, unsigned min, unsigned max);
int metadata_number(struct safetensors *f, float *ret, const char *key, double min, double max);
int metadata_list(struct safetensors *f, unsigned *ret, unsigned *n_ret, const char *key, unsigned max_n, unsigned min,
                  unsigned max);
/* Reads `window`, the samples of a frame: from 32 to max, an even product of 2, 3 and 5. */
int metadata_window(struct safetensors *f, unsigned *ret, unsigned max);
/* Reads `channels`: a multiple of 16, at most 256. */
int metadata_channels(struct safetensors *f, unsigned *ret);

int metadata_wrong(struct safetensors *f, const char *key, const char *what); /* writes the line; returns -EINVAL */

/* ---- tensors ---- */

enum { TENSOR_MAX_NAME = 64, TENSOR_MAX_DIMS = 3 };

struct tensor {
    char name[TENSOR_MAX_NAME];
    size_t shape[TENSOR_MAX_DIMS + 1]; /* terminated by 0 */
    size_t n;                          /* values */
    size_t begin, end;                 /* byte offsets in the file's data part */
    float *data;
    const float **field; /* to point to the data */
};

/* All tensors of a file. All zeros: none. */
struct tensors {
    struct tensor *all;
    unsigned n, n_room;
    bool failed; /* memory ran out; tensors_read reports it */
};

/* Adds a tensor that the file must have. */
void tensors_want(struct tensors *t, const char *name, const size_t shape[TENSOR_MAX_DIMS + 1], const float **field);
/* Reads these tensors, as floats, which must be all that the file has, and points their fields to the data. */
int tensors_read(struct tensors *t, struct safetensors *f);
void tensors_done(struct tensors *t); /* frees the data as well */

int tensor_wrong(struct safetensors *f, const char *name, const char *what); /* writes the line; returns -EINVAL */

#endif
