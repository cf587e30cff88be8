/* choose.h - which model this machine can run in real time on its CPU.
 *
 * That is `large` if the p99 of 2000 hops on one core is below 0.2 of a hop's time, so that blocks of 256 samples need
 * not wait for it longer than delay.h allows; else, or where `large` cannot be read, `base` if it is below
 * ENGINE_SHARE; else the lightest that can be read. The measurement uses the thread's CPU time, but programs that share
 * the caches slow it down all the same: unless `large` is chosen, the daemon measures up to twice more, on an idle
 * machine. The choice is kept in $XDG_STATE_HOME/primeknet/model (~/.local/state by default) until the processor, the
 * program's version or the hop of `base` changes, or the chosen model cannot be read. Measuring takes seconds: never
 * call this on an audio thread. */
#ifndef PRIMEKNET_CHOOSE_H
#define PRIMEKNET_CHOOSE_H

#include "engine/engine.h"

#include <stdbool.h>

struct choice {
    const char *model; /* "large", "base" or "small" */
    float p99_us;      /* of a hop of what choice_measured says; a lower bound if measuring stopped early */
    float limit_us;    /* the p99 that it had to stay below */
    unsigned n_measured; /* how often it was measured so far */
    bool remembered;   /* read from the state file, not measured now */
};

/* The model that was measured last: the chosen one, or `base` where that is `small`. */
const char *choice_measured(const struct choice *c);

/* Whether it stays, so that no other measurement is due. */
bool choice_is_sure(const struct choice *c);

enum choose_when {
    CHOOSE_AT_ONCE,  /* nothing is measured; with nothing remembered the lightest is chosen, with a p99_us of 0 */
    CHOOSE_MEASURED, /* what is not remembered is measured */
    CHOOSE_ANEW,     /* measured in any case ... */
    CHOOSE_AGAIN,    /* ... and kept if it is heavier than what is remembered, since only other programs make it lighter */
};

/* Measuring ends with -ECANCELED once *stop is true (stop may be NULL). A state file that cannot be read or written is
 * no error: the choice is then measured at every start. */
int choose_model(struct choice *ret, const char *engine_name, enum choose_when when, const _Atomic bool *stop,
                 struct err *err);
/* Whether the machine has had little to do in the last minute. */
bool choose_is_quiet(void);

/* Loads a model by name or path and opens an engine for it, for programs that are given a model. "auto" is `large` if a
 * GPU is used, else what choose_model chooses. */
int choose_engine(struct model **ret, struct engine **ret_engine, const char *model,
                  const struct engine_options *options, struct err *err);

#endif
