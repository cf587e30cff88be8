/* voice.h - voice activity: the probability that a hop of an engine's output is speech.
 *
 * The network removes most of what is not speech, so the level of its output indicates speech. It is measured in the
 * speech band over 30 ms and, because microphones differ, compared with this voice's level so far. With a strength
 * below 1 the output contains noise; the output at full strength is then estimated from the input.
 *
 * Threads: none; real-time safe. */
#ifndef PRIMEKNET_VOICE_H
#define PRIMEKNET_VOICE_H

#include <stdbool.h>

enum { VOICE_PAST = 64 }; /* hops of input kept until their output arrives */

/* The power of a signal in the speech band. */
struct voice_band {
    float x[2], y[2]; /* the filter's last two samples in and out */
    float power;      /* mean over about the last 30 ms */
};

/* Fields that voice_init does not set start as zeros. */
struct voice {
    float b, a[2]; /* the filter's coefficients */
    float keep;    /* the decay of a mean, per hop */
    float hop_s;
    unsigned n_later; /* hops from the input to its output */
    struct voice_band in, out;
    float past[VOICE_PAST]; /* in.power after hop n, at n % VOICE_PAST */
    unsigned n_hops;
    float level_db;    /* this voice's level so far */
    float probability; /* of the last hop; NAN: unknown */
    bool active;       /* somebody is speaking; stays true through gaps of 0.3 s */
    float quiet_s;     /* since the last hop that was probably speech */
};

/* rate in Hz, hop and delay (engine_delay) in samples. */
void voice_init(struct voice *v, unsigned rate, unsigned hop, unsigned delay);
/* Forgets the signal, but keeps the voice's level. */
void voice_restart(struct voice *v);
/* Processes the next hop, in and out [hop]. Samples that are not finite count as 0. strength: as in engine_controls; at
 * 0 the probability is unknown. */
void voice_hop(struct voice *v, const float *in, const float *out, unsigned hop, float strength);

#endif
