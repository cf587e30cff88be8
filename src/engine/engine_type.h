/* engine_type.h - the functions that an engine implements; engine.c does what all engines share. Only engines include
 * this file. */
#ifndef PRIMEKNET_ENGINE_TYPE_H
#define PRIMEKNET_ENGINE_TYPE_H

#include "engine/engine.h"
#include "model/model.h"

/* 60 dB above full scale. Engines clip louder samples, so that no power overflows. */
enum { ENGINE_LOUDEST = 1000 };

/* A stream's controls, set by engine_control. */
struct engine_control {
    _Atomic float strength, floor, low_cut; /* low_cut is in bins */
};

/* The first member of every engine's own struct. */
struct engine {
    const struct engine_type *type;
    const char *name; /* for display */
    const struct model *model;
    unsigned n_streams;
    float *fade;                     /* [engine_delay()] */
    struct engine_control *controls; /* [n_streams] */
    unsigned *n_silent;              /* [n_streams] consecutive samples of digital silence so far, saturated */
    struct engine_job *jobs;         /* [2 * n_streams] of one call: those that remain, and those that run now */
    unsigned max_hops;               /* of a job in all networks, if there are several */
    struct engine *next;             /* of the model's next network; NULL: none */
    float *out;                      /* of those after the first: [n_streams * max_hops * hop], or [engine_delay()] */
};

struct engine_type {
    const char *name; /* as in engine_options */
    bool together;    /* see engine_together */
    /* Allocates the engine's struct. engine.c has filled in `common` and copies it to the struct's first member on
     * success. close frees what open allocated. */
    int (*open)(struct engine **ret, const struct engine *common, const struct engine_options *options,
                struct err *err);
    void (*close)(struct engine *e);
    int (*process)(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
    int (*threads)(struct engine *e, unsigned n);                   /* NULL: ignores the number */
    void (*reset)(struct engine *e, unsigned stream, bool forgets); /* forgets: also the network's state */
    void (*tail)(const struct engine *e, unsigned stream, float *tail);
};

extern const struct engine_type engine_cpu, engine_cuda, engine_null;

#endif
