/* worker.h - the thread that runs the engines for all pumps. It computes the hop with the earliest deadline first, and
 * batches hops that the engine computes faster together. docs/live-path.md explains who waits for whom.
 *
 * Threads: call every function on the owner's thread, which also owns the pumps. worker_open, worker_engine and
 * worker_close allocate, start and join threads. The worker's own thread does not allocate, lock or print. Errors are
 * -errno.
 *
 * Ownership: the worker owns an engine passed to it until it calls options.release, after the last pump has released
 * the engine. That happens on the owner's thread, within pump_dispatch, pump_close, worker_engine or worker_close. */
#ifndef PRIMEKNET_WORKER_H
#define PRIMEKNET_WORKER_H

#include "engine/engine.h"
#include "live/rt.h"

#include <stdbool.h>

#define WORKER_PUMPS 4                               /* at most, per worker */
#define PUMP_STREAMS 2                               /* of an engine, per pump: the second is for realigning hops */
#define WORKER_STREAMS (WORKER_PUMPS * PUMP_STREAMS) /* of an engine, for all pumps */

struct worker;

struct worker_options {
    const struct rt *rt;   /* creates the thread */
    struct engine *engine; /* the first one, with PUMP_STREAMS streams for each future pump */
    unsigned hop_p99_us;   /* of that engine: the measured p99 of a warm hop's wall-clock time */
    void (*release)(void *data, struct engine *engine); /* closes an engine that is no longer used */
    void *data;
};

/* Whether an engine's hop and delay, in samples, are short enough for live sound. */
bool worker_takes(unsigned hop, unsigned delay);

/* Starts the thread, with real-time priority if options.rt grants it. Takes ownership of options.engine only on
 * success. Returns 0; -EINVAL if worker_takes refuses the engine; -ENOMEM; or the error of options.rt->start. */
int worker_open(struct worker **ret, const struct worker_options *options);
void worker_close(struct worker *w); /* w may be NULL; close its pumps first; releases all engines */

/* Passes a new engine to all pumps. Each feeds it beside the current one for at least 300 ms, then cross-fades to it at
 * the same delay. It replaces an engine that a pump has not started to feed yet. hop_p99_us: as in worker_options.
 * Returns 0, or -ENOMEM, -EINVAL, or -ENOSPC if it has too few streams; the caller then still owns it. */
int worker_engine(struct worker *w, struct engine *engine, unsigned hop_p99_us);
/* Returns what is locked in memory: "all" of the process, "buffers" (rings and engine streams), or "none" if these are
 * not all locked. */
const char *worker_locked(const struct worker *w);
/* Returns why real-time priority was refused, as -errno; 0 if it was not refused, though it may not be granted yet. */
int worker_refusal(const struct worker *w);

#endif
