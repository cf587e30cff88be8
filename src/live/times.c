#include "config.h"

#include "live/times.h"

#include <math.h>

#define SEEDED 1000 /* batches after which the seed no longer counts */
#define REFRESH 16  /* batches between two updates of the percentiles */

static unsigned time_bin(uint64_t ns) {
    const double bin = 16 * log2((double)ns / 1000);
    return bin < 0 ? 0 : bin >= TIMES_BINS ? TIMES_BINS - 1 : (unsigned)bin;
}

/* The upper edge of a bin, so that no time is reported as shorter than it was. */
static unsigned bin_us(unsigned bin) {
    return (unsigned)ceil(exp2((bin + 1) / 16.0));
}

void times_seed(struct times *t, unsigned us) {
    t->seed_us = us;
    atomic_init(&t->p99_us, us);
}

static void update(struct times *t) {
    const unsigned n = t->n < TIMES_KEPT ? (unsigned)t->n : TIMES_KEPT;
    unsigned sum = 0;
#define ROW(name, percent) unsigned name = 0;
    TIMES_STATISTICS(ROW)
#undef ROW
    for (unsigned i = 0; i < TIMES_BINS; i++) {
        sum += t->count[i];
#define ROW(name, percent) \
    if (!name && 100 * sum >= (percent) * n) \
        name = bin_us(i);
        TIMES_STATISTICS(ROW)
#undef ROW
    }
    if (t->n < SEEDED && p99 < t->seed_us)
        p99 = t->seed_us;
#define ROW(name, percent) atomic_store_explicit(&t->name##_us, name, memory_order_relaxed);
    TIMES_STATISTICS(ROW)
#undef ROW
}

void times_add(struct times *t, uint64_t ns) {
    uint16_t *const bin = &t->bin[t->n % TIMES_KEPT];
    if (t->n >= TIMES_KEPT)
        t->count[*bin]--;
    *bin = (uint16_t)time_bin(ns);
    t->count[*bin]++;
    t->n++;
    if (t->n <= REFRESH || t->n % REFRESH == 0)
        update(t);
}
