/* Times file work of an engine: calls of 1, 4 and 8 s of sound, all hops in one call, and ten minutes in calls of 512 hops
 * as `primeknet enhance` makes them. Times are host to host: copies, analysis, network and synthesis. */
#include "engine.h"
#include "measure.h"
#include "model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { n_calls = 40, long_call = 512, ten_minutes = 600 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int fail(const char *why) {
    fprintf(stderr, "bench-chunk: %s\n", why);
    return EXIT_FAILURE;
}

/* Milliseconds of one call; negative where the engine failed. */
static double time_call(struct engine *e, unsigned n_hops, const float *in, float *out) {
    struct engine_job job = {.n_hops = n_hops, .in = in, .out = out};
    double started = now_ms();
    return engine_process(e, &job, 1) ? -1 : now_ms() - started;
}

int main(int argc, char **argv) {
    const unsigned seconds[] = {1, 4, 8};
    const char *model_name = argc > 1 ? argv[1] : "large";
    struct err err;
    struct model *model;
    struct engine *engine;
    struct engine_options how = {.name = argc > 2 ? argv[2] : "cuda", .n_streams = 1, .max_hops = 1500};
    double started = now_ms();
    if (model_load(&model, model_name, &err) || engine_open(&engine, &how, model, &err))
        return fail(err.text);
    const unsigned hop = engine_hop(engine), rate = model_rate(model);
    const size_t most = 8 * (size_t)rate + hop + (size_t)long_call * hop;
    float *in = malloc(most * sizeof *in), *out = malloc(most * sizeof *out), ms[n_calls];
    if (!in || !out)
        return fail("out of memory");
    printf("%s on %s, opened in %.0f ms\n", model_name, engine_name(engine), now_ms() - started);
    uint32_t random = 1;
    for (size_t i = 0; i < most; i++) {
        random = random * 1664525 + 1013904223;
        in[i] = .1f * ((float)(random >> 8) / 0x1p23f - 1);
    }
    for (unsigned s = 0; s < sizeof seconds / sizeof *seconds; s++) {
        const unsigned n_hops = (seconds[s] * rate + hop - 1) / hop;
        for (unsigned i = 0; i < n_calls + 3; i++) {
            double took = time_call(engine, n_hops, in, out);
            if (took < 0)
                return fail("the engine failed");
            if (i >= 3)
                ms[i - 3] = (float)took;
        }
        printf("  %u s of sound (%u hops): p50 %.2f ms, p99 %.2f ms, %.0f times real time\n", seconds[s], n_hops,
               (double)measure_percentile(ms, n_calls, .5), (double)measure_percentile(ms, n_calls, .99),
               1e3 * seconds[s] / (double)measure_percentile(ms, n_calls, .5));
    }
    const unsigned n_hops = ten_minutes * rate / hop;
    started = now_ms();
    for (unsigned done = 0; done < n_hops; done += long_call)
        if (time_call(engine, long_call, in, out) < 0)
            return fail("the engine failed");
    printf("  ten minutes: %.3f s, %.0f times real time\n", (now_ms() - started) / 1e3, ten_minutes * 1e3 / (now_ms() - started));
    engine_close(engine);
    model_free(model);
    free(in);
    free(out);
    return EXIT_SUCCESS;
}
