/* core.h - the common core of the LADSPA and LV2 plugins: runs libprimeknet at any block size and rate, with a fixed
 * delay.
 *
 * The core's own thread computes hops between the host's calls. The host's thread computes hops that are due but not
 * started. It waits for at most one hop that the other thread has started, which inherits its priority meanwhile. The
 * output therefore never depends on timing, and a host that renders faster than real time needs no special mode.
 *
 * States while the model changes. The current model sounds in every state:
 *
 *   state      the core's thread             until                                                     then
 *   SETTLED    -                             another model is wanted                                   LOADING
 *   LOADING    opens the wanted model and    it has caught up with the current one                     READY
 *              feeds it the latest input     another is wanted: the thread closes this one             SETTLED
 *                                            none can be opened: the current one stays                 SETTLED
 *   READY      -                             hops of both end together: it becomes the current one     SETTLED
 *   ABANDONED  opens a model not needed now  it is open: the thread closes it                          SETTLED
 *   ORPHANED   opens a model not needed now  it is open: the thread closes everything                  -
 *   any        core_activate: the wanted model becomes current at once. From LOADING and ABANDONED     ABANDONED
 *                                            else                                                      SETTLED
 *   any        core_close returns at once.   From LOADING and ABANDONED                                ORPHANED
 *                                            else the thread has ended                                 -
 *
 * Threads: call core_run on one thread at a time, and no other function meanwhile. core_run does not allocate or print;
 * it locks as described above. */
#ifndef PRIMEKNET_CORE_H
#define PRIMEKNET_CORE_H

#include <stdbool.h>

enum {
    CORE_CHANNELS = 2,
    CORE_MODELS = 4,
    CORE_FLOOR_MIN_DB = -60,
    CORE_LOW_CUT_MAX_HZ = 280, /* four times the default, which LADSPA can express only as a quarter of the maximum */
};

/* The host's controls. A value out of range counts as the nearest one in range, NaN as the lowest. */
struct core_controls {
    float strength;   /* 0 to 1 */
    float floor_db;   /* CORE_FLOOR_MIN_DB (none) to 0 */
    float low_cut_hz; /* 0 (off) to CORE_LOW_CUT_MAX_HZ */
    bool levels;      /* the automatic level */
    float target;     /* its loudness, PRIMEKNET_LEVEL_TARGET_MIN to MAX */
    float model;      /* an index: 0 auto, 1 small, 2 base, 3 large */
    bool bypass;      /* outputs the input, with the same delay */
};

struct core;

/* Returns NULL if memory runs out or the rate cannot be resampled. */
struct core *core_open(unsigned n_channels, double rate);
void core_close(struct core *c); /* does not wait for a model that is being loaded */

/* Resets all state, and loads the selected model if it is not loaded: never call this on an audio thread. If that model
 * cannot be used, the core uses another one; without any it outputs the delayed input. */
void core_activate(struct core *c, const struct core_controls *controls);

/* Processes in [n_channels][n] to out [n_channels][n]; in[i] and out[j] may be the same array. A newly selected model
 * is loaded in the background and cross-faded in. Only the first call, if its thread has no real-time priority, loads
 * it itself. */
void core_run(struct core *c, const struct core_controls *controls, const float *const in[], float *const out[],
              unsigned n);

unsigned core_delay(const struct core *c); /* samples at the host's rate */

#endif
