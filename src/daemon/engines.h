/* engines.h - the engine that the daemon runs, and what takes over from it.
 *
 * With settings.engine "auto" or "cuda" that is the GPU's engine once it is open, if it opens, else the CPU's. The CPU's
 * engine with the CPU's default model also stands in while the GPU rests (nobody has recorded for gpu_idle_s), once it
 * is lost, and while another program keeps it busy: gpu.h. If the CPU does not carry its model, the next lighter one
 * runs until it does: carry.h. Engines are exchanged by worker_engine, inaudibly.
 *
 * Threads: everything on the daemon's one thread. Engines are loaded on another (loader.h), one at a time; the newest
 * request wins. */
#ifndef PRIMEKNET_ENGINES_H
#define PRIMEKNET_ENGINES_H

#include "daemon/loader.h"
#include "live/pump.h"

#include <stdbool.h>
#include <stdint.h>

struct engines;

struct engines_options {
    const struct settings *settings; /* those in force */
    /* Tells the outcome of engines_ask: an engine, to be passed to engines_take or engines_give_back, or why there is
     * none. Called from engines_step. */
    void (*loaded)(void *data, int res, const struct ready_engine *e, const struct err *err);
    void *data;
};

/* Opens the CPU's engine before it returns. Where the settings ask for another one, engines_step has it loaded: a GPU's
 * driver may hang. */
int engines_open(struct engines **ret, const struct engines_options *options, struct err *err);
void engines_close(struct engines *e); /* NULL is fine; after the worker is closed; waits for the loader */
/* The engine that the worker was given last; after engines_open, what node_open is to be given. */
const struct ready_engine *engines_now(const struct engines *e);
void engines_run(struct engines *e, struct worker *worker); /* the worker has taken the first one */

/* Has the loader check other settings and load the engine that they ask for; options.loaded tells the outcome. A model
 * that is not for live sound is refused, and so is a GPU that this machine does not have if the settings newly ask for
 * it; a GPU that is only unavailable now is tried again later (ready_engine.problem). An earlier request, or an engine
 * that is being loaded for another reason, is dropped without a call of options.loaded. NULL takes the request back. */
void engines_ask(struct engines *e, const struct settings *s);
/* Hands such an engine to the worker, or closes it. */
int engines_take(struct engines *e, const struct ready_engine *ready, const struct settings *s, struct err *err);
/* Whether the engine in use, or being loaded, is enough for as many streams as these settings ask for. */
bool engines_has_room(const struct engines *e, const struct settings *s);
/* The settings were read again: what kept the GPU from being used may be gone. */
void engines_retry(struct engines *e);
/* An engine that the worker gives back, or that it never had, and its model. NULL is fine. */
void engines_give_back(struct engines *e, struct engine *engine);

/* The state of the sound, of all pumps together. */
struct engines_load {
    bool heard;         /* somebody records, or plays to the speaker, if only a level meter ... */
    bool recording;     /* ... or more than that */
    bool engine_lost;   /* of any pump, and no other is on its way in there */
    bool swapping;      /* of any pump */
    uint64_t late_hops;
    unsigned n_stalls; /* as in node_status */
    unsigned hop;       /* samples, of the engine that sounds; of several pumps the longest */
    float share;        /* of a hop's time that a hop takes, the median, of the pump with the most */
};

/* Does what is due; returns the ms until something will be, or INT32_MAX. To be called when engines_fd is readable,
 * too. */
int engines_step(struct engines *e, const struct engines_load *load);
int engines_fd(const struct engines *e);

/* The GPU's errors have poisoned the process: only another one can use it again. */
bool engines_wants_restart(const struct engines *e, bool recording);
void engines_no_restart(struct engines *e); /* nobody starts another one */

#endif
