/* core.h - what the LADSPA and LV2 plugins share: any block size and rate around libprimeknet, with a fixed delay.
 *
 * The core's own thread computes hops while the host does other things. The host's thread computes those that are due
 * and not begun; it waits for at most one hop that the other thread has begun, which inherits its priority meanwhile.
 * So the output never depends on timing, and a host that renders faster than real time needs no special mode.
 *
 * How another model takes the present one's place. That one sounds in every state:
 *
 *   state      the core's thread             until                                                     then
 *   SETTLED    -                             another model is wanted                                   LOADING
 *   LOADING    opens the wanted model and    it is as far as the present one                           READY
 *              lets it hear what came last   yet another is wanted: it is closed                       SETTLED
 *                                            none can be opened: the present one stands for it         SETTLED
 *   READY      -                             a hop of both ends: it is the present one                 SETTLED
 *   ABANDONED  opens what nobody waits for   it is open: it is closed                                  SETTLED
 *   ORPHANED   opens what nobody waits for   it is open: the thread closes everything                  -
 *   any        core_activate: the wanted model is the present one at once. From LOADING and ABANDONED  ABANDONED
 *                                            else                                                      SETTLED
 *   any        core_close returns at once.   From LOADING and ABANDONED                                ORPHANED
 *                                            else the thread has ended                                 -
 *
 * Threads: core_run on one thread at a time, and nothing else meanwhile. core_run does not allocate or print; it locks
 * as described. */
#ifndef PRIMEKNET_CORE_H
#define PRIMEKNET_CORE_H

#include <stdbool.h>

enum {
    CORE_CHANNELS = 2,
    CORE_MODELS = 4,
    CORE_FLOOR_MIN_DB = -60,
    CORE_LOW_CUT_MAX_HZ = 280, /* four times the default, which LADSPA can give only as a quarter of the greatest */
};

/* As the host sets them. A value out of range counts as the nearest in range, one that is no number as the lowest. */
struct core_controls {
    float strength;   /* 0 to 1 */
    float floor_db;   /* CORE_FLOOR_MIN_DB (none) to 0 */
    float low_cut_hz; /* 0 (off) to CORE_LOW_CUT_MAX_HZ */
    bool levels;      /* the automatic level */
    float target;     /* its loudness, PRIMEKNET_LEVEL_TARGET_MIN to MAX */
    float model;      /* an index: 0 auto, 1 small, 2 base, 3 large */
    bool bypass;      /* the input, with the same delay */
};

struct core;

/* Returns NULL if memory runs out or the rate cannot be resampled. */
struct core *core_open(unsigned n_channels, double rate);
void core_close(struct core *c); /* a model that is being loaded may still be so afterwards, on the core's thread */

/* Starts anew, without anything that was heard before, and loads the model of the controls if it is not loaded: not for
 * an audio thread. If that model cannot be used, another does; without any the input passes, delayed. */
void core_activate(struct core *c, const struct core_controls *controls);

/* in and out: [n_channels][n]; in[i] and out[j] may be the same arrays. A new model is loaded in the background and
 * replaces the old one in a cross-fade; only in the first block, and without real-time priority, the call loads it. */
void core_run(struct core *c, const struct core_controls *controls, const float *const in[], float *const out[],
              unsigned n);

unsigned core_delay(const struct core *c); /* samples at the host's rate */

#endif
