#include "config.h"

#include "live/times.h"

#include <math.h>

#define SEEDED 1000 /* batches after which the seed has no effect */
#define REFRESH 16  /* batches between two updates of the percentiles */

static unsigned time_bin(uint64_t ns) {
    const double bin = 16 * log2((double)ns / 1000);
    return bin < 0 ? 0 : bin >= TIMES_BINS ? TIMES_BINS - 1 : (unsigned)bin;
}

/* Returns the upper edge of a bin, so that no time is reported as too short. */
static unsigned bin_us(unsigned bin) {
    return (unsigned)ceil(exp2((bin + 1) / 16.0));
}

void times_seed(struct times *t, unsigned us) {
    t->seed_us = us;
    atomic_init(&t->p99_us, us);
    atomic_init(&t->recent_p99_us, us);
}

/* Returns the time that `percent` of n batches take at most. If n < least, the missing batches count with the seed's
 * time. */
static unsigned percentile(const struct times *t, const uint16_t count[TIMES_BINS], unsigned percent, unsigned n,
                           unsigned least) {
    const unsigned missing = t->seed_us && n < least ? least - n : 0, wanted = percent * (n + missing);
    const unsigned seeded = missing ? time_bin(t->seed_us * 1000ull) : TIMES_BINS;
    unsigned sum = 0;
    for (unsigned i = 0; i < TIMES_BINS; i++) {
        sum += count[i];
        if (i == seeded && 100 * sum < wanted && 100 * (sum + missing) >= wanted)
            return t->seed_us;
        if (100 * (sum + (i > seeded ? missing : 0)) >= wanted)
            return bin_us(i);
    }
    return 0;
}

static unsigned at_most(uint64_t n, unsigned most) {
    return n < most ? (unsigned)n : most;
}

static void update(struct times *t) {
    const unsigned n = at_most(t->n, TIMES_KEPT);
#define ROW(name, percent) \
    atomic_store_explicit(&t->name##_us, percentile(t, t->count, percent, n, (percent) == 99 ? SEEDED : 0), \
                          memory_order_relaxed);
    TIMES_STATISTICS(ROW)
#undef ROW
    atomic_store_explicit(&t->recent_p99_us, percentile(t, t->recent, 99, at_most(t->n, TIMES_RECENT), TIMES_RECENT),
                          memory_order_relaxed);
}

void times_add(struct times *t, uint64_t ns) {
    uint16_t *const bin = &t->bin[t->n % TIMES_KEPT];
    if (t->n >= TIMES_KEPT)
        t->count[*bin]--;
    if (t->n >= TIMES_RECENT)
        t->recent[t->bin[(t->n - TIMES_RECENT) % TIMES_KEPT]]--;
    *bin = (uint16_t)time_bin(ns);
    t->count[*bin]++;
    t->recent[*bin]++;
    t->n++;
    if (t->n <= REFRESH || t->n % REFRESH == 0)
        update(t);
}
