/* feed.h - what a pump and the worker share: the pump's input, and the engine streams that it wants to have run. Known
 * to src/live alone. pump.h draws who owns what.
 *
 * Threads: every field says which thread writes it. "The audio thread" is the pump's, "the owner" that of worker.h. */
#ifndef PRIMEKNET_FEED_H
#define PRIMEKNET_FEED_H

#include "live/pump.h"
#include "live/slots.h"
#include "live/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAUSED_NS 1000000000u /* without a block: the audio thread does not run */

struct feed {
    struct worker *worker;
    unsigned number; /* in the worker's feeds */
    int event;       /* eventfd, readable while there is something for the owner */
    /* the owner's */
    struct stream_pair *pairs;
    struct engine_controls controls;
    /* from the audio thread to the worker */
    float dry[RING];                /* the input by position */
    _Atomic uint64_t written;       /* the position at which the input ends so far */
    _Atomic unsigned quantum;       /* samples of the last block */
    _Atomic uint64_t last_block_ns; /* when it came */
    _Atomic uint64_t posted_ns;     /* when the last hops were handed over ... */
    _Atomic uint64_t due_ns;        /* ... and when they are needed */
    _Atomic bool waiting;           /* for progress */
    _Atomic(struct engine_stream *) active[N_ROLES]; /* to be run; or NULL */
    /* pairs on their way: owner -> audio thread -> worker -> owner. The last is a list. */
    _Atomic(struct stream_pair *) incoming, retiring, retired;
    /* from the worker */
    _Atomic uint32_t progress; /* a futex: hops computed, or never to be */
    _Atomic uint64_t hops, skipped_hops;
    _Atomic bool notify; /* tell the owner; also from the audio thread, which makes no system call for it */
};

/* Adds a feed whose event and controls are set, with a pair in the newest engine that is not lost. -ENOSPC: there
 * are WORKER_PUMPS feeds already, or that engine has no streams left; -ENOMEM. Owner. */
int worker_add(struct worker *w, struct feed *f);
/* Returns once the worker uses nothing of the feed any more; its pairs are then freed. Owner. */
void worker_remove(struct worker *w, struct feed *f);
/* Frees the pairs that the worker has given back. Owner. */
void worker_tidy(struct worker *w, struct feed *f);
/* Hands hops over, needed by due_ns on the monotonic clock, and wakes the worker if it sleeps. Real-time safe. */
void worker_post(struct worker *w, struct feed *f, uint64_t due_ns);
/* Whether the worker has real-time priority: as last known, real-time safe; as the kernel says now, by a system call.
 * Any thread. */
bool worker_realtime(const struct worker *w);
bool worker_ask_realtime(struct worker *w);

/* The mark of hop `start`, which is that value once its output can be read; its tail, [delay]; and whether it is speech,
 * as voice.h has it. */
static inline _Atomic uint64_t *done_mark(const struct engine_stream *stream, uint64_t start) {
    return &stream->done[start / stream->slot->hop % stream->pair->n_kept];
}

static inline float *tail_of(const struct engine_stream *stream, uint64_t start) {
    return stream->tails + start / stream->slot->hop % stream->pair->n_kept * stream->slot->delay;
}

static inline float *speech_of(const struct engine_stream *stream, uint64_t start) {
    return &stream->speeches[start / stream->slot->hop % stream->pair->n_kept];
}

static inline bool is_done(const struct engine_stream *stream, uint64_t start) {
    return atomic_load_explicit(done_mark(stream, start), memory_order_acquire) == start;
}

/* The hop whose output holds a position. */
static inline uint64_t hop_of(const struct engine_stream *stream, uint64_t x) {
    const uint64_t at = x + stream->slot->delay;
    return at - (at - stream->grid) % stream->slot->hop;
}

#endif
