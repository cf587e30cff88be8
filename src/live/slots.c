#include "config.h"

#include "live/slots.h"

#include "live/feed.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool all_locked = true;

struct touched {
    size_t size;
    _Alignas(max_align_t) char memory[];
};

/* Uses a separate mapping, because memory_trim unlocks the heap for moments. Under sanitizers calloc, whose bounds they
 * check. */
void *touched(size_t n, size_t size) {
    const size_t all = offsetof(struct touched, memory) + n * size;
#ifdef SANITIZED
    struct touched *const t = calloc(1, all);
    if (!t)
        return NULL;
#else
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    struct touched *const t = mmap(NULL, all, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (t == MAP_FAILED)
        return NULL;
#endif
    if (mlock(t, all) < 0)
        all_locked = false;
    t->size = all;
    return t->memory;
}

void touched_free(void *memory) {
    if (!memory)
        return;
    struct touched *const t = (void *)((char *)memory - offsetof(struct touched, memory));
#ifdef SANITIZED
    free(t);
#else
    munmap(t, t->size);
#endif
}

bool touched_locked(void) {
    return all_locked;
}

/* ---- engines ----------------------------------------------------------------------------------------------------- */

int slot_new(struct engine_slot **ret, struct engine *engine, unsigned hop_p99_us) {
    struct engine_slot *const slot = touched(1, sizeof *slot);
    if (!slot)
        return -ENOMEM;
    slot->engine = engine;
    slot->hop = engine_hop(engine);
    slot->delay = engine_delay(engine);
    slot->fade = engine_fade(engine);
    slot->together = engine_together(engine);
    slot->n_pairs = engine_streams(engine) / PUMP_STREAMS;
    if (slot->n_pairs > WORKER_PUMPS)
        slot->n_pairs = WORKER_PUMPS;
    for (unsigned i = 0; i < WORKER_PUMPS; i++)
        times_seed(&slot->batches[i], (i + 1) * hop_p99_us);
    *ret = slot;
    return 0;
}

void slot_add(struct engine_slots *slots, struct engine_slot *slot) {
    slot->older = slots->newest;
    slots->newest = slot;
}

static void release(struct engine_slots *slots, struct engine_slot *slot) {
    struct engine_slot **at = &slots->newest;
    while (*at != slot)
        at = &(*at)->older;
    *at = slot->older;
    slots->release(slots->data, slot->engine);
    touched_free(slot);
}

void slots_release(struct engine_slots *slots) {
    while (slots->newest)
        release(slots, slots->newest);
}

void slots_release_unused(struct engine_slots *slots) {
    for (struct engine_slot *slot = slots->newest, *older; slot; slot = older) {
        older = slot->older;
        if (!slot->n_taken && (slot != slots->newest || (older && older->n_taken)))
            release(slots, slot);
    }
}

/* Slow batches count while they continue, and while they are more than one in a hundred. */
static unsigned batch_us(const struct engine_slot *slot, unsigned n) {
    if (n == 0)
        return 0;
    const struct times *const t = &slot->batches[n - 1];
    const unsigned all = atomic_load_explicit(&t->p99_us, memory_order_relaxed);
    const unsigned recent = atomic_load_explicit(&t->recent_p99_us, memory_order_relaxed);
    return all < recent ? all : recent;
}

/* With batches, each hop runs together with the other streams' hops, and the first may wait for a batch of theirs that
 * is already running. One by one, each hop may follow a hop of every other stream. */
unsigned slot_cost_us(const struct engine_slot *slot, unsigned n_hops, unsigned n_streams) {
    return slot->together ? n_hops * batch_us(slot, n_streams) + batch_us(slot, n_streams - 1)
                          : n_hops * n_streams * batch_us(slot, 1);
}

/* ---- pairs of streams -------------------------------------------------------------------------------------------- */

void pair_free(struct stream_pair *pair) {
    if (!pair)
        return;
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        touched_free(pair->streams[i].done);
        touched_free(pair->streams[i].tails);
        touched_free(pair->streams[i].speeches);
        touched_free(pair->streams[i].in);
        touched_free(pair->streams[i].out);
    }
    touched_free(pair);
}

int pair_new(struct stream_pair **ret, struct engine_slot *slot, unsigned number) {
    if (number >= slot->n_pairs)
        return -ENOSPC;
    struct stream_pair *const pair = touched(1, sizeof *pair);
    if (!pair)
        return -ENOMEM;
    pair->slot = slot;
    pair->number = number;
    pair->n_kept = RING / slot->hop;
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        struct engine_stream *const stream = &pair->streams[i];
        stream->pair = pair;
        stream->slot = slot;
        stream->number = number * PUMP_STREAMS + i;
        stream->done = touched(pair->n_kept, sizeof *stream->done);
        stream->tails = touched((size_t)pair->n_kept * slot->delay + 1, sizeof *stream->tails);
        stream->speeches = touched(pair->n_kept, sizeof *stream->speeches);
        voice_init(&stream->voice, PUMP_RATE, slot->hop, slot->delay);
        atomic_init(&stream->speech, stream->voice.probability);
        stream->in = touched(slot->hop, sizeof *stream->in);
        stream->out = touched(slot->hop, sizeof *stream->out);
        if (!stream->done || !stream->tails || !stream->speeches || !stream->in || !stream->out) {
            pair_free(pair);
            return -ENOMEM;
        }
    }
    *ret = pair;
    return 0;
}

void pair_take(struct feed *f, struct stream_pair *pair) {
    pair->following = f->pairs;
    f->pairs = pair;
    pair->slot->pairs[pair->number] = pair;
    pair->slot->n_taken++;
    for (unsigned i = 0; i < PUMP_STREAMS; i++)
        engine_control(pair->slot->engine, pair->streams[i].number, f->controls);
}

void pair_leave(struct engine_slots *slots, struct feed *f, struct stream_pair *pair) {
    struct stream_pair **at = &f->pairs;
    while (*at != pair)
        at = &(*at)->following;
    *at = pair->following;
    pair->slot->pairs[pair->number] = NULL;
    pair->slot->n_taken--;
    pair_free(pair);
    slots_release_unused(slots);
}
