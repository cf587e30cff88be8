/* measure.h - how long an engine takes per hop on this machine.
 *
 * For the benchmark, the automatic choice of a model and the daemon's warm-up. Any thread; allocates. */
#ifndef PRIMEKNET_MEASURE_H
#define PRIMEKNET_MEASURE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <time.h>

/* Runs n_hops hops of noise through stream 0, with a level that rises and falls as in speech, then resets the stream.
 * us [n_hops] gets each hop's microseconds in order, measured by `clock`: CLOCK_MONOTONIC for what a caller waits,
 * CLOCK_THREAD_CPUTIME_ID for what the hop itself takes on a busy machine. Stops once more than give_up hops took
 * longer than limit_us (limit_us 0: never), and with -ECANCELED once *stop is true (stop may be NULL). Returns the
 * number of hops run or a negative errno. */
int measure_hops(struct engine *e, unsigned n_hops, clockid_t clock, float *us, float limit_us, unsigned give_up,
                 const _Atomic bool *stop);

/* Sorts us [n] in place and returns the smallest value that at least the share q of all values does not exceed (0 < q
 * <= 1). */
float measure_percentile(float *us, unsigned n, double q);

#endif
