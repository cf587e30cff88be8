/* choose.h - which model this machine carries in real time on its CPU.
 *
 * `base` where the p99 of 2000 warm-up hops on one core stays under 0.4 of a hop's time, else `small`. What counts is the
 * thread's own time: a machine that is busy at its first start is not a slow one. Measured once, then
 * remembered in $XDG_STATE_HOME/primeknet/model (~/.local/state by default) until the processor or the program's version is
 * another; delete the file to measure again. Takes seconds when it measures; never call it on an audio thread. */
#ifndef PRIMEKNET_CHOOSE_H
#define PRIMEKNET_CHOOSE_H

#include "engine/engine.h"

#include <stdbool.h>

struct choice {
    const char *model; /* "base" or "small" */
    float p99_us;      /* of a hop of `base`; where measuring stopped early, a lower bound */
    float limit_us;    /* what it had to stay under */
    bool remembered;   /* read back, not measured now */
};

/* Without `measure` nothing is: where nothing is remembered it is `small`, with a p99_us of 0. Measuring ends with
 * -ECANCELED once *stop is true (NULL: never).
 * A state file that cannot be read or written is no error: the choice is then measured at every start. */
int choose_model(struct choice *ret, const char *engine_name, bool measure, const _Atomic bool *stop, struct err *err);

/* For programs that are told a model: loads it, by name or file, and opens an engine for it. "auto" is large where a GPU
 * computes, else what choose_model takes. */
int choose_engine(struct model **ret, struct engine **ret_engine, const char *model, const struct engine_options *options,
                  struct err *err);

#endif
