/* fuzz.h - helpers for the fuzz targets. A target is LLVMFuzzerTestOneInput; libFuzzer calls it or, with the inputs in
 * corpus/, replay.c. It aborts when an invariant does not hold. One thread, unless a target starts others.
 *
 * Targets are linked with --wrap for the allocating functions, so that an input can select which allocation fails. */
#ifndef PRIMEKNET_FUZZ_H
#define PRIMEKNET_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes the nth allocation by this project's code from now on fail; 0: none. Allocations by libraries do not fail,
 * since not all libraries handle that. */
void fuzz_fail_allocation(unsigned n);

/* Prints the condition that does not hold, and aborts. */
#define fuzz_check(holds) ((holds) ? (void)0 : fuzz_abort(__FILE__, __LINE__, #holds))
void fuzz_abort(const char *file, int line, const char *what) __attribute__((noreturn));

/* The rest of an input. The functions consume it, and return 0 at its end. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};
unsigned fuzz_byte(struct fuzz_input *in);
unsigned fuzz_short(struct fuzz_input *in); /* little-endian, 16 bits */

/* Writes these bytes to an unnamed regular file. Returns its path, valid until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* Returns a directory of this process, in memory if the system offers that; removed at exit with its files. */
const char *fuzz_directory(void);
/* Returns the number of files in it, without hidden ones. */
unsigned fuzz_n_files(void);

#endif
