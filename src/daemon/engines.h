/* engines.h - selects the engine that the daemon runs, and replaces it when necessary.
 *
 * With settings.engine "auto" or "cuda", the daemon runs the GPU's engine once it has opened, and the CPU's until then
 * or if it does not open. The CPU's engine with the CPU's default model also runs while the GPU rests (nobody has
 * recorded for gpu_idle_s), after the GPU was lost, and while another program keeps it busy: see gpu.h. If the CPU is
 * too slow for its model, the next lighter one runs: see carry.h. worker_engine exchanges engines inaudibly.
 *
 * Threads: call everything on the daemon's main thread. Another thread (loader.h) loads engines, one at a time; the
 * newest request wins. */
#ifndef PRIMEKNET_ENGINES_H
#define PRIMEKNET_ENGINES_H

#include "daemon/loader.h"
#include "live/pump.h"

#include <stdbool.h>
#include <stdint.h>

struct engines;

struct engines_options {
    const struct settings *settings; /* the settings in force */
    /* Receives the result of engines_ask: an engine to pass to engines_take or engines_give_back, or an error. Called
     * from engines_step. */
    void (*loaded)(void *data, int res, const struct ready_engine *e, const struct err *err);
    void *data;
};

/* Opens the CPU's engine before it returns. If the settings request another one, engines_step loads it later, because a
 * GPU's driver may hang. Returns 0 or -errno. */
int engines_open(struct engines **ret, const struct engines_options *options, struct err *err);
void engines_close(struct engines *e); /* e may be NULL; close the worker first; waits for the loader */
/* Returns the engine that was last passed to the worker; after engines_open, the one to pass to node_open. */
const struct ready_engine *engines_now(const struct engines *e);
void engines_run(struct engines *e, struct worker *worker); /* the worker has taken over the first engine */

/* Makes the loader check new settings and load the engine that they request; options.loaded receives the result. Fails
 * for a model that is not suitable for live sound, and for a GPU that this machine lacks if the settings newly request
 * it. A GPU that is only unavailable now is retried later (ready_engine.problem). Drops an earlier request, or an
 * engine that is being loaded for another reason, without calling options.loaded. s == NULL cancels the request. */
void engines_ask(struct engines *e, const struct settings *s);
/* Passes such an engine to the worker or, on failure, closes it. Returns 0 or -errno. */
int engines_take(struct engines *e, const struct ready_engine *ready, const struct settings *s, struct err *err);
/* Whether the engine in use, or being loaded, has enough streams for these settings. */
bool engines_has_room(const struct engines *e, const struct settings *s);
/* Call it after the settings were read again: the reason for not using the GPU may be gone. */
void engines_retry(struct engines *e);
/* Closes an engine that the worker has released, or never took over, and its model. engine may be NULL. */
void engines_give_back(struct engines *e, struct engine *engine);

/* The load of all pumps together. */
struct engines_load {
    bool heard;       /* somebody records (if only a level meter), or plays to the speaker */
    bool recording;   /* somebody other than a level meter does */
    bool engine_lost; /* in any pump, and no other engine is being swapped in there */
    bool swapping;    /* in any pump */
    uint64_t late_hops;
    unsigned n_stalls; /* as in node_status */
    unsigned hop;      /* samples, of the audible engine; the longest of all pumps */
    float share;       /* the share of a hop's duration that the median hop takes; the highest of all pumps */
};

/* Does what is due, and returns the ms until the next call, or INT32_MAX. Also call it when engines_fd is readable. */
int engines_step(struct engines *e, const struct engines_load *load);
int engines_fd(const struct engines *e);

/* Whether the daemon should restart, because after the GPU's errors only a new process can use it again. */
bool engines_wants_restart(const struct engines *e, bool recording);
void engines_no_restart(struct engines *e); /* nothing would restart the daemon */

#endif
