/* worker.h - the one thread that runs engines, for every pump: hops that are due together go through the engine as one
 * batch where that takes less than one after another; what is needed first comes first. docs/live-path.md tells who waits
 * for whom.
 *
 * Threads: everything here on one thread, the owner's, which is the pumps' owner too. The worker's own thread
 * allocates, locks and prints nothing.
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
    unsigned hop_p99_us;   /* of that engine: wall-clock time of a warm hop, measured, all but the slowest 1 % */
    void (*release)(void *data, struct engine *engine); /* nobody needs it any more: close it */
    void *data;
};

/* Whether an engine with such a hop and delay, in samples, is one for live sound. */
bool worker_takes(unsigned hop, unsigned delay);

/* Starts the thread, with real-time priority if options.rt grants it. The worker owns options.engine only after
 * success. -EINVAL where the engine's hop and window are too long for live sound. */
int worker_open(struct worker **ret, const struct worker_options *options);
void worker_close(struct worker *w); /* NULL is fine; after its pumps are closed; releases every engine */

/* Takes an engine in, for all pumps: each feeds it live beside the present one for at least 300 ms, then cross-fades it
 * in at the same delay. An engine that still waits for its turn in a pump is replaced. Returns 0, -ENOMEM, -EINVAL or,
 * where it has too few streams, -ENOSPC, the engine then still the caller's. */
int worker_engine(struct worker *w, struct engine *engine, unsigned hop_p99_us);
/* What of the process is locked in memory: "all"; "buffers", all samples that are under way; "none", at least not all of these. */
const char *worker_locked(const struct worker *w);
unsigned worker_hop(const struct worker *w); /* samples, of the newest engine */
/* Why the thread was refused real-time priority, -errno; 0 where it was not, though it may still wait for it. */
int worker_refusal(const struct worker *w);

#endif
