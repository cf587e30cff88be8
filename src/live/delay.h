/* delay.h - the delay policy: how many samples the output lags the input, and whether the audio thread may wait for the
 * worker. Pure functions of what they are given; the pump applies what they answer.
 *
 * Sample positions and durations are in samples at PUMP_RATE.
 *
 * Whether the audio thread waits for the worker (enum waiting):
 *
 *   state        waits  share         goes to
 *   AHEAD        no     ENGINE_SHARE  WAITS once the hops fit and the delay may shrink
 *   WAITS        yes    ENGINE_SHARE  BARRED for 2 s when hops no longer fit that fitted at this quantum; AHEAD when
 *                                     they do not fit another quantum, or not beside another engine's
 *   BARRED       no     0.3           WAITS_AGAIN once the time is over and hops fit; AHEAD when the quantum changes
 *   WAITS_AGAIN  yes    0.3           BARRED when hops no longer fit, for twice as long as before (32 s at most) if
 *                                     that comes within 30 s; WAITS when the quantum changes
 *
 * Hops fit while the worker has real-time priority and all hops that one block can release stay below that share of the
 * block's time, by the p99 of the last 2048 hops or of the last 256: a few slow hops do not end it, and a busy moment
 * that is over does not count.
 *
 * Threads: none; real-time safe. */
#ifndef PRIMEKNET_DELAY_H
#define PRIMEKNET_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#define DELAY_SLACK 2u /* by which a resampler's blocks differ, in and out, now and then */

/* An engine stream, as far as its delay depends on it. */
struct delay_stream {
    unsigned engine_delay; /* the synthesis window less a hop */
    unsigned hop;
    unsigned block_gcd; /* common divisor of the hop and all blocks since the hops were aligned */
};

/* The delay at which every stream can be read without a gap, if each hop is there when it is due: the largest of
 * engine_delay + hop - block_gcd, plus `slack`. Where the audio thread does not wait, hops are due a block or a hop
 * later, whichever is longer: `block_max` is the longest block. n >= 1. */
unsigned delay_needed(const struct delay_stream *streams, unsigned n, unsigned slack, unsigned block_max, bool waits);

/* The blocks since the quantum last changed. All zero: none yet. */
struct blocks {
    unsigned quantum; /* samples, give or take DELAY_SLACK */
    unsigned gcd, max;
    unsigned slack; /* 0, or DELAY_SLACK once a resampler's blocks differed */
    uint64_t since; /* the position at which the first of them begins */
};

/* Counts a block of n samples at position `end`. Returns whether it has another quantum. */
bool blocks_add(struct blocks *b, unsigned n, uint64_t end);

enum waiting { AHEAD, WAITS, BARRED, WAITS_AGAIN };

struct wait {
    enum waiting state;
    uint64_t until;  /* BARRED, WAITS_AGAIN: not before this position ... */
    unsigned barred; /* ... which was so many samples ahead */
};

bool wait_now(const struct wait *w); /* whether the audio thread waits */
/* Whether hops of cost_us fit into a block of n samples at position `end`. */
bool wait_fits(const struct wait *w, bool realtime, double cost_us, unsigned n, uint64_t end);
/* The transitions of the table: the hops fit; they do not, `barred` where they did before at this quantum; another
 * quantum. */
void wait_begin(struct wait *w);
void wait_end(struct wait *w, bool barred, uint64_t end);
void wait_renew(struct wait *w);

#endif
