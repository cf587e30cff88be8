/* feed.h - the data that a pump and the worker share: the pump's input, and the engine streams that it needs. Internal
 * to src/live. The diagram in pump.h shows which thread owns what.
 *
 * Threads: each group of fields says which thread writes it. "The audio thread" is the pump's; "the owner" is defined
 * in worker.h. */
#ifndef PRIMEKNET_FEED_H
#define PRIMEKNET_FEED_H

#include "live/pump.h"
#include "live/slots.h"
#include "live/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAUSED_NS 1000000000u /* after this time without a block, the audio thread counts as stopped */

struct feed {
    struct worker *worker;
    unsigned number; /* index in the worker's feeds */
    int event;       /* eventfd, readable when the owner should call pump_dispatch */
    /* owner only */
    struct stream_pair *pairs;
    struct engine_controls controls;
    /* written by the audio thread, read by the worker */
    float dry[RING];                                 /* the input by position */
    _Atomic uint64_t written;                        /* the position where the input ends so far */
    _Atomic unsigned quantum;                        /* samples of the last block */
    _Atomic uint64_t last_block_ns;                  /* when it arrived */
    _Atomic uint64_t posted_ns;                      /* when the last hops were posted ... */
    _Atomic uint64_t due_ns;                         /* ... and their deadline */
    _Atomic bool waiting;                            /* the audio thread waits for `progress` */
    _Atomic(struct engine_stream *) active[N_ROLES]; /* streams to run, or NULL */
    /* Pairs in transit: owner -> audio thread -> worker -> owner. The last is a list. */
    _Atomic(struct stream_pair *) incoming, retiring, retired;
    /* written by the worker */
    _Atomic uint32_t progress; /* a futex: counts hops computed or skipped */
    _Atomic uint64_t hops, skipped_hops;
    _Atomic bool notify; /* signal `event`; the audio thread sets it too, to avoid a system call */
};

/* Adds a feed, whose event and controls are set, with a pair in the newest engine that is not lost. Returns 0; -ENOSPC
 * if there are WORKER_PUMPS feeds or that engine has no streams left; or -ENOMEM. Owner. */
int worker_add(struct worker *w, struct feed *f);
/* Waits until the worker no longer uses the feed, and frees its pairs. Owner. */
void worker_remove(struct worker *w, struct feed *f);
/* Frees the pairs that the worker has retired. Owner. */
void worker_tidy(struct worker *w, struct feed *f);
/* Posts hops with the deadline due_ns (monotonic clock), and wakes the worker if it sleeps. Real-time safe. */
void worker_post(struct worker *w, struct feed *f, uint64_t due_ns);
/* Whether the worker has real-time priority. The first returns the last known state and is real-time safe; the second
 * asks the kernel with a system call. Any thread. */
bool worker_realtime(const struct worker *w);
bool worker_ask_realtime(struct worker *w);

/* Three values of the hop that starts at `start`: its mark, which equals `start` once its output can be read; its tail,
 * [delay]; and its probability of speech (voice.h). */
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

/* Returns the start of the hop whose output contains position x. */
static inline uint64_t hop_of(const struct engine_stream *stream, uint64_t x) {
    const uint64_t at = x + stream->slot->delay;
    return at - (at - stream->grid) % stream->slot->hop;
}

#endif
