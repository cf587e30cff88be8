/* reader.h - makes a pump's output from the output of its engine streams. A reader reads one stream from a position on;
 * each new reader is faded in over the older ones. After a late hop, a reader continues with the engine's tail, then
 * with dry.
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
    uint64_t born;    /* samples before this position count as silence */
    uint64_t end;     /* the position where the input ends so far */
};

struct reader {
    struct engine_stream *stream;
    uint64_t at;       /* the next position to read */
    unsigned faded;    /* samples of its fade-in so far; FADE: complete, only this reader sounds */
    bool lost;         /* a hop was late */
    const float *tail; /* [delay] from tail_start on, or NULL */
    uint64_t tail_start;
};

struct readers {
    struct reader all[N_READERS]; /* from oldest to newest; the newest sounds or is being faded in */
    unsigned n;
    float other[CHUNK]; /* scratch; between calls the pump may use it */
};

static inline struct reader *newest(struct readers *r) {
    return &r->all[r->n - 1];
}

/* Starts to fade in a new reader. Returns false while too many fades are in progress: try again later. */
bool readers_add(struct readers *r, struct engine_stream *stream, uint64_t at);
bool readers_use(const struct readers *r, const struct engine_stream *stream); /* whether one reads it */
/* Whether the worker has computed or skipped every hop that the next n samples need. Ignores hops whose input is not
 * complete yet, because a reader is still too early after the delay has grown. `end`: the end of the input. */
bool readers_served(const struct readers *r, uint64_t end, unsigned n);
/* Counts the hops whose first sample is among the next n, and those of them that are late. Fades in the hops that
 * follow a late one. */
void readers_count(struct readers *r, unsigned n, uint64_t *n_due, uint64_t *n_late);
/* Mixes the next n <= CHUNK samples of all readers, and removes readers that have faded out. */
void readers_mix(struct readers *r, const struct input *input, float *out, unsigned n);
/* Returns the probability of speech (voice.h) n samples before the next one; NAN if dry was played there. */
float readers_speech(struct readers *r, unsigned n);

void input_get(const struct input *input, uint64_t x, float *out, unsigned n);

#endif
