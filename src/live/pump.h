/* pump.h - the front door of src/live: blocks of any size in and out, one hop at a time through an engine. Decides
 * what sounds when a hop is late. Knows nothing of PipeWire. docs/live-path.md explains the whole.
 *
 *   owner (main thread)              audio thread, one per pump           worker thread, one for all pumps
 *   pump_open, pump_dispatch, ...    pump_process, pump_restart           serve()
 *   +-----------------------+        +---------------------------+        +-------------------------------+
 *   | engine slots          |        | state, readers, delay,    |        | the engines' streams, samples |
 *   | the feeds' stream     |        | waiting, levels           |        | of the hop being computed     |
 *   | pairs, controls       |        |                           |        |                               |
 *   +-----------------------+        +---------------------------+        +-------------------------------+
 *                                    dry ring, `written`, `base` ---------> next hop of each active stream
 *                                    `posted` (futex) --------------------> wakes the worker
 *                                    reads <------------------------------- wet ring, tails, `done`, `next`
 *                                    wakes <------------------------------- `progress` (futex)
 *   worker_engine: a pair in `incoming` --> takes the pair
 *                                    `retiring`: a pair it left ----------> no longer reads its streams
 *   worker_tidy frees it  <---------------------------------------------- `retired`, and `event` if there is news
 *
 * One coordinate: the position, the count of samples that came in. Rings of input (dry) and of every engine stream's
 * output (wet) are indexed by it. When input sample i comes in, the signal at position i - delay goes out. So a late
 * hop cannot make the delay grow: the reader has already passed its samples.
 *
 * What a pump does with its engine streams. A realignment feeds the other stream of the same pair, a swap a stream of
 * another engine:
 *
 *   state    sounds    fed      until                                                          then
 *   FRESH    nothing   -        the first block comes                                          STEADY
 *   STEADY   current   -        an engine was handed in, or hops must be realigned             FEEDING
 *   FEEDING  current   next     next was fed 0.3 s and keeps up, or was fed 2 s                FADING
 *                               next's engine is lost, and current has another: next goes      STEADY
 *   FADING   next      current  no reader reads current any more: next becomes current         STEADY
 *   any                         pump_restart: a swap is completed, unless next's engine is     FRESH
 *                               lost, and an engine that was handed in is taken at once
 *
 * delay.h has the states of waiting for the worker.
 *
 * Threads: pump_process and pump_restart run on the audio thread, which must not run while the pump is opened or
 * closed; every pump may have its own. They allocate, lock and print nothing, and make no system call but one wakeup
 * and one bounded wait. pump_mute may be called from anywhere. Everything else runs on the owner's thread, which owns
 * the worker too. */
#ifndef PRIMEKNET_PUMP_H
#define PRIMEKNET_PUMP_H

#include "live/worker.h"
#include "live/times.h"

#include <stdbool.h>
#include <stdint.h>

#define PUMP_RATE 48000   /* Hz, of everything that goes through the pump */
#define PUMP_LISTEN_MAX 4096
#define PUMP_DELAY_MAX 40000 /* samples; engine_delay + hop + quantum stay below it */

struct pump;

struct pump_stats {
    uint64_t hops;         /* computed */
    uint64_t due_hops;     /* hops whose time came to sound */
    uint64_t late_hops;    /* those among them that were not there yet: dry sounded instead */
    uint64_t skipped_hops; /* hops never computed, because the worker was too far behind; each is late as well */
    unsigned hop;          /* samples, of the engine that sounds */
    /* hop_p50_us and its like: of the engine's last 2048 hops, for whichever pump, from when they could start */
#define ROW(name, percent) unsigned hop_##name##_us;
    TIMES_STATISTICS(ROW)
#undef ROW
    unsigned delay;        /* samples, now: what is to be published */
    unsigned quantum;      /* samples, of the last block */
    float in_rms, out_rms; /* linear, full scale 1.0, over about 0.3 s */
    bool clips;            /* a sample of the last two seconds came in at full scale */
    float speech;          /* the probability that the last hop's output is speech, as in voice.h; NAN: unknown */
    bool speaks;           /* somebody does: holds through short gaps */
    bool realtime;         /* the worker has real-time priority; else ... */
    int refusal;           /* ... why not: -errno, or 0 where it was not refused */
    const char *locked;    /* see worker_locked */
    bool waits;            /* the audio thread waits for the worker, which saves a block of delay */
    bool swapping;         /* an engine that was handed in has not replaced its predecessor yet */
    bool engine_lost;      /* the engine failed: dry sounds until worker_engine brings another */
};

/* Opens a pump that w runs, with the newest engine that is not lost. -ENOSPC: w has WORKER_PUMPS already, or that
 * engine has no streams left; -ENOMEM, or -errno of eventfd(2). */
int pump_open(struct pump **ret, struct worker *w);
void pump_close(struct pump *p); /* NULL is fine; not while the worker is closed */

/* Sets the controls of every engine, present and to come. */
void pump_control(struct pump *p, struct engine_controls controls);
/* The automatic level of what goes out: see level.h. target: LUFS, or NAN: off. Any thread. */
void pump_level(struct pump *p, float target);

/* A file descriptor that is readable when there is work for pump_dispatch: an engine that came or is no longer used,
 * or a change of delay, waits, speaks, engine_lost or swapping in pump_stats. */
int pump_fd(const struct pump *p);
void pump_dispatch(struct pump *p);

/* One block: in[n_in] samples in (NULL where there is no microphone: silence), out[n_out] samples out. The numbers may
 * be any. They usually agree; a resampler's differ by a sample now and then, which the delay allows for. Where one
 * side missed blocks, the signal moves back to where it belongs in a cross-fade. */
void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
/* Begins anew after a pause: forgets what came before, except what the network has learned, and fades the sound in. */
void pump_restart(struct pump *p);

/* Nobody listens (rests), or somebody does again. While the pump rests engines are exchanged at once. */
void pump_rest(struct pump *p, bool rests);

/* Fades the input out (within 10 ms) and in again, for a change of microphone. */
void pump_mute(struct pump *p, bool mute);
void pump_stats(const struct pump *p, struct pump_stats *ret);
/* The last n <= PUMP_LISTEN_MAX samples that went out, out[n], and what came in for them, in[n]. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n);
/* How much noise is removed, with the present controls: see reduction.h. */
bool pump_reduction(const struct pump *p, float *db, float *noise);
/* For a watchdog: false when a hop that was due at the last call is neither computed nor skipped. */
bool pump_alive(struct pump *p);

#endif
