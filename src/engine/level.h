/* level.h - the automatic level: brings speech to a loudness, and leaves pauses as they are.
 *
 * Loudness is that of ITU-R BS.1770-4 over three seconds, as the short-term loudness of EBU R 128, but of speech alone,
 * as voice.h tells it. The gain moves towards what this voice needs while there is speech, and holds in pauses:
 *
 *   gain          -12 to +18 dB
 *   attack        1 s of speech, the time constant where speech is too loud
 *   release       3 s of speech, where it is too quiet
 *   true peak     -1 dBTP at most, by the interpolation of BS.1770-4, annex 2
 *
 * The limiter adds no delay. It splits a block into pieces, checks each together with the samples already given, and
 * lowers the whole piece if its peak would be higher. In speech, 0.05 s after the last such peak, its gain rises again
 * by 20 dB/s. All channels of one sound share every gain.
 *
 * When the level is off or the probability is unknown (in bypass, or once the engine is lost), the gain returns to 0 dB
 * within 0.05 s; then samples pass bit for bit and no peak is limited. The voice's gain is kept for later.
 *
 * Threads: level_control and level_target on any thread at any time, the others on one; all are real-time safe. */
#ifndef PRIMEKNET_LEVEL_H
#define PRIMEKNET_LEVEL_H

#include <stdatomic.h>

#define LEVEL_TARGET (-23.f) /* LUFS, the usual one, and the bounds of others */
#define LEVEL_TARGET_LEAST (-32.f)
#define LEVEL_TARGET_GREATEST (-14.f)

enum { LEVEL_BLOCKS = 30, LEVEL_TAPS = 12 };

/* One channel of a sound. All zero: nothing heard yet. */
struct level_channel {
    float *x;                    /* [n] the block, in place, finite; NULL: the channel is not there now */
    double shelf[2], high_pass[2]; /* states of the K-weighting */
    float given[LEVEL_TAPS - 1]; /* the samples before the block, limited */
};

struct level {
    double rate;
    double shelf[5], high_pass[5];   /* coefficients: b0, b1, b2, a1, a2 */
    _Atomic float target;            /* LUFS; NAN: off */
    double energy;                   /* of the present block of speech, weighted ... */
    double n;                        /* ... and its samples */
    float blocks[LEVEL_BLOCKS];      /* powers of the last blocks of 0.1 s of speech; the oldest is replaced */
    unsigned n_blocks;               /* so far */
    float wanted_db;                 /* the voice's gain */
    float gain_db, gain;             /* the gain after the last sample */
    float limit;                     /* the limiter's ... */
    unsigned held;                   /* ... and samples until it may rise */
};

/* rate in Hz. The level is off. */
void level_init(struct level *l, unsigned rate);
void level_restart(struct level *l);               /* forgets the voice */
void level_control(struct level *l, float target); /* LUFS, or NAN: off */
float level_target(const struct level *l);         /* as set last */

/* The next n samples of each channel, after the network. probability: that they are speech, as voice.h has it; NAN:
 * unknown. */
void level_process(struct level *l, struct level_channel *channels, unsigned n_channels, unsigned n,
                   float probability);

#endif
