/* loader.h - opens an engine with its model and warms it up, on a thread of its own.
 *
 * One task at a time. Threads: call all functions on one thread. */
#ifndef PRIMEKNET_LOADER_H
#define PRIMEKNET_LOADER_H

#include "daemon/settings.h"
#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A warm engine that is ready for use. */
struct ready_engine {
    struct engine *engine; /* owns its model; close it with loader_close_engine */
    unsigned hop_p99_us, n_streams;
    bool gpu;
    char model[48], engine_name[72], text[128]; /* for display: "base", "cpu (AVX2)", "base on cpu (AVX2)" */
    struct err problem;                         /* why it is not the requested GPU's engine, or "" */
    int why;                                    /* the error code of `problem`, or 0 */
    char too_heavy[48];                         /* the requested model for which this machine is too slow, or "" ... */
    unsigned n_lighter;                         /* ... and by how many models this one is lighter */
    const char *lighter;                        /* the next lighter model; NULL: none */
    bool unmeasured;     /* a model that surely fits; the best one for the processor is not measured yet */
    bool unsure;         /* another measurement may select a heavier model */
    struct err no_voice; /* why my_voice is not in force, with a code of protocol.h; or "" */
    bool provisional;    /* an engine that surely fits; the GPU's driver, which may hang, has not been tried yet */
};

/* The purpose of loading an engine. */
enum role {
    PROVISIONAL, /* at startup: the engine that the settings request; the CPU's if that may be the GPU's ... */
    FIRST,       /* ... and then the requested one, or the nearest available */
    ASKED,       /* the engine that new settings request, or the nearest available */
    WANTED,      /* the GPU's, as the settings in force request */
    STAND_IN,    /* the CPU's in place of the GPU's */
    REPLACEMENT, /* the CPU's in place of one that failed */
    LIGHTER,     /* the CPU's with a lighter model ... */
    HEAVIER,     /* ... or a heavier one */
    MEASURED,    /* the CPU's with the measured best model, in place of an unmeasured one ... */
    AGAIN,       /* ... or of an unsure one; no engine if the model is the same */
};

struct load_task {
    enum role role;
    struct settings settings;
    unsigned n_pumps;    /* pumps that the engine must serve */
    unsigned n_lighter;  /* see ready_engine */
    const char *instead; /* MEASURED, AGAIN: the current model */
    bool hurry;          /* do not measure anything */
    bool awake;          /* this process has a context on the GPU, so the GPU does not sleep */
    bool poisoned;       /* this process cannot use the GPU */
    int demanded;        /* the setting that newly requests the GPU, or another GPU; -1: none */
};

struct load_result {
    int res;
    struct err err;
    struct ready_engine ready; /* if res is 0: the receiver owns it; MEASURED and AGAIN may have no engine */
    bool touched;              /* this process may have a context on the GPU now */
};

struct loader {
    int event;                 /* eventfd, readable when the result is ready */
    bool busy;                 /* from loader_begin until the result is taken */
    struct load_task task;     /* the current or last task; constant while it runs ... */
    struct load_result result; /* ... while the thread owns this */
    atomic_bool dropped;       /* the result is no longer needed */
    atomic_bool done;          /* the thread ends */
    bool has_thread;
    pthread_t thread;
};

int loader_open(struct loader *l, struct err *err);
void loader_close(struct loader *l); /* waits for the task and discards its result */

/* Starts a task; none may be running. */
void loader_begin(struct loader *l, const struct load_task *task);
/* Runs a task on the calling thread. */
void loader_run(struct loader *l, const struct load_task *task, struct load_result *ret);

/* Abandons the task. It ends soon; take its result as usual. */
void loader_drop(struct loader *l);
/* Takes the result; returns false if it is not ready. */
bool loader_take(struct loader *l, struct load_result *ret);

/* Closes an engine and its model. engine may be NULL. */
void loader_close_engine(struct engine *engine);

/* The message about a GPU that only another process can use again. */
#define LOADER_POISONED "the GPU's engine failed; the daemon restarts, with the GPU, once nobody records"

/* Whether the settings request a GPU. */
bool loader_wants_gpu(const struct settings *s);
/* Whether "auto" avoids the GPU now, because the machine runs on battery or the GPU sleeps. Returns -EAGAIN with the
 * reason, or 0. */
int loader_spares_gpu(const struct settings *s, bool awake, struct err *err);

/* Checks that the settings' model is suitable for live sound; "auto" always is. Returns 0 or -errno. */
int loader_check(const struct settings *s, struct err *err);

#endif
