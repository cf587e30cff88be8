#include "live/reduction.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

static const float silence = 1e-12f; /* -120 dBFS: a microphone that is switched off has no noise to reduce */

void reduction_restart(struct reduction *r) {
    for (unsigned i = 0; i < REDUCTION_CELLS; i++)
        atomic_store_explicit(&r->in[i], 0, memory_order_relaxed);
    r->sum_in = r->sum_out = 0;
    r->n = 0;
}

void reduction_add(struct reduction *r, const float *in, const float *out, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        r->sum_in += in[i] * in[i];
        r->sum_out += out[i] * out[i];
        if (++r->n < REDUCTION_CELL)
            continue;
        atomic_store_explicit(&r->out[r->next], r->sum_out / REDUCTION_CELL, memory_order_relaxed);
        atomic_store_explicit(&r->in[r->next], r->sum_in / REDUCTION_CELL, memory_order_relaxed);
        r->next = (r->next + 1) % REDUCTION_CELLS;
        r->sum_in = r->sum_out = 0;
        r->n = 0;
    }
}

struct cell {
    float db, in;
};

static int most_removed_first(const void *a, const void *b) {
    const float x = ((const struct cell *)a)->db, y = ((const struct cell *)b)->db;
    return (x < y) - (x > y);
}

bool reduction_read(const struct reduction *r, float *db, float *noise) {
    struct cell cells[REDUCTION_CELLS];
    unsigned n = 0;
    for (unsigned i = 0; i < REDUCTION_CELLS; i++) {
        const float in = atomic_load_explicit(&r->in[i], memory_order_relaxed);
        const float out = atomic_load_explicit(&r->out[i], memory_order_relaxed);
        if (in > silence && isfinite(in) && isfinite(out))
            cells[n++] = (struct cell){fminf(10 * log10f(in / fmaxf(out, 1e-3f * silence)), REDUCTION_MOST_DB), in};
    }
    if (n < REDUCTION_LEAST)
        return false;
    qsort(cells, n, sizeof *cells, most_removed_first);
    double sum_db = 0, sum_in = 0;
    const unsigned taken = n / REDUCTION_SHARE;
    for (unsigned i = 0; i < taken; i++) {
        sum_db += (double)cells[i].db;
        sum_in += (double)cells[i].in;
    }
    *db = (float)fmax(0, sum_db / taken);
    *noise = (float)sqrt(sum_in / taken);
    return true;
}
