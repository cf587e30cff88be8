/* slots.h - the engines that the worker keeps, each in a slot, and the pairs of engine streams that pumps have in them.
 *
 * An engine with 2 n engine streams has room for n pumps. Every pump has one pair in each engine that it uses: one
 * stream is in use, the other begins anew where hops must be realigned.
 *
 * Threads: the functions below run on the owner's thread and may allocate. Every field says which thread writes it. */
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
    unsigned hop, delay;                /* samples: engine_hop, engine_delay */
    const float *fade;                  /* [delay], engine_fade */
    bool together;                      /* engine_together; else every hop is a batch of its own */
    /* from the worker */
    struct times hops;                  /* of every hop, whatever its batch: what people are told */
    struct times batches[WORKER_PUMPS]; /* of batches of 1, 2, ... hops */
    _Atomic unsigned n_streams[N_ROLES]; /* that run in it: what a batch can be made of */
    _Atomic bool lost;
    /* the owner's */
    struct stream_pair *pairs[WORKER_PUMPS]; /* pair i has the engine's streams PUMP_STREAMS * i and so on; or NULL */
    unsigned n_pairs, n_taken;               /* room for pairs, and those taken */
    struct engine_slot *older;               /* in engine_slots */
};

/* One stream of an engine, its grid of hops and its output. A hop is named by its start, the position of its first
 * input sample, base + k * hop. Hop `start` takes the positions start .. start + hop - 1 in and gives start - delay ..
 * start - delay + hop - 1 out. */
struct engine_stream {
    struct stream_pair *pair;
    struct engine_slot *slot;
    unsigned number; /* in the engine */
    /* the audio thread's */
    uint64_t grid;      /* = base */
    unsigned block_gcd; /* common divisor of the hop and all blocks since grid: block ends lie on multiples of it */
    /* from the audio thread to the worker */
    _Atomic uint64_t base; /* a value new to the worker: begin the engine's stream anew, there */
    /* from the worker to the audio thread */
    _Atomic uint64_t next;  /* hops before this one are computed or skipped */
    _Atomic uint64_t *done; /* [n_kept], at start / hop % n_kept: the last hop there whose output can be read */
    float wet[RING];        /* by position */
    float *tails;           /* [n_kept][delay], engine_tail after each hop */
    float *speeches;        /* [n_kept], voice.probability of each hop */
    _Atomic float speech;   /* voice.probability ... */
    _Atomic bool speaks;    /* ... and voice.active, for pump_stats */
    /* the worker's */
    uint64_t begun;     /* the base that the worker knows */
    unsigned n_unclean; /* hops to come whose frames still hold a gap in the input */
    float *in, *out;    /* [hop] */
    struct voice voice;
};

/* A pump's streams of an engine. */
struct stream_pair {
    struct engine_slot *slot;
    unsigned number; /* in slot.pairs */
    unsigned n_kept; /* hops whose output and tail each stream keeps: RING / hop */
    struct engine_stream streams[PUMP_STREAMS];
    struct stream_pair *following; /* in feed.pairs, the owner's */
    struct stream_pair *retired;   /* in feed.retired */
};

/* All engines of a worker. */
struct engine_slots {
    struct engine_slot *newest;
    void (*release)(void *data, struct engine *engine);
    void *data;
};

/* Makes a slot, not yet among the others. hop_p99_us: of the warm engine, measured. -ENOMEM. */
int slot_new(struct engine_slot **ret, struct engine *engine, unsigned hop_p99_us);
void slot_add(struct engine_slots *slots, struct engine_slot *slot); /* it becomes the newest */
void slots_release(struct engine_slots *slots);                      /* all, at the end */
/* Gives back the engines without pairs, but keeps the newest for pumps to come where nothing better is left. */
void slots_release_unused(struct engine_slots *slots);

/* Makes pair `number` of a slot, whose place must be free; pair_take puts it there. -ENOSPC where the engine has too
 * few streams, -ENOMEM. */
int pair_new(struct stream_pair **ret, struct engine_slot *slot, unsigned number);
void pair_free(struct stream_pair *pair); /* one that was not taken; NULL is fine */
void pair_take(struct feed *f, struct stream_pair *pair);
/* Frees a pair that the worker and the audio thread no longer know, and engines that nobody needs any more. */
void pair_leave(struct engine_slots *slots, struct feed *f, struct stream_pair *pair);

/* The p99 of what n_hops of one stream take where n_streams run in the slot, this one among them. Any thread. */
unsigned slot_cost_us(const struct engine_slot *slot, unsigned n_hops, unsigned n_streams);

/* Zeroed memory, already backed by pages and, where the limit allows it, locked, because real-time threads must not
 * fault it in. NULL: there is none. */
void *touched(size_t n, size_t size);
void touched_free(void *memory); /* NULL is fine */
bool touched_locked(void); /* whether all of it was locked */

#endif
