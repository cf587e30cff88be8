/* measure.h - how long an engine takes for a hop on this machine.
 *
 * Used by the benchmark, by the automatic choice of a model and by the daemon's warm-up. Any thread; allocates. */
#ifndef PRIMEKNET_MEASURE_H
#define PRIMEKNET_MEASURE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <time.h>

/* Runs stream 0 for n_hops hops of noise whose level rises and falls as speech does, and leaves the stream reset.
 * us: [n_hops], microseconds of each hop in the order run, by `clock`: CLOCK_MONOTONIC for what a caller waits, or
 * CLOCK_THREAD_CPUTIME_ID for what the hop itself takes, however busy the machine is with other things. Stops early, once more than give_up hops took longer than
 * limit_us (limit_us 0: never), and with -ECANCELED once *stop is true (NULL: never). Returns the number of hops run, or a
 * negative errno. */
int measure_hops(struct engine *e, unsigned n_hops, clockid_t clock, float *us, float limit_us, unsigned give_up,
                 const _Atomic bool *stop);

/* Sorts us in place and gives its smallest value with at least the share q of all values at or below it (0 < q <= 1). */
float measure_percentile(float *us, unsigned n, double q);

#endif
