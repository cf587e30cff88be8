/* times.h - how long batches of hops take: percentiles of the last TIMES_KEPT of them, from a histogram.
 *
 * Threads: times_seed before the worker's thread sees it, times_add on the worker's thread; the percentiles may be read
 * from any thread. times_add is real-time safe. */
#ifndef PRIMEKNET_TIMES_H
#define PRIMEKNET_TIMES_H

#include <stdatomic.h>
#include <stdint.h>

#define TIMES_KEPT 2048 /* batches */
#define TIMES_RECENT 256 /* of these, the ones that show whether a busy moment is over */
#define TIMES_BINS 336  /* 16 per octave from 1 us: about 4 % each, up to 2 s */

/* What is known of the batches kept: a row per statistic, and the percentage of batches that takes at most so long. Its
 * value is NAME_us. Those of hops are in pump_stats, and in the daemon's status as hop_NAME_us. */
#define TIMES_STATISTICS(ROW) \
    ROW(p50, 50) \
    ROW(p99, 99) \
    ROW(max, 100)

struct times {
    uint16_t bin[TIMES_KEPT]; /* of batch n % TIMES_KEPT */
    uint16_t count[TIMES_BINS], recent[TIMES_BINS]; /* of all that are kept, of the last TIMES_RECENT */
    uint64_t n;       /* batches so far */
    unsigned seed_us; /* what batches count as before they are measured; 0 where only measured times count */
    _Atomic unsigned recent_p99_us;
#define ROW(name, percent) _Atomic unsigned name##_us;
    TIMES_STATISTICS(ROW)
#undef ROW
};

/* p99 starts at `us`, measured elsewhere: until 1000 batches are measured, the others count as if they took so long.
 * Likewise recent_p99, until TIMES_RECENT are. */
void times_seed(struct times *t, unsigned us);
/* Adds a batch that took `ns`. */
void times_add(struct times *t, uint64_t ns);

#endif
