/* measure.h - measures how long an engine takes per hop on this machine.
 *
 * For the benchmark, the automatic choice of a model and the daemon's warm-up. Any thread; allocates. */
#ifndef PRIMEKNET_MEASURE_H
#define PRIMEKNET_MEASURE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <time.h>

/* Runs n_hops hops of noise through stream 0, with a level that rises and falls as in speech, then resets the stream.
 * Writes each hop's microseconds to us [n_hops], measured by `clock`: CLOCK_MONOTONIC for the time that a caller waits,
 * CLOCK_THREAD_CPUTIME_ID for the hop's own time on a busy machine. Stops once more than give_up hops took longer than
 * limit_us (0: no limit). Returns the number of hops run, -ECANCELED once *stop is true (stop may be NULL), or another
 * negative errno. */
int measure_hops(struct engine *e, unsigned n_hops, clockid_t clock, float *us, float limit_us, unsigned give_up,
                 const _Atomic bool *stop);

/* Sorts us [n] in place and returns the smallest value that at least the share q of all values does not exceed (0 < q
 * <= 1). */
float measure_percentile(float *us, unsigned n, double q);

#endif
