/* engines.h - the network that the daemon runs: which model on which engine, and what takes over.
 *
 * With settings.engine "auto" or "cuda" that is the GPU's engine where it opens, else the CPU's. The CPU's engine with
 * the CPU's default model also stands in while the GPU rests (nobody has recorded for gpu_idle_s), once it is lost, and
 * while another program keeps it busy. Where the CPU does not carry its model, the next lighter one runs until it does
 * (carry.h). Whatever comes next goes through worker_engine, so that nothing is heard of it.
 *
 * Threads: everything on the daemon's one thread, but for engines_options.say. What takes a while, from reading a model
 * to having its engine warm, is done by the loader, a thread of the network's own; there is one at a time, and the newest
 * request wins. */
#ifndef PRIMEKNET_ENGINES_H
#define PRIMEKNET_ENGINES_H

#include "engine/engine.h"
#include "daemon/settings.h"
#include "live/pump.h"

#include <stdbool.h>
#include <stdint.h>

struct engines;
struct ready_engine;

struct engines_options {
    const struct settings *settings; /* those in force */
    /* What engines_ask asked for is there, engines_take's or engines_give_back's, or it is refused and why; from
     * engines_step. */
    void (*loaded)(void *data, int res, const struct ready_engine *e, const struct err *err);
    void *data;
    void (*say)(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3))); /* any thread */
};

/* An engine that is warm and waits for its turn. */
struct ready_engine {
    struct engine *engine; /* its model is its own: see engines_give_back */
    unsigned hop_p99_us, n_streams;
    bool gpu;
    char model[48], engine_name[72], text[128]; /* "base", "cpu (AVX2)", "base on cpu (AVX2)", for people */
    char problem[512]; /* why it is not the GPU's although that was asked for, or "" */
    int why;           /* the error code of `problem`, or 0 */
    char too_heavy[48];  /* the model that would run if this machine carried it, or "" ... */
    unsigned n_lighter;  /* ... by so many models lighter is what runs */
    const char *lighter; /* the next one; NULL: none */
};

/* Opens what the settings ask for, before it returns. A GPU that cannot be had is no reason not to: the CPU is there. */
int engines_open(struct engines **ret, const struct engines_options *options, struct err *err);
void engines_close(struct engines *n); /* NULL is fine; after the worker is closed; waits for the loader */
/* What was handed to the worker last; after engines_open, what node_open is to be given. */
const struct ready_engine *engines_now(const struct engines *n);
void engines_run(struct engines *n, struct worker *worker); /* the worker has taken the first one */

/* Has the loader check other settings and bring the engine that they ask for; options.loaded tells what came of it. Refused
 * are a model that is none for live sound, and, where they newly ask for it, a GPU that this machine does not have; one that
 * only cannot be had now is waited for (ready_engine.problem). What was asked for
 * before, or was on its way for another reason, is dropped, and options.loaded is not called for that. NULL takes it
 * back. */
void engines_ask(struct engines *n, const struct settings *s);
/* Hands such an engine to the worker, or closes it. */
int engines_take(struct engines *n, const struct ready_engine *e, const struct settings *s, struct err *err);
/* Whether what is in use, or on its way, is enough for as many streams as these settings ask for. */
bool engines_has_room(const struct engines *n, const struct settings *s);
/* The settings were read again: what has kept the GPU from being used may be gone. */
void engines_retry(struct engines *n);
/* An engine that the worker gives back, or that it never had, and its model. NULL is fine. */
void engines_give_back(struct engines *n, struct engine *engine);

/* How the sound goes, of all pumps together. */
struct engines_load {
    bool heard;         /* somebody records, or plays to the speaker, if only a level meter ... */
    bool recording;     /* ... or more than that */
    bool engine_lost;   /* of any pump, and no other is on its way in there */
    bool swapping;      /* of any pump */
    uint64_t late_hops;
    float share;        /* of a hop's time that a hop takes, the median, of the pump with the most */
};

/* Does what is due; returns in how many milliseconds something will be, or INT32_MAX. To be called when engines_fd is
 * readable, too. */
int engines_step(struct engines *n, const struct engines_load *load);
int engines_fd(const struct engines *n);

/* The GPU's errors have poisoned the process: only another one can use it again. */
bool engines_wants_restart(const struct engines *n, bool recording);
void engines_no_restart(struct engines *n); /* nobody starts another one */

/* Whether the model that the settings name is one for live sound; "auto" always is. */
int engines_check(const struct settings *s, struct err *err);

#endif
