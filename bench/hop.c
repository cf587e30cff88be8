/* bench-hop MODEL [ENGINE [HOPS PACED]]: times hops from input samples to output samples, as live sound runs them: HOPS
 * back to back, then PACED in real time (both 20 000 by default). Prints a line of JSON for each.
 * PRIMEKNET_CUDA_WAIT=spin|block chooses how the engine waits for the GPU. */
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { N_HOPS = 20000, N_WARM = 200, N_SOUNDS = 64, MOST_HOPS = 1000000 };

static int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int measure(struct engine *e, const float *sound, unsigned n_hops, float *us, int64_t hop_ns) {
    const unsigned hop = engine_hop(e);
    float *out = calloc(hop, sizeof *out);
    int64_t cpu_ns = 0, due_ns = now_ns(CLOCK_MONOTONIC);
    int code = out ? 0 : -1;
    for (unsigned i = 0; !code && i < N_WARM + n_hops; i++) {
        struct engine_job job = {.n_hops = 1, .in = sound + (size_t)(i % N_SOUNDS) * hop, .out = out};
        if (hop_ns) {
            due_ns += hop_ns;
            struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        }
        int64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), start = now_ns(CLOCK_MONOTONIC);
        code = engine_process(e, &job, 1);
        if (i >= N_WARM) {
            us[i - N_WARM] = (float)(now_ns(CLOCK_MONOTONIC) - start) / 1000;
            cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        }
    }
    free(out);
    if (code || !n_hops)
        return code;
    float p50 = measure_percentile(us, n_hops, .5), p99 = measure_percentile(us, n_hops, .99);
    printf("{\"model\": \"%s\", \"engine\": \"%s\", \"paced\": %s, \"hops\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"cpu_us\": %.1f}\n",
           model_name(engine_model(e)), engine_name(e), hop_ns ? "true" : "false", n_hops, p50, p99, us[n_hops - 1],
           (double)cpu_ns / 1000 / n_hops);
    return 0;
}

int main(int argc, char **argv) {
    struct err err;
    struct model *m = NULL;
    struct engine *e = NULL;
    const unsigned long n_hops = argc > 3 ? strtoul(argv[3], NULL, 10) : N_HOPS,
                        n_paced = argc > 4 ? strtoul(argv[4], NULL, 10) : N_HOPS;
    if (argc < 2 || argc == 4 || argc > 5 || n_hops > MOST_HOPS || n_paced > MOST_HOPS) {
        fprintf(stderr, "Usage: bench-hop MODEL [ENGINE [HOPS PACED]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_TIMERSLACK, 1); /* as precise as a real-time thread's sleep */
    struct engine_options options = {.name = argc > 2 ? argv[2] : "cuda", .n_streams = 1, .max_hops = 1};
    if (model_load(&m, argv[1], &err) < 0 || engine_open(&e, &options, m, &err) < 0) {
        fprintf(stderr, "bench-hop: %s\n", err.text);
        model_free(m);
        return 1;
    }
    const size_t n = (size_t)N_SOUNDS * engine_hop(e);
    float *sound = malloc(n * sizeof *sound), *us = malloc((n_hops > n_paced ? n_hops : n_paced) * sizeof *us + 1);
    int failed = !sound || !us;
    for (size_t i = 0; !failed && i < n; i++)
        sound[i] = .4f * (float)rand() / (float)RAND_MAX - .2f;
    const int64_t hop_ns = INT64_C(1000000000) * engine_hop(e) / model_rate(m);
    failed = failed || measure(e, sound, (unsigned)n_hops, us, 0) || measure(e, sound, (unsigned)n_paced, us, hop_ns);
    if (failed)
        fprintf(stderr, "bench-hop: the engine failed\n");
    free(sound);
    free(us);
    engine_close(e);
    model_free(m);
    return failed;
}
