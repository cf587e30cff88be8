/* model_file.h - a model file in memory, and a copy of it on disk with something changed, for tests of readers. */
#ifndef PRIMEKNET_TESTS_MODEL_FILE_H
#define PRIMEKNET_TESTS_MODEL_FILE_H

#include <jansson.h>
#include <stddef.h>

extern unsigned char *original;
extern size_t n_original;
extern char path[]; /* of the copy */

void read_original(const char *of); /* and creates an empty copy */
void remove_file(void);

/* Write the copy: these bytes; this header and this data. */
void write_file(const void *bytes, size_t n);
void write_text(const char *text, const unsigned char *data, size_t n_data);

/* Returns the original's header, and its length in the file. */
json_t *header(size_t *n_header);
/* Writes the copy with another header, and drops the reference to it. */
void write_header(json_t *h, size_t n_header);
/* Writes the copy with this key of the metadata changed; value NULL: without it. */
void write_metadata(const char *key, const char *value);

/* Returns one float of a tensor of the original. */
float peek(const char *name, size_t index);
/* Writes the copy with this float changed. */
void poke(const char *name, size_t index, float value);

#endif
