/* Runs a fuzz target on files, or on all its inputs in corpus/, so that it serves as a test with any compiler. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static void replay(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    fuzz_check(f && data);
    const size_t n = fread(data, 1, 1 << 20, f);
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last one told is the one that failed */
    LLVMFuzzerTestOneInput(data, n);
    free(data);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (argc > 1)
        return 0;
    DIR *d = opendir(CORPUS);
    unsigned n = 0;
    char path[4096];
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", CORPUS, e->d_name);
        replay(path);
        n++;
    }
    fuzz_check(n > 0);
    closedir(d);
    return 0;
}
