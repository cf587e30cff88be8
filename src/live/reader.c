#include "config.h"

#include "live/reader.h"

#include <math.h>

bool readers_add(struct readers *r, struct engine_stream *stream, uint64_t at) {
    if (r->n == N_READERS)
        return false;
    r->all[r->n++] = (struct reader){.stream = stream, .at = at};
    return true;
}

bool readers_use(const struct readers *r, const struct engine_stream *stream) {
    bool use = false;
    for (unsigned i = 0; i < r->n; i++)
        use |= r->all[i].stream == stream;
    return use;
}

void input_get(const struct input *input, uint64_t x, float *out, unsigned n) {
    if (x >= input->born && x + n <= input->end) {
        ring_get(input->dry, x, out, n);
    } else {
        for (unsigned i = 0; i < n; i++, x++)
            out[i] = x >= input->born && x < input->end ? input->dry[x % RING] : 0;
    }
}

/* Reads the next n samples of a reader. */
static void read_on(struct reader *r, const struct input *input, float *out, unsigned n) {
    const struct engine_stream *const stream = r->stream;
    const unsigned hop = stream->slot->hop, delay = stream->slot->delay;
    uint64_t x = r->at;
    r->at += n;
    while (n) {
        unsigned len = n;
        if (!r->lost && x + delay < stream->grid) { /* before the stream's first hop */
            const uint64_t before = stream->grid - delay - x;
            len = before < n ? (unsigned)before : n;
            input_get(input, x, out, len);
        } else if (!r->lost) {
            const uint64_t start = hop_of(stream, x), end = start + hop - delay;
            if (!is_done(stream, start)) {
                const bool has_tail = start > stream->grid && is_done(stream, start - hop);
                r->lost = true;
                r->tail = has_tail ? tail_of(stream, start - hop) : NULL;
                r->tail_start = start - delay;
                continue;
            }
            len = end - x < n ? (unsigned)(end - x) : n;
            ring_get(stream->wet, x, out, len);
        } else if (r->tail && x - r->tail_start < delay) {
            const unsigned at = (unsigned)(x - r->tail_start);
            len = delay - at < n ? delay - at : n;
            input_get(input, x, out, len);
            for (unsigned i = 0; i < len; i++)
                out[i] = r->tail[at + i] + (1 - stream->slot->fade[at + i]) * out[i];
        } else {
            input_get(input, x, out, len);
        }
        x += len;
        out += len;
        n -= len;
    }
}

void readers_mix(struct readers *r, const struct input *input, float *out, unsigned n) {
    unsigned alone = 0;
    read_on(&r->all[0], input, out, n);
    for (unsigned k = 1; k < r->n; k++) {
        struct reader *const reader = &r->all[k];
        read_on(reader, input, r->other, n);
        for (unsigned i = 0; i < n; i++) {
            const unsigned faded = reader->faded + i + 1 < FADE ? reader->faded + i + 1 : FADE;
            out[i] += (r->other[i] - out[i]) * ((float)faded / FADE);
        }
        reader->faded = reader->faded + n < FADE ? reader->faded + n : FADE;
        if (reader->faded == FADE)
            alone = k;
    }
    r->n -= alone;
    memmove(r->all, r->all + alone, r->n * sizeof *r->all);
}

float readers_speech(struct readers *r, unsigned n) {
    const struct reader *const last = newest(r);
    const struct engine_stream *const stream = last->stream;
    const uint64_t at = last->at - n;
    if (last->lost || at + stream->slot->delay < stream->grid)
        return NAN;
    return is_done(stream, hop_of(stream, at)) ? *speech_of(stream, hop_of(stream, at)) : NAN;
}

void readers_count(struct readers *r, unsigned n, uint64_t *n_due, uint64_t *n_late) {
    const struct reader *const last = newest(r);
    const struct engine_stream *const stream = last->stream;
    const struct engine_slot *const slot = stream->slot;
    *n_due = *n_late = 0;
    if (atomic_load(&slot->lost))
        return;
    const uint64_t from = last->at, to = from + n;
    bool all = true;
    uint64_t start = from + slot->delay < stream->grid ? stream->grid : hop_of(stream, from);
    for (; start < to + slot->delay; start += slot->hop) {
        const bool due = start - slot->delay >= from;
        *n_due += due;
        if (!is_done(stream, start)) {
            all = false;
            *n_late += due;
        }
    }
    if (last->lost && all)
        readers_add(r, last->stream, last->at);
}

bool readers_served(const struct readers *r, uint64_t end, unsigned n) {
    for (unsigned i = 0; i < r->n; i++) {
        const struct reader *const reader = &r->all[i];
        const struct engine_stream *const stream = reader->stream;
        const struct engine_slot *const slot = stream->slot;
        const uint64_t to = reader->at + n;
        if ((reader->lost && i + 1 < r->n) || atomic_load(&slot->lost) || to + slot->delay <= stream->grid)
            continue;
        const uint64_t released = end - (end - stream->grid) % slot->hop;
        const uint64_t needed = hop_of(stream, to - 1) + slot->hop;
        if (atomic_load_explicit(&stream->next, memory_order_acquire) < (needed < released ? needed : released))
            return false;
    }
    return true;
}
