/* bench-chunk MODEL [ENGINE [CALLS MINUTES [FILE]]]: times file work, a line of JSON per case: 1, 4 and 8 s of sound
 * with all hops in one call, CALLS (40) times, and MINUTES (10) of sound in calls of 768 hops, as `primeknet enhance`
 * makes them. Times are those of a call, host to host: copies, analysis, network and synthesis. With a sound file at
 * the model's rate: the SNR of its first channel against the CPU engine's. */
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"

#include <math.h>
#include <sndfile.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_CALLS = 40, N_WARM = 3, MOST_CALLS = 100000, MINUTES = 10, MOST_MINUTES = 1000, LONG_CALL = 768 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int fail(const char *why) {
    fprintf(stderr, "bench-chunk: %s\n", why);
    return EXIT_FAILURE;
}

/* Milliseconds of one call; negative if the engine failed. */
static double time_call(struct engine *e, unsigned n_hops, const float *in, float *out) {
    struct engine_job job = {.n_hops = n_hops, .in = in, .out = out};
    double started = now_ms();
    return engine_process(e, &job, 1) ? -1 : now_ms() - started;
}

/* The first channel of a file, in whole hops; NULL if it cannot be read. */
static float *read_file(const char *name, const struct model *model, unsigned *n_hops) {
    SF_INFO info = {0};
    SNDFILE *file = sf_open(name, SFM_READ, &info);
    if (!file)
        return NULL;
    const unsigned hop = model_hop(model), channels = (unsigned)info.channels;
    const sf_count_t n = info.frames / hop * hop;
    float *x = NULL;
    if (n > 0 && (unsigned)info.samplerate == model_rate(model) && (x = malloc((size_t)n * channels * sizeof *x))) {
        if (sf_readf_float(file, x, n) == n)
            for (sf_count_t i = 0; i < n; i++)
                x[i] = x[i * channels];
        else {
            free(x);
            x = NULL;
        }
    }
    sf_close(file);
    *n_hops = (unsigned)(n / hop);
    return x;
}

/* SNR against the CPU engine's output; NaN if an engine failed. */
static double parity_db(struct engine *engine, const struct model *model, const float *x, unsigned n_hops) {
    const size_t n = (size_t)n_hops * model_hop(model);
    struct engine_options how = {.name = "cpu", .exact = true, .n_streams = 1, .max_hops = 1};
    struct engine *cpu = NULL;
    struct err err;
    float *is = malloc(n * sizeof *is), *should = malloc(n * sizeof *should);
    double signal = 0, difference = 0;
    engine_reset(engine, 0);
    if (is && should && !engine_open(&cpu, &how, model, &err) && time_call(engine, n_hops, x, is) >= 0 &&
        time_call(cpu, n_hops, x, should) >= 0)
        for (size_t i = 0; i < n; i++) {
            signal += (double)should[i] * should[i];
            difference += ((double)is[i] - should[i]) * ((double)is[i] - should[i]);
        }
    engine_close(cpu);
    free(is);
    free(should);
    return 10 * log10(signal / difference);
}

/* Of `seconds` of sound in calls of n_hops; negative if the engine failed. */
static int measure(struct engine *e, unsigned seconds, unsigned n_hops, unsigned n_calls, const float *in, float *out,
                   float *ms) {
    for (unsigned i = 0; i < N_WARM + n_calls; i++) {
        const double took = time_call(e, n_hops, in, out);
        if (took < 0)
            return -1;
        if (i >= N_WARM)
            ms[i - N_WARM] = (float)took;
    }
    const double sound_ms = 1e3 * n_hops * engine_hop(e) / model_rate(engine_model(e));
    const double p50 = measure_percentile(ms, n_calls, .5), p99 = measure_percentile(ms, n_calls, .99);
    printf("{\"model\": \"%s\", \"engine\": \"%s\", \"seconds\": %u, \"calls\": %u, \"hops_per_call\": %u, "
           "\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f, \"times_real_time\": %.0f}\n",
           model_name(engine_model(e)), engine_name(e), seconds, n_calls, n_hops, p50, p99, ms[n_calls - 1],
           sound_ms / p50);
    return 0;
}

int main(int argc, char **argv) {
    const unsigned seconds[] = {1, 4, 8};
    const unsigned long n_calls = argc > 3 ? strtoul(argv[3], NULL, 10) : N_CALLS,
                        minutes = argc > 4 ? strtoul(argv[4], NULL, 10) : MINUTES;
    if (argc < 2 || argc == 4 || argc > 6 || !n_calls || n_calls > MOST_CALLS || !minutes || minutes > MOST_MINUTES) {
        fprintf(stderr, "Usage: bench-chunk MODEL [ENGINE [CALLS MINUTES [FILE]]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct err err;
    struct model *model;
    struct engine *engine;
    struct engine_options how = {.name = argc > 2 ? argv[2] : "cuda", .n_streams = 1, .max_hops = 1500};
    if (model_load(&model, argv[1], &err) || engine_open(&engine, &how, model, &err))
        return fail(err.text);
    const unsigned hop = engine_hop(engine), rate = model_rate(model), long_s = 60 * (unsigned)minutes,
                   n_long = (long_s * rate + LONG_CALL * hop - 1) / (LONG_CALL * hop);
    const size_t most = 8 * (size_t)rate + (size_t)LONG_CALL * hop;
    float *in = malloc(most * sizeof *in), *out = malloc(most * sizeof *out),
          *ms = malloc((n_calls > n_long ? n_calls : n_long) * sizeof *ms);
    if (!in || !out || !ms)
        return fail("out of memory");
    uint32_t random = 1;
    for (size_t i = 0; i < most; i++) {
        random = random * 1664525 + 1013904223;
        in[i] = .1f * ((float)(random >> 8) / 0x1p23f - 1);
    }
    int failed = 0;
    for (unsigned s = 0; !failed && s < sizeof seconds / sizeof *seconds; s++)
        failed = measure(engine, seconds[s], (seconds[s] * rate + hop - 1) / hop, (unsigned)n_calls, in, out, ms);
    if (failed || measure(engine, long_s, LONG_CALL, n_long, in, out, ms))
        return fail("the engine failed");
    if (argc > 5) {
        unsigned n_file;
        float *x = read_file(argv[5], model, &n_file);
        if (!x)
            return fail("the file cannot be read, or is not of the model's rate");
        printf("{\"model\": \"%s\", \"engine\": \"%s\", \"file_s\": %.1f, \"snr_to_cpu_db\": %.1f}\n",
               model_name(model), engine_name(engine), (double)n_file * hop / rate,
               parity_db(engine, model, x, n_file));
        free(x);
    }
    engine_close(engine);
    model_free(model);
    free(in);
    free(out);
    free(ms);
    return EXIT_SUCCESS;
}
