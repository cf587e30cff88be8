/* fuzz.h - what the fuzz targets share. A target is LLVMFuzzerTestOneInput, called by libFuzzer or, for the inputs that
 * are kept in corpus/, by replay.c; it aborts where something that must hold does not. One thread, but for what a
 * target starts.
 *
 * Targets are linked with --wrap for the functions that allocate, so that an input can say which allocation fails. */
#ifndef PRIMEKNET_FUZZ_H
#define PRIMEKNET_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The nth allocation of this project's code from now on fails; 0: none. Libraries keep theirs: not all bear it. */
void fuzz_fail_allocation(unsigned n);

/* Aborts and says what did not hold. */
#define fuzz_check(holds) ((holds) ? (void)0 : fuzz_abort(__FILE__, __LINE__, #holds))
void fuzz_abort(const char *file, int line, const char *what) __attribute__((noreturn));

/* What is left of an input, taken piece by piece; 0 when there is no more. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};
unsigned fuzz_byte(struct fuzz_input *in);
unsigned fuzz_short(struct fuzz_input *in); /* little-endian, 16 bits */

/* A regular file without a name that holds these bytes. Returns its path, good until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A directory of this process's own, in memory where the system has a place for that; removed at exit with the files in
 * it. */
const char *fuzz_directory(void);
/* How many files are in it, but for hidden ones. */
unsigned fuzz_n_files(void);

#endif
