/* slots.h - the worker's engines, each in a slot, and the pairs of engine streams that pumps use in them.
 *
 * An engine with 2 n engine streams serves n pumps. A pump has one pair in each engine that it uses: one stream is in
 * use, and the other restarts when hops must be realigned.
 *
 * Threads: call the functions below on the owner's thread; they may allocate. Each group of fields says which thread
 * writes it. */
#ifndef PRIMEKNET_SLOTS_H
#define PRIMEKNET_SLOTS_H

#include "engine/voice.h"
#include "live/ring.h"
#include "live/times.h"
#include "live/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct feed;

/* What a pump uses an engine stream for, in the order in which the worker serves them. */
enum role { AUDIBLE, FED, N_ROLES };

/* An engine. */
struct engine_slot {
    struct engine *engine;
    unsigned hop, delay; /* samples: engine_hop, engine_delay */
    const float *fade;   /* [delay], engine_fade */
    bool together;       /* engine_together; otherwise each hop is a batch of its own */
    /* written by the worker */
    struct times hops;                   /* of each hop, in any batch; shown in the status */
    struct times batches[WORKER_PUMPS];  /* of batches of 1, 2, ... hops */
    _Atomic unsigned n_streams[N_ROLES]; /* streams that run in this engine, of which batches can consist */
    _Atomic bool lost;
    /* owner only */
    struct stream_pair *pairs[WORKER_PUMPS]; /* or NULL; pair i has the engine's streams from PUMP_STREAMS * i on */
    unsigned n_pairs, n_taken;               /* pairs that fit, and those taken */
    struct engine_slot *older;               /* the next one in engine_slots */
};

/* One stream of an engine, its grid of hops and its output. A hop is identified by its start, the position of its first
 * input sample, base + k * hop. Hop `start` reads the positions start .. start + hop - 1 and outputs start - delay ..
 * start - delay + hop - 1. */
struct engine_stream {
    struct stream_pair *pair;
    struct engine_slot *slot;
    unsigned number; /* index in the engine */
    /* audio thread only */
    uint64_t grid;      /* = base */
    unsigned block_gcd; /* common divisor of the hop and all blocks since grid; blocks end at its multiples */
    /* written by the audio thread, read by the worker */
    _Atomic uint64_t base; /* when it changes, the worker restarts the engine's stream there */
    /* written by the worker, read by the audio thread */
    _Atomic uint64_t next;  /* hops before this one are computed or skipped */
    _Atomic uint64_t *done; /* [n_kept], at start / hop % n_kept: the last hop there whose output can be read */
    float wet[RING];        /* by position */
    float *tails;           /* [n_kept][delay], engine_tail after each hop */
    float *speeches;        /* [n_kept], voice.probability of each hop */
    _Atomic float speech;   /* voice.probability ... */
    _Atomic bool speaks;    /* ... and voice.active, for pump_stats */
    /* worker only */
    uint64_t begun;     /* the base at which the engine's stream was last restarted */
    unsigned n_unclean; /* upcoming hops whose frames still contain a gap in the input */
    float *in, *out;    /* [hop] */
    struct voice voice;
};

/* A pump's streams in an engine. */
struct stream_pair {
    struct engine_slot *slot;
    unsigned number; /* index in slot.pairs */
    unsigned n_kept; /* hops whose output and tail each stream keeps: RING / hop */
    struct engine_stream streams[PUMP_STREAMS];
    struct stream_pair *following; /* the next in feed.pairs; owner only */
    struct stream_pair *retired;   /* the next in feed.retired */
};

/* All engines of a worker. */
struct engine_slots {
    struct engine_slot *newest;
    void (*release)(void *data, struct engine *engine);
    void *data;
};

/* Makes a slot, without adding it. hop_p99_us: measured on the warm engine. Returns 0 or -ENOMEM. */
int slot_new(struct engine_slot **ret, struct engine *engine, unsigned hop_p99_us);
void slot_add(struct engine_slots *slots, struct engine_slot *slot); /* adds it as the newest */
void slots_release(struct engine_slots *slots);                      /* releases all engines, at the end */
/* Releases engines without pairs, but keeps the newest one for future pumps if no better one is left. */
void slots_release_unused(struct engine_slots *slots);

/* Makes pair `number` of a slot, whose place must be free; pair_take puts it there. Returns 0; -ENOSPC if the engine
 * has too few streams; or -ENOMEM. */
int pair_new(struct stream_pair **ret, struct engine_slot *slot, unsigned number);
void pair_free(struct stream_pair *pair); /* only a pair that was not taken; may be NULL */
void pair_take(struct feed *f, struct stream_pair *pair);
/* Frees a pair that the worker and the audio thread no longer use, and releases engines that are then unused. */
void pair_leave(struct engine_slots *slots, struct feed *f, struct stream_pair *pair);

/* Returns the p99 of the time for n_hops of one stream while n_streams, this one included, run in the slot. Any
 * thread. */
unsigned slot_cost_us(const struct engine_slot *slot, unsigned n_hops, unsigned n_streams);

/* Allocates zeroed memory that is already backed by pages and, if the limit allows it, locked, so that real-time
 * threads do not take page faults. Returns NULL if memory runs out. */
void *touched(size_t n, size_t size);
void touched_free(void *memory); /* memory may be NULL */
bool touched_locked(void);       /* whether all memory of touched() was locked */

#endif
