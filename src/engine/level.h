/* level.h - the automatic level: adjusts the gain so that speech reaches a target loudness, and holds it in pauses.
 *
 * Loudness is measured as in ITU-R BS.1770-4 over three seconds, like the short-term loudness of EBU R 128, but only
 * over speech, which voice.h detects. While there is speech, the gain approaches the one that this voice needs:
 *
 *   gain          -12 to +18 dB
 *   attack        1 s of speech, the time constant where speech is too loud; 0.2 s where it is more than 4 dB too loud
 *   release       3 s of speech, where it is too quiet; 1 s where it is more than 4 dB too quiet
 *   at once       speech of 0.1 s that would be more than 8 dB too loud
 *   true peak     -1 dBTP at most, by the interpolation of BS.1770-4, annex 2
 *
 * Talkers may take turns: 0.4 s of speech 10 dB louder than what came before, or 2.5 s of speech 10 dB quieter, belong
 * to another talker, and only they count from then on.
 *
 * The limiter adds no delay. It splits a block into pieces, checks each together with the samples already output, and
 * attenuates the whole piece if its peak would exceed the limit. In speech, its gain recovers at 20 dB/s from 0.05 s
 * after the last such peak on. All channels of one sound share every gain.
 *
 * When the level is off or the probability is unknown (in bypass, or once the engine is lost), the gain returns to 0 dB
 * within 0.05 s; then samples pass bit for bit and no peak is limited. The level keeps the voice's gain for later.
 *
 * Threads: call level_control and level_target on any thread at any time, the others on one thread. All are real-time
 * safe. */
#ifndef PRIMEKNET_LEVEL_H
#define PRIMEKNET_LEVEL_H

#include <stdatomic.h>

#define LEVEL_TARGET (-23.f) /* LUFS: the default target and the bounds */
#define LEVEL_TARGET_LEAST (-32.f)
#define LEVEL_TARGET_GREATEST (-14.f)

enum { LEVEL_BLOCKS = 30, LEVEL_TAPS = 12 };

/* One channel of a sound. All zeros: no input yet. */
struct level_channel {
    float *x;                      /* [n] the block, finite, changed in place; NULL: the channel has none */
    double shelf[2], high_pass[2]; /* states of the K-weighting */
    float given[LEVEL_TAPS - 1];   /* the last output samples, limited */
};

struct level_block { /* means of 0.1 s of speech */
    double power, probability;
};

struct level {
    double rate;
    double shelf[5], high_pass[5];           /* coefficients: b0, b1, b2, a1, a2 */
    _Atomic float target;                    /* LUFS; NAN: off */
    double energy, probability;              /* sums over the current block of speech ... */
    double n;                                /* ... and its samples */
    struct level_block blocks[LEVEL_BLOCKS]; /* this talker's last ones, oldest first */
    unsigned n_blocks;
    float wanted_db;     /* the gain that the voice needs */
    float gain_db, gain; /* the gain after the last sample */
    float limit;         /* the limiter's gain ... */
    unsigned held;       /* ... and samples until it may rise */
};

/* rate in Hz. The level starts switched off. */
void level_init(struct level *l, unsigned rate);
void level_restart(struct level *l);               /* forgets the voice */
void level_control(struct level *l, float target); /* LUFS, or NAN: off */
float level_target(const struct level *l);         /* as last set */

/* Processes the next n samples of each channel of the network's output. probability: that they are speech (voice.h);
 * NAN: unknown. */
void level_process(struct level *l, struct level_channel *channels, unsigned n_channels, unsigned n, float probability);

#endif
