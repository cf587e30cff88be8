/* choose.h - chooses the model that this machine's CPU runs in real time.
 *
 * `large` is chosen if the p99 of 2000 hops on one core is below 0.2 of a hop's duration; a block of 256 samples then
 * stays within the limit of delay.h. Otherwise, or if `large` cannot be read, `base` is chosen if its p99 is below
 * ENGINE_SHARE of a hop, else the lightest model that can be read.
 *
 * The measurement uses the thread's CPU time, but programs that share the caches still slow it down. Unless `large` is
 * chosen, the daemon therefore measures up to two more times, on an idle machine. The choice is stored in
 * $XDG_STATE_HOME/primeknet/model (~/.local/state by default). It stays valid until the processor, the program's
 * version or the hop of `base` changes, or the chosen model cannot be read. Measuring takes seconds: never call this on
 * an audio thread. */
#ifndef PRIMEKNET_CHOOSE_H
#define PRIMEKNET_CHOOSE_H

#include "engine/engine.h"

#include <stdbool.h>

struct choice {
    const char *model;   /* "large", "base" or "small" */
    float p99_us;        /* p99 of a hop of choice_measured(); a lower bound if measuring stopped early */
    float limit_us;      /* the limit for this p99 */
    unsigned n_measured; /* measurements so far */
    bool remembered;     /* read from the state file instead of measured now */
};

/* The model that was measured last: the chosen one, or `base` if `small` was chosen. */
const char *choice_measured(const struct choice *c);

/* Whether the choice is final, so that no further measurement is due. */
bool choice_is_sure(const struct choice *c);

enum choose_when {
    CHOOSE_AT_ONCE,  /* without measuring: the stored choice, else the lightest model, with a p99_us of 0 */
    CHOOSE_MEASURED, /* the stored choice; measured if there is none */
    CHOOSE_ANEW,     /* always measured */
    CHOOSE_AGAIN,    /* measured; the heavier of this and the stored choice: other programs only slow it down */
};

/* Returns 0 or a negative errno; -ECANCELED once *stop is true (stop may be NULL). An unreadable or unwritable state
 * file is not an error: the choice is then measured at every start. */
int choose_model(struct choice *ret, const char *engine_name, enum choose_when when, const _Atomic bool *stop,
                 struct err *err);
/* Whether the machine was nearly idle in the last minute. */
bool choose_is_quiet(void);

/* Loads a model by name or path and opens an engine for it. "auto" means `large` on a GPU, else the choice of
 * choose_model. The caller owns both. Returns 0 or a negative errno. */
int choose_engine(struct model **ret, struct engine **ret_engine, const char *model,
                  const struct engine_options *options, struct err *err);

#endif
