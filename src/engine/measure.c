#include "engine/measure.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static double now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

int measure_hops(struct engine *e, unsigned n_hops, clockid_t clock, float *us, float limit_us, unsigned give_up,
                 const _Atomic bool *stop) {
    unsigned hop = engine_hop(e), done = 0, slow = 0;
    float *buffer = malloc(hop * sizeof *buffer);
    if (!buffer)
        return -ENOMEM;
    uint32_t random = 1;
    int r = 0;
    while (done < n_hops && (limit_us <= 0 || slow <= give_up)) {
        float level = .05f * (1 + sinf(.05f * done));
        for (unsigned i = 0; i < hop; i++) {
            random = random * 1664525u + 1013904223u;
            buffer[i] = level * ((random >> 8) / 8388608.f - 1);
        }
        struct engine_job job = {.n_hops = 1, .in = buffer, .out = buffer};
        double start = now_us(clock);
        r = engine_process(e, &job, 1);
        us[done] = now_us(clock) - start;
        if (r == 0 && stop && *stop)
            r = -ECANCELED;
        if (r < 0)
            break;
        slow += limit_us > 0 && us[done] > limit_us;
        done++;
    }
    free(buffer);
    if (r < 0)
        return r;
    engine_reset(e, 0);
    return done;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float measure_percentile(float *us, unsigned n, double q) {
    qsort(us, n, sizeof *us, ascending);
    unsigned rank = ceil(q * n);
    return us[rank ? rank - 1 : 0];
}
