/* delay.h - the delay policy: by how many samples the output lags the input, and whether the audio thread may wait for
 * the worker. Pure functions of their arguments; the pump applies the results.
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
 * Hops fit if the worker has real-time priority and the p99 of all hops that one block can release is below that share
 * of the block's duration. The p99 is the lower one of the last 2048 and the last 256 hops: a few slow hops do not stop
 * the waiting, and a past load peak does not prevent it.
 *
 * Threads: none; real-time safe. */
#ifndef PRIMEKNET_DELAY_H
#define PRIMEKNET_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#define DELAY_SLACK 2u /* samples by which a resampler's input and output blocks occasionally differ */

/* The properties of an engine stream that determine its delay. */
struct delay_stream {
    unsigned engine_delay; /* the synthesis window less a hop */
    unsigned hop;
    unsigned block_gcd; /* common divisor of the hop and all blocks since the hops were aligned */
};

/* Returns the delay at which every stream can be read without a gap if each hop is on time: the largest engine_delay +
 * hop - block_gcd, plus `slack`. If the audio thread does not wait, hops may arrive a block or a hop later, whichever
 * is longer; `block_max` is the longest block. n >= 1. */
unsigned delay_needed(const struct delay_stream *streams, unsigned n, unsigned slack, unsigned block_max, bool waits);

/* The blocks since the quantum last changed. All zeros: none yet. */
struct blocks {
    unsigned quantum; /* samples, within DELAY_SLACK */
    unsigned gcd, max;
    unsigned slack; /* DELAY_SLACK once block lengths differed, as a resampler's do; else 0 */
    uint64_t since; /* the position where the first of them starts */
};

/* Counts a block of n samples at position `end`. Returns whether it has another quantum. */
bool blocks_add(struct blocks *b, unsigned n, uint64_t end);

enum waiting { AHEAD, WAITS, BARRED, WAITS_AGAIN };

struct wait {
    enum waiting state;
    uint64_t until;  /* BARRED, WAITS_AGAIN: a position ... */
    unsigned barred; /* ... and how many samples ahead it was set */
};

bool wait_now(const struct wait *w); /* whether the audio thread waits */
/* Whether hops of cost_us fit into a block of n samples at position `end`. */
bool wait_fits(const struct wait *w, bool realtime, double cost_us, unsigned n, uint64_t end);
/* The table's transitions: wait_begin when hops fit; wait_end when they do not, with `barred` if they did fit before at
 * this quantum; wait_renew when the quantum changes. */
void wait_begin(struct wait *w);
void wait_end(struct wait *w, bool barred, uint64_t end);
void wait_renew(struct wait *w);

#endif
