/* loader.h - opens an engine with its model and warms it up, on a thread of its own.
 *
 * One task at a time. Threads: everything on one. */
#ifndef PRIMEKNET_LOADER_H
#define PRIMEKNET_LOADER_H

#include "daemon/settings.h"
#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* An engine that is warm and waits for its turn. */
struct ready_engine {
    struct engine *engine; /* its model is its own: loader_close_engine */
    unsigned hop_p99_us, n_streams;
    bool gpu;
    char model[48], engine_name[72], text[128]; /* "base", "cpu (AVX2)", "base on cpu (AVX2)", for people */
    struct err problem;  /* why it is not the GPU's although that was asked for, or "" */
    int why;             /* the error code of `problem`, or 0 */
    char too_heavy[48];  /* the model that would run if this machine carried it, or "" ... */
    unsigned n_lighter;  /* ... and how many models lighter the running one is */
    const char *lighter; /* the next one; NULL: none */
    bool unmeasured;     /* one that surely fits; which one the processor carries is not known yet */
    bool unsure;         /* a heavier one may be found to fit when it is measured again */
    bool provisional;    /* one that surely fits; the GPU's driver has not been asked yet, and may not answer */
};

/* What an engine is loaded for. */
enum role {
    PROVISIONAL, /* at the start: what new settings ask for or, where that may be the GPU, the CPU's ... */
    FIRST,       /* ... and then what they ask for, or what comes nearest */
    ASKED,       /* what new settings ask for, or what comes nearest */
    WANTED,      /* the GPU's, which the settings in force ask for */
    STAND_IN,    /* the CPU's in place of the GPU's */
    REPLACEMENT, /* the CPU's in place of one that failed */
    LIGHTER,     /* the CPU's with a lighter model ... */
    HEAVIER,     /* ... or a heavier one */
    MEASURED,    /* the CPU's with the model that it is found to carry, in place of an unmeasured one ... */
    AGAIN,       /* ... or of one that is unsure; none if that is the same */
};

struct load_task {
    enum role role;
    struct settings settings;
    unsigned n_pumps;   /* that the engine is for */
    unsigned n_lighter; /* see ready_engine */
    const char *instead; /* of MEASURED, AGAIN: the model that runs */
    bool hurry;         /* nothing is measured for it */
    bool awake;         /* the GPU's driver holds something for this process, so the GPU does not sleep */
    bool poisoned;      /* this process cannot use the GPU */
    int demanded;       /* the setting that newly asks for the GPU, or another one; -1: none does */
};

struct load_result {
    int res;
    struct err err;
    struct ready_engine ready; /* if res is 0: the receiver's; perhaps without an engine for MEASURED, AGAIN */
    bool touched;              /* the GPU's driver may hold something for this process from now on */
};

struct loader {
    int event;                 /* readable once the result is there */
    bool busy;                 /* from loader_begin until the result is taken */
    struct load_task task;     /* under way, or the last one; stands still meanwhile ... */
    struct load_result result; /* ... when this is the thread's */
    atomic_bool dropped;       /* nobody waits for it any more */
    atomic_bool done;          /* the thread ends */
    bool has_thread;
    pthread_t thread;
};

int loader_open(struct loader *l, struct err *err);
void loader_close(struct loader *l); /* waits for the task and drops what it brings */

/* Begins a task; none is under way. */
void loader_begin(struct loader *l, const struct load_task *task);
/* Does a task on this thread. */
void loader_run(struct loader *l, const struct load_task *task, struct load_result *ret);

/* The task is not wanted any more. It ends soon, and its result is to be taken as ever. */
void loader_drop(struct loader *l);
/* Takes the result; false: it is not there yet. */
bool loader_take(struct loader *l, struct load_result *ret);

/* NULL is fine. */
void loader_close_engine(struct engine *engine);

/* What is said of a GPU that only another process can use again. */
#define LOADER_POISONED "the GPU's engine failed; the daemon restarts, with the GPU, once nobody records"

/* Whether the settings ask for a GPU. */
bool loader_wants_gpu(const struct settings *s);
/* Whether "auto" leaves the GPU alone now, because the machine runs on battery or the GPU sleeps. -EAGAIN and why, or
 * 0. */
int loader_spares_gpu(const struct settings *s, bool awake, struct err *err);

/* Whether the model that the settings name is one for live sound; "auto" always is. */
int loader_check(const struct settings *s, struct err *err);

#endif
