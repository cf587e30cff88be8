/* bench-print ENCODER: times the voice print of 30 s of noise, all of which counts, with each version of the kernels.
 * Prints a line of JSON for each. */
#include "kernels/kernels.h"
#include "print/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SECONDS = 30, N_TIMES = 5 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int measure(struct voice_print *p, const char *kernels) {
    const size_t n = (size_t)SECONDS * voice_print_rate(p);
    float *sound = malloc(n * sizeof *sound), *print = malloc(voice_print_size(p) * sizeof *print);
    double best = 1e9;
    int code = sound && print ? 0 : -1;
    for (size_t i = 0; i < n && !code; i++)
        sound[i] = .4f * (float)rand() / (float)RAND_MAX - .2f;
    for (unsigned i = 0; i < N_TIMES && !code; i++) {
        const double start = now_ms();
        code = voice_print_compute(p, sound, n, print);
        best = now_ms() - start < best ? now_ms() - start : best;
    }
    if (!code)
        printf("{\"encoder\": \"%s\", \"kernels\": \"%s\", \"seconds\": %d, \"ms\": %.1f}\n", voice_print_name(p),
               kernels, SECONDS, best);
    free(sound);
    free(print);
    return code;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "Usage: bench-print ENCODER\n");
        return 2;
    }
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++) {
        struct err err;
        struct voice_print *p;
        if (voice_print_open(&p, argv[1], k, &err) < 0) {
            fprintf(stderr, "bench-print: %s\n", err.text);
            return 1;
        }
        const int code = measure(p, k->name);
        voice_print_close(p);
        if (code) {
            fprintf(stderr, "bench-print: it failed\n");
            return 1;
        }
    }
    return 0;
}
