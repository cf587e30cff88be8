/* times.h - statistics of how long batches of hops take: percentiles of the last TIMES_KEPT batches, from a histogram.
 *
 * Threads: call times_seed before the worker's thread sees the structure, and times_add, which is real-time safe, on
 * the worker's thread. Any thread may read the percentiles. */
#ifndef PRIMEKNET_TIMES_H
#define PRIMEKNET_TIMES_H

#include <stdatomic.h>
#include <stdint.h>

#define TIMES_KEPT 2048  /* batches */
#define TIMES_RECENT 256 /* the last ones, which show whether a load peak is over */
#define TIMES_BINS 336   /* 16 per octave from 1 us: about 4 % each, up to 2 s */

/* The statistics: a row each, with the percentage of batches that take at most this long. The value is NAME_us.
 * pump_stats and the daemon's status have those of hops as hop_NAME_us. */
#define TIMES_STATISTICS(ROW) \
    ROW(p50, 50) \
    ROW(p99, 99) \
    ROW(max, 100)

struct times {
    uint16_t bin[TIMES_KEPT];                       /* of batch n % TIMES_KEPT */
    uint16_t count[TIMES_BINS], recent[TIMES_BINS]; /* histograms of the last TIMES_KEPT and TIMES_RECENT batches */
    uint64_t n;                                     /* batches so far */
    unsigned seed_us; /* the assumed time of batches not measured yet; 0: only measured times count */
    _Atomic unsigned recent_p99_us;
#define ROW(name, percent) _Atomic unsigned name##_us;
    TIMES_STATISTICS(ROW)
#undef ROW
};

/* Sets the initial p99 to `us`, measured elsewhere. Until 1000 batches are measured, the missing ones count as if they
 * took this long. The same holds for recent_p99 until TIMES_RECENT are. */
void times_seed(struct times *t, unsigned us);
/* Adds a batch that took `ns`. */
void times_add(struct times *t, uint64_t ns);

#endif
