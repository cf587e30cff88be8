/* feed.h - what a pump and the worker share, known to pump.c and worker.c alone.
 *
 * The worker has one unit for every engine. A pump that uses it has a seat in it, with two lanes, each a stream of the
 * engine. A pump shows its input and the lanes that it wants to have run in its feed.
 *
 * Threads: every field says whose it is. The audio thread is the pump's, the owner that of worker.h and pump.h. */
#ifndef PRIMEKNET_FEED_H
#define PRIMEKNET_FEED_H

#include "base/clock.h"
#include "live/futex.h"
#include "live/pump.h"
#include "live/worker.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define RING 65536u           /* samples kept, of the input and of every lane's output: a power of two */
#define BLOCK_MAX 16384u      /* samples; longer blocks are cut (8192 at a 44.1 kHz graph are 8917 here) */
#define N_TIMES 2048          /* batches measured */
#define N_BINS 336            /* of the times' histogram, 16 an octave from 1 us: about 4 % each, up to 2 s */
#define PAUSED_NS 1000000000u /* without a block: the audio thread does not run */

/* How long an engine takes: the last N_TIMES, as a histogram. The worker's, but for p50, p99 and max. */
struct times {
    uint16_t bin[N_TIMES];
    uint16_t count[N_BINS];
    uint64_t n;
    unsigned seed_us; /* what p99 is at least, at first; 0: nothing, only what was measured counts */
    _Atomic unsigned p50_us, p99_us, max_us;
};

enum { SOUNDS, FED, N_RANKS }; /* of a feed's lanes: the first comes first */

/* An engine. */
struct unit {
    struct engine *engine;
    unsigned hop, delay;
    const float *fade;                 /* [delay] */
    struct times hops;                 /* of all batches, by hops: what people are told */
    struct times batches[WORKER_PUMPS]; /* of batches of 1, 2, ... hops */
    bool together;                      /* see engine_together: else every hop is a batch of its own */
    _Atomic unsigned n_lanes[N_RANKS]; /* that run in it: what a batch may be made of. From the worker */
    _Atomic bool lost;
    /* the owner's */
    struct seat *seats[WORKER_PUMPS]; /* seat i has the streams PUMP_STREAMS * i and so on; or NULL */
    unsigned n_seats, n_taken;        /* that there can be, that there are */
    struct unit *link;                /* in the worker's units, the newest first */
};

/* One stream of an engine, its grid of hops and its output. Hop s (named by the position of its first input sample, s
 * = base + k * hop) takes the positions s .. s + hop - 1 in and gives s - delay .. s - delay + hop - 1 out. */
struct lane {
    struct seat *seat;
    struct unit *unit;
    unsigned stream;
    /* the audio thread's */
    uint64_t grid;         /* = base */
    unsigned g;            /* common divisor of the hop and all blocks since grid: block ends lie on multiples of it */
    /* from the audio thread to the worker */
    _Atomic uint64_t base; /* another one than the worker knows: start anew from there */
    /* from the worker to the audio thread */
    _Atomic uint64_t next; /* hops before this one are dealt with */
    _Atomic uint64_t *done; /* [n_slots], slot (s / hop) % n_slots: the last hop there that can be read */
    float *wet;            /* [RING], by position */
    float *tails;          /* [n_slots][delay], see engine_tail */
    /* the worker's */
    uint64_t begun;        /* = base once the worker has seen it */
    unsigned n_unclean;    /* hops to come whose frames still hold a gap in the input */
    float *in, *out;       /* [hop] */
};

/* A pump's part of a unit. */
struct seat {
    struct unit *unit;
    unsigned number; /* in unit.seats */
    unsigned n_slots;
    struct lane lanes[PUMP_STREAMS];
    struct seat *link;    /* in feed.seats, the owner's */
    struct seat *retired; /* in feed.retired */
};

struct feed {
    struct worker *worker;
    unsigned number; /* in the worker's feeds */
    int event;       /* readable: there is something for the owner */
    float *dry;      /* [RING], the input by position */
    /* the owner's */
    struct seat *seats;
    struct engine_controls controls;
    /* from the audio thread */
    _Atomic uint64_t written;              /* the end of the input so far: a position */
    _Atomic unsigned quantum;              /* samples */
    _Atomic uint64_t last_block_ns;
    _Atomic uint64_t posted_ns;            /* when the last hops were handed over ... */
    _Atomic uint64_t due_ns;               /* ... and when they are needed */
    _Atomic bool waiting;
    _Atomic(struct lane *) active[N_RANKS]; /* to be run; or NULL */
    /* a seat that was handed in, one that is no longer used, those that the worker no longer knows */
    _Atomic(struct seat *) incoming, retiring, retired;
    /* from the worker */
    _Atomic uint32_t progress;             /* a futex, of the audio thread that waits */
    _Atomic uint64_t hops, skipped_hops;
    _Atomic bool notify;                   /* the owner shall be told; from the audio thread, too */
};

/* Adds a feed, with a seat in the newest unit that is not lost. event, dry and the controls are set. -ENOSPC: there
 * are WORKER_PUMPS already, or that unit has no streams left. */
int worker_add(struct worker *w, struct feed *f);
/* Nothing of the feed is used any more, and its seats are free. */
void worker_remove(struct worker *w, struct feed *f);
/* Frees the seats that the worker no longer knows. */
void worker_tidy(struct worker *w, struct feed *f);
/* From the audio thread: wakes the worker, if it sleeps. */
void worker_post(struct worker *w, struct feed *f, uint64_t due_ns);
/* Whether the worker has real-time priority: as it was last known, for the audio thread; and as the kernel says now. */
bool worker_realtime(const struct worker *w);
bool worker_ask_realtime(struct worker *w);
/* What n_hops of a lane may take, all but the slowest 1 %, where n_lanes run in the unit, this one among them. */
unsigned unit_cost_us(const struct unit *u, unsigned n_hops, unsigned n_lanes);

static inline void ring_put(float *ring, uint64_t position, const float *from, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(ring + at, from, first * sizeof *ring);
    memcpy(ring, from + first, (n - first) * sizeof *ring);
}

static inline void ring_get(const float *ring, uint64_t position, float *to, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(to, ring + at, first * sizeof *ring);
    memcpy(to + first, ring, (n - first) * sizeof *ring);
}

static inline _Atomic uint64_t *done_slot(const struct lane *l, uint64_t s) {
    return &l->done[s / l->unit->hop % l->seat->n_slots];
}

static inline float *tail_slot(const struct lane *l, uint64_t s) {
    return l->tails + s / l->unit->hop % l->seat->n_slots * l->unit->delay;
}

/* Zeroed, already backed by memory and, where the limit allows, locked there: the real-time threads shall not fault it in. */
void *touched(size_t n, size_t size);

#endif
