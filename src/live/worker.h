/* worker.h - the one thread that runs engines, for all pumps. Of the hops that are due it computes the one needed
 * first; those that an engine computes faster together go as one batch. docs/live-path.md says who waits for whom.
 *
 * Threads: every function here runs on the owner's thread, which owns the pumps too. worker_open, worker_engine and
 * worker_close allocate, start and join; the worker's own thread allocates, locks and prints nothing. Errors are
 * -errno.
 *
 * Ownership: an engine given to the worker is the worker's until options.release gives it back, on the owner's thread,
 * once the last pump has let go of it: from pump_dispatch, pump_close, worker_engine or worker_close. */
#ifndef PRIMEKNET_WORKER_H
#define PRIMEKNET_WORKER_H

#include "engine/engine.h"
#include "live/rt.h"

#include <stdbool.h>

#define WORKER_PUMPS 4                              /* that one worker serves at most */
#define PUMP_STREAMS 2                              /* of an engine that a pump uses: the second re-aligns the hops */
#define WORKER_STREAMS (WORKER_PUMPS * PUMP_STREAMS) /* of an engine for all of them */

struct worker;

struct worker_options {
    const struct rt *rt;   /* makes the thread */
    struct engine *engine; /* the first one, with PUMP_STREAMS streams for every pump that there will be */
    unsigned hop_p99_us;   /* of that engine: the p99 of a warm hop's wall-clock time, measured */
    void (*release)(void *data, struct engine *engine); /* called when nobody needs the engine any more: close it */
    void *data;
};

/* Whether an engine's hop and delay, in samples, are short enough for live sound. */
bool worker_takes(unsigned hop, unsigned delay);

/* Starts the thread, with real-time priority if options.rt grants it. The worker owns options.engine only after
 * success. -EINVAL where worker_takes refuses the engine, -ENOMEM, or what options.rt->start returned. */
int worker_open(struct worker **ret, const struct worker_options *options);
void worker_close(struct worker *w); /* NULL is fine; after its pumps are closed; releases every engine */

/* Hands an engine to all pumps: each feeds it beside the present one for at least 300 ms, then cross-fades to it at
 * the same delay. It replaces an engine that still waits for its turn in a pump. hop_p99_us as in worker_options.
 * Returns 0; or -ENOMEM, -EINVAL, or -ENOSPC where it has too few streams, and the engine is then still the caller's.
 */
int worker_engine(struct worker *w, struct engine *engine, unsigned hop_p99_us);
/* What of the process is locked in memory: "all"; "buffers", the samples under way; or "none", not even all of these.
 */
const char *worker_locked(const struct worker *w);
/* Why the thread was refused real-time priority: -errno; 0 where it was not, though it may not have it yet. */
int worker_refusal(const struct worker *w);

#endif
