/* pump.h - any quantum of samples in and out, one hop at a time through an engine; the only place that decides which
 * thread runs the network, and what sounds when a hop is late. Knows nothing of PipeWire.
 *
 * One coordinate: the position, the count of samples that came in. Rings of input (dry) and of every engine's output
 * (wet) are indexed by it, and with input sample i goes out the signal at position i - delay, so a late hop cannot
 * make the delay grow: its samples lie where the reader has already passed. docs/live-path.md tells the rest.
 *
 * Threads: pump_process and pump_restart on the audio thread, which must stand still while the pump is opened and
 * closed. They allocate, lock and print nothing, and make no system call but one wake-up and one bounded wait.
 * pump_mute from anywhere. Everything else on the owner's thread. A worker thread of the pump's own runs the engine.
 *
 * Ownership: an engine given to the pump is the pump's until options.release gives it back, on the owner's thread,
 * from pump_dispatch or pump_close. */
#ifndef PRIMEKNET_PUMP_H
#define PRIMEKNET_PUMP_H

#include "engine.h"
#include "rt.h"

#include <stdbool.h>
#include <stdint.h>

#define PUMP_RATE 48000   /* Hz, of everything that goes through the pump */
#define PUMP_STREAMS 2    /* that an engine for the pump is opened with: the second re-aligns the hops */
#define PUMP_LISTEN_MAX 4096
#define PUMP_DELAY_MAX 40000 /* samples; engine_delay + hop + quantum stay below it */

struct pump;

struct pump_options {
    const struct rt *rt;   /* makes the worker */
    struct engine *engine; /* the first one, with PUMP_STREAMS streams */
    unsigned hop_p99_us;   /* of that engine: wall-clock time of a warm hop, measured, all but the slowest 1 % */
    void (*release)(void *data, struct engine *engine); /* the pump needs it no more: close it */
    void *data;
};

struct pump_stats {
    uint64_t hops;         /* computed */
    uint64_t late_hops;    /* not there when their time came: dry sounded instead */
    uint64_t skipped_hops; /* never computed, the worker being too far behind; each is late as well */
    unsigned hop_p50_us;   /* of the last 2048 hops (or fewer), from the moment they could start to their end */
    unsigned hop_p99_us;
    unsigned hop_max_us;
    unsigned delay;        /* samples, now; what is to be published */
    unsigned quantum;      /* samples, of the last block */
    float in_rms, out_rms; /* linear, full scale 1.0, over about 0.3 s */
    float in_noise, out_noise; /* linear, the levels' floor: their least, forgotten at 3 dB/s; 0 in the first second */
    bool realtime;         /* the worker has real-time priority */
    bool waits;            /* the audio thread waits for the worker and so adds no delay */
    bool swapping;         /* an engine handed in has not replaced its predecessor yet */
    bool engine_lost;      /* the engine failed: dry sounds until pump_engine brings another */
};

/* Opens the pump and starts its worker, with real-time priority if options.rt grants it. The pump owns options.engine
 * only after success. */
int pump_open(struct pump **ret, const struct pump_options *options);
void pump_close(struct pump *p); /* NULL is fine; releases every engine */

/* Takes an engine in: fed live beside the present one for at least 300 ms, then cross-faded in at the same delay. An
 * engine that still waits for its turn is replaced and released. Returns 0 or -ENOMEM, the engine then still the
 * caller's. */
int pump_engine(struct pump *p, struct engine *engine, unsigned hop_p99_us);
/* Holds for every engine, present and future. strength and floor as in engine_control. */
void pump_control(struct pump *p, float strength, float floor);

/* Readable when there is something for pump_dispatch: an engine to release, or a change in pump_stats that others act
 * on (delay, waits, engine_lost, swapping). */
int pump_fd(const struct pump *p);
void pump_dispatch(struct pump *p);

/* One block: n_in samples in (NULL where there is no microphone: silence), n_out samples out. Any numbers, any mix of
 * them; they are the same but where a resampler's blocks differ by a sample, which the delay then allows for, and
 * where blocks were missed on either side: the signal then moves on to where it belongs, in a cross-fade. */
void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
/* The stream begins anew after a pause: what came before is forgotten, the engine reset, and the sound fades in. */
void pump_restart(struct pump *p);

/* Fades the input out (within 10 ms) and in again, for a change of microphone. */
void pump_mute(struct pump *p, bool mute);
void pump_stats(const struct pump *p, struct pump_stats *ret);
/* The last n <= PUMP_LISTEN_MAX samples that went out, and what came in for them. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n);
/* For a watchdog: false when hops are due and none was finished or skipped since the last call. */
bool pump_alive(struct pump *p);

#endif
