/* voice.h - voice activity: the probability that a hop of an engine's output is speech.
 *
 * A network leaves little but speech, so the level of its output shows it. The level is measured in the band of speech
 * over 30 ms and compared with this voice's level so far, because microphones differ. A strength below 1 leaves noise
 * in the output; what the full strength would leave is estimated from the input.
 *
 * Threads: none; real-time safe. */
#ifndef PRIMEKNET_VOICE_H
#define PRIMEKNET_VOICE_H

#include <stdbool.h>

enum { VOICE_PAST = 64 }; /* hops of input that are kept: their output comes later */

/* The power of a signal in the band of speech. */
struct voice_band {
    float x[2], y[2]; /* the filter's last two samples in and out */
    float power;      /* mean of the last 30 ms */
};

/* All zero but for what voice_init sets: nothing heard yet. */
struct voice {
    float b, a[2];    /* the filter's coefficients */
    float keep;       /* of a mean, per hop */
    float hop_s;
    unsigned n_later; /* hops from the input to its output */
    struct voice_band in, out;
    float past[VOICE_PAST]; /* in.power after hop n, at n % VOICE_PAST */
    unsigned n_hops;
    float level_db;    /* of this voice so far */
    float probability; /* of the last hop; NAN: unknown */
    bool active;       /* somebody speaks: holds through gaps of 0.3 s */
    float quiet_s;     /* since the last hop that was probably speech */
};

/* rate in Hz, hop and delay (engine_delay) in samples. */
void voice_init(struct voice *v, unsigned rate, unsigned hop, unsigned delay);
/* Forgets the signal, but not how loud the voice is. */
void voice_restart(struct voice *v);
/* The next hop, in and out [hop]; what is not finite counts as 0. strength: as in engine_controls; 0 leaves the
 * probability unknown. */
void voice_hop(struct voice *v, const float *in, const float *out, unsigned hop, float strength);

#endif
