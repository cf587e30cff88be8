/* pump.h - any quantum of samples in and out, one hop at a time through an engine; the only place that decides which
 * thread runs the network, and what sounds when a hop is late. Knows nothing of PipeWire.
 *
 * One coordinate: the position, the count of samples that came in. Rings of input (dry) and of every engine's output
 * (wet) are indexed by it, and with input sample i goes out the signal at position i - delay, so a late hop cannot
 * make the delay grow: its samples lie where the reader has already passed. docs/live-path.md tells the rest.
 *
 * Threads: pump_process and pump_restart on the audio thread, which must stand still while the pump is opened and
 * closed; every pump may have one of its own. They allocate, lock and print nothing, and make no system call but one
 * wake-up and one bounded wait. pump_mute from anywhere. Everything else on the owner's thread, which is the worker's
 * owner too. */
#ifndef PRIMEKNET_PUMP_H
#define PRIMEKNET_PUMP_H

#include "live/worker.h"

#include <stdbool.h>
#include <stdint.h>

#define PUMP_RATE 48000   /* Hz, of everything that goes through the pump */
#define PUMP_LISTEN_MAX 4096
#define PUMP_DELAY_MAX 40000 /* samples; engine_delay + hop + quantum stay below it */

struct pump;

struct pump_stats {
    uint64_t hops;         /* computed */
    uint64_t due_hops;     /* whose time came to sound */
    uint64_t late_hops;    /* of these, not there yet: dry sounded instead */
    uint64_t skipped_hops; /* never computed, the worker being too far behind; each is late as well */
    unsigned hop_p50_us;   /* of the engine's last 2048 hops (or fewer), whoever's, from the moment they could start to
                            * their end */
    unsigned hop_p99_us;
    unsigned hop_max_us;
    unsigned delay;        /* samples, now; what is to be published */
    unsigned quantum;      /* samples, of the last block */
    float in_rms, out_rms; /* linear, full scale 1.0, over about 0.3 s */
    float in_noise, out_noise; /* linear, the levels' floor: their least, forgotten at 3 dB/s; 0 in the first second */
    bool realtime;         /* the worker has real-time priority; else ... */
    int refusal;           /* ... why, -errno, or 0 where nobody has said */
    const char *locked;    /* see worker_locked */
    bool waits;            /* the audio thread waits for the worker and so adds no delay */
    bool swapping;         /* an engine handed in has not replaced its predecessor yet */
    bool engine_lost;      /* the engine failed: dry sounds until worker_engine brings another */
};

/* Opens a pump that w runs, with its newest engine. -ENOSPC: w has WORKER_PUMPS already, or that
 * engine no streams left. */
int pump_open(struct pump **ret, struct worker *w);
void pump_close(struct pump *p); /* NULL is fine; not while the worker is closed */

/* Holds for every engine, present and future. */
void pump_control(struct pump *p, struct engine_controls controls);

/* Readable when there is something for pump_dispatch: an engine that came or is no longer used, or a change in
 * pump_stats that others act on (delay, waits, engine_lost, swapping). */
int pump_fd(const struct pump *p);
void pump_dispatch(struct pump *p);

/* One block: n_in samples in (NULL where there is no microphone: silence), n_out samples out. Any numbers, any mix of
 * them; they are the same but where a resampler's blocks differ by a sample, which the delay then allows for, and
 * where blocks were missed on either side: the signal then moves on to where it belongs, in a cross-fade. */
void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
/* The stream begins anew after a pause: what came before is forgotten, the engine reset, and the sound fades in. */
void pump_restart(struct pump *p);

/* Nobody listens, or somebody does again: meanwhile engines are exchanged at once. */
void pump_rest(struct pump *p, bool rests);

/* Fades the input out (within 10 ms) and in again, for a change of microphone. */
void pump_mute(struct pump *p, bool mute);
void pump_stats(const struct pump *p, struct pump_stats *ret);
/* The last n <= PUMP_LISTEN_MAX samples that went out, and what came in for them. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n);
/* For a watchdog: false when a hop that was due at the last call is neither finished nor skipped. */
bool pump_alive(struct pump *p);

#endif
