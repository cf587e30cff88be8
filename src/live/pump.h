/* pump.h - the interface of src/live: takes and returns blocks of any size, and passes them through an engine hop by
 * hop. Decides what to play when a hop is late. Independent of PipeWire. docs/live-path.md explains the whole path.
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
 * All rings are indexed by position, the count of input samples: the input (dry) and each engine stream's output (wet).
 * When input sample i arrives, the signal at position i - delay is output. A late hop cannot increase the delay,
 * because the reader has already passed its samples.
 *
 * A pump's states. To realign its hops, it feeds the other stream of its pair; to change engines, a stream of the next
 * engine:
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
 * delay.h lists the states of waiting for the worker.
 *
 * Threads: call pump_process and pump_restart on the audio thread, which must not run while the pump is opened or
 * closed. Each pump may have an audio thread of its own. Both do not allocate, lock or print. Their only system calls
 * are one wakeup and one wait of at most half a block. Call pump_mute and pump_level on any thread, everything else on
 * the owner's thread, which also owns the worker. */
#ifndef PRIMEKNET_PUMP_H
#define PRIMEKNET_PUMP_H

#include "live/worker.h"
#include "live/times.h"

#include <stdbool.h>
#include <stdint.h>

#define PUMP_RATE 48000 /* Hz, of all samples in the pump */
#define PUMP_LISTEN_MAX 4096
#define PUMP_DELAY_MAX 40000 /* samples; engine_delay + hop + quantum stay below it */

struct pump;

struct pump_stats {
    uint64_t hops;         /* computed */
    uint64_t due_hops;     /* hops whose first sample was due */
    uint64_t late_hops;    /* those of them that were missing: dry was played instead */
    uint64_t skipped_hops; /* hops never computed, because the worker was too far behind; they count as late, too */
    unsigned hop;          /* samples, of the audible engine */
    /* hop_p50_us etc.: durations of the engine's last 2048 hops, of any pump, from when they could start */
#define ROW(name, percent) unsigned hop_##name##_us;
    TIMES_STATISTICS(ROW)
#undef ROW
    unsigned delay;        /* samples: the current delay, to be reported */
    unsigned quantum;      /* samples, of the last block */
    float in_rms, out_rms; /* linear, full scale 1.0, over about 0.3 s */
    bool clips;            /* an input sample of the last two seconds was at full scale */
    float speech;          /* the probability that the last hop's output is speech (voice.h); NAN: unknown */
    bool speaks;           /* somebody is speaking; stays true through short gaps */
    bool realtime;         /* the worker has real-time priority */
    int refusal;           /* why it was refused: -errno; 0: it was not */
    const char *locked;    /* as worker_locked */
    bool waits;            /* the audio thread waits for the worker, which saves a block of delay */
    bool swapping;         /* a new engine has not replaced its predecessor yet */
    bool engine_lost;      /* the engine failed: dry plays until worker_engine passes another */
};

/* Opens a pump on worker w, with the newest engine that is not lost. Returns 0; -ENOSPC if w has WORKER_PUMPS pumps or
 * that engine has no streams left; -ENOMEM; or the -errno of eventfd(2). */
int pump_open(struct pump **ret, struct worker *w);
void pump_close(struct pump *p); /* p may be NULL; call it before worker_close */

/* Sets the controls of the pump's streams in all engines, current and future. */
void pump_control(struct pump *p, struct engine_controls controls);
/* Sets the automatic level of the output (level.h). target: LUFS, or NAN: off. Any thread. */
void pump_level(struct pump *p, float target);

/* Returns a file descriptor that becomes readable when pump_dispatch is to be called: an engine was added or is no
 * longer used, or delay, waits, speaks, engine_lost or swapping of pump_stats changed. */
int pump_fd(const struct pump *p);
void pump_dispatch(struct pump *p);

/* Processes one block: takes in[n_in] (NULL: silence, without a microphone) and writes out[n_out]. Any numbers are
 * allowed. They are usually equal; with a resampler they occasionally differ by a sample, which the delay allows for.
 * If one side missed blocks, a cross-fade moves the reader back to its target. */
void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
/* Restarts after a pause: discards earlier sound, keeps the network's state, and fades the input in. */
void pump_restart(struct pump *p);

/* Says whether nobody listens (rests). While the pump rests, it changes engines immediately. */
void pump_rest(struct pump *p, bool rests);

/* Fades the input out (within 10 ms) and in again, for a change of microphone. */
void pump_mute(struct pump *p, bool mute);
void pump_stats(const struct pump *p, struct pump_stats *ret);
/* Copies the last n <= PUMP_LISTEN_MAX output samples to out[n], and their input to in[n]. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n);
/* Measures how much noise is removed with the current controls: see reduction_read. */
bool pump_reduction(const struct pump *p, float *db, float *noise);
/* For a watchdog: returns false if a hop that was due at the last call is neither computed nor skipped. */
bool pump_alive(struct pump *p);

#endif
