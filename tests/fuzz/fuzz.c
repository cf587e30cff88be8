#include "config.h"

#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- allocations ------------------------------------------------------------------------------------------------- */

static unsigned until_failure;

static int fails(void) {
    if (!until_failure || --until_failure)
        return 0;
    errno = ENOMEM;
    return 1;
}

/* The linker sends the calls of malloc here and calls the C library's __real_malloc. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : __real_strdup(text);
}

void fuzz_fail_allocation(unsigned n) {
    until_failure = n;
}

/* ---- checks, input ----------------------------------------------------------------------------------------------- */

void fuzz_abort(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

unsigned fuzz_byte(struct fuzz_input *in) {
    if (!in->size)
        return 0;
    in->size--;
    return *in->data++;
}

unsigned fuzz_short(struct fuzz_input *in) {
    const unsigned low = fuzz_byte(in);
    return low | fuzz_byte(in) << 8;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

const char *fuzz_file(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    fuzz_check(fd >= 0 && ftruncate(fd, 0) == 0);
    fuzz_check(pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

static char directory[] = "/dev/shm/primeknet-fuzz-XXXXXX";
static char fallback[] = "/tmp/primeknet-fuzz-XXXXXX";
static char *made;

static void remove_directory(void) {
    char path[512];
    DIR *d = opendir(made);
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", made, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(made);
}

const char *fuzz_directory(void) {
    if (!made) {
        made = mkdtemp(directory);
        if (!made)
            made = mkdtemp(fallback);
        fuzz_check(made);
        atexit(remove_directory);
    }
    return made;
}

unsigned fuzz_n_files(void) {
    unsigned n = 0;
    DIR *d = opendir(fuzz_directory());
    fuzz_check(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
