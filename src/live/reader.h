/* reader.h - makes a pump's output of its engine streams' output. A reader reads one stream from a position on; every
 * new reader fades in over those before it. After a late hop a reader continues with the engine's tail, then with dry.
 *
 * Threads: the audio thread; real-time safe. */
#ifndef PRIMEKNET_READER_H
#define PRIMEKNET_READER_H

#include "live/feed.h"

#define FADE (PUMP_RATE / 100) /* samples of every cross-fade, and of the input's fade in and out */
#define CHUNK 256u             /* samples mixed at a time */
#define N_READERS 4

/* A pump's input. */
struct input {
    const float *dry; /* the ring */
    uint64_t born;    /* what came before this position counts as silence */
    uint64_t end;     /* the position at which it ends so far */
};

struct reader {
    struct engine_stream *stream;
    uint64_t at;       /* the next position to be read */
    unsigned faded;    /* samples of its fade in over the readers before it; FADE: it sounds alone */
    bool lost;         /* a hop was late */
    const float *tail; /* [delay] from tail_start on, or NULL */
    uint64_t tail_start;
};

struct readers {
    struct reader all[N_READERS]; /* the last one sounds, or fades in over those before it */
    unsigned n;
    float other[CHUNK]; /* scratch, between two calls the pump's */
};

static inline struct reader *newest(struct readers *r) {
    return &r->all[r->n - 1];
}

/* Fades another reader in over the present ones. False where too many fades are under way: try again. */
bool readers_add(struct readers *r, struct engine_stream *stream, uint64_t at);
bool readers_use(const struct readers *r, const struct engine_stream *stream); /* whether one reads it */
/* Has the worker dealt with all that the next n samples need? What cannot be there yet, where a reader reads too early
 * for a delay that has just grown, is not waited for. `end`: of the input. */
bool readers_served(const struct readers *r, uint64_t end, unsigned n);
/* Counts the hops whose first sample is due in the n that are read next, and those among them that are late. Where hops
 * are there again after a late one, they fade in. */
void readers_count(struct readers *r, unsigned n, uint64_t *n_due, uint64_t *n_late);
/* The next n <= CHUNK samples of all readers. Those that no longer sound end. */
void readers_mix(struct readers *r, const struct input *input, float *out, unsigned n);
/* Whether what was read n samples before the next is speech, as voice.h has it; NAN where that was dry. */
float readers_speech(struct readers *r, unsigned n);

void input_get(const struct input *input, uint64_t x, float *out, unsigned n);

#endif
