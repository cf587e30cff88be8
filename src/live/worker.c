#include "config.h"

#include "live/worker.h"

#include "base/clock.h"
#include "base/fpu.h"
#include "base/memory.h"
#include "live/feed.h"
#include "base/futex.h"
#include "live/slots.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define BEHIND (PUMP_RATE / 10) /* samples, besides a quantum, that a stream may lag before hops are skipped */
#define GATHER_NS 200000        /* how long a hop waits for others: the distance of the blocks in one graph cycle */
#define RUN_MAX_NS 20000000     /* work without sleep; at RLIMIT_RTTIME, maybe 200 ms, the kernel kills us */
#define PAUSE_NS 100000         /* the sleep then; a timer of 1 us would expire before the thread sleeps */

struct worker {
    struct rt rt;
    pthread_t thread;
    int refusal;               /* of real-time priority: -errno or 0 */
    bool all_locked;           /* in memory */
    struct engine_slots slots; /* owner only */

    _Atomic(struct feed *) feeds[WORKER_PUMPS];
    _Atomic uint32_t posted; /* futex: the worker sleeps on it */
    _Atomic uint32_t looks;  /* futex: the owner sleeps on it to remove a feed */
    _Atomic uint32_t tid;    /* futex: the owner sleeps on it to open the worker */
    _Atomic bool realtime;
    _Atomic bool sleeping, removing, quit;

    /* worker's thread only */
    uint64_t ended_ns, slept_ns;
};

/* ---- the thread: what is due ------------------------------------------------------------------------------------- */

/* A stream whose hop `start` can be computed. */
struct due_hop {
    struct feed *feed;
    struct engine_stream *stream;
    uint64_t start;
};

/* All due hops of one role, and the one with the earliest deadline. */
struct due_hops {
    struct due_hop hops[WORKER_PUMPS];
    unsigned n, first;
    uint64_t first_ns; /* its deadline */
};

/* Passes a pair that the audio thread no longer uses on to the owner, which frees it, and wakes the owner if there is
 * news. It runs before the active streams are read, so none of them belongs to that pair. */
static void answer_owner(struct feed *f) {
    struct stream_pair *const pair = atomic_exchange(&f->retiring, NULL);
    if (pair) {
        pair->retired = atomic_load(&f->retired);
        while (!atomic_compare_exchange_weak(&f->retired, &pair->retired, pair)) {
        }
        atomic_store(&f->notify, true);
    }
    if (atomic_exchange(&f->notify, false))
        eventfd_write(f->event, 1);
}

/* Counts the streams of each role whose pumps run, per engine: batches can consist of these. */
static void count_streams(struct worker *w) {
    const struct engine_stream *streams[N_ROLES][WORKER_PUMPS] = {0};
    const uint64_t now = now_ns();
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        const struct feed *const f = atomic_load(&w->feeds[i]);
        if (!f || now - atomic_load_explicit(&f->last_block_ns, memory_order_relaxed) >= PAUSED_NS)
            continue;
        for (unsigned role = 0; role < N_ROLES; role++)
            streams[role][i] = atomic_load(&f->active[role]);
    }
    for (unsigned role = 0; role < N_ROLES; role++) {
        for (unsigned i = 0; i < WORKER_PUMPS; i++) {
            unsigned n = 0;
            for (unsigned j = 0; streams[role][i] && j < WORKER_PUMPS; j++)
                n += streams[role][j] && streams[role][j]->slot == streams[role][i]->slot;
            if (n)
                atomic_store_explicit(&streams[role][i]->slot->n_streams[role], n, memory_order_relaxed);
        }
    }
}

/* Returns the hops until a gap in the input has left all frames, and these have left the overlap-add. */
static unsigned unclean_hops(const struct engine_slot *slot) {
    return 2 * ((slot->delay + slot->hop - 1) / slot->hop);
}

static void show_voice(struct feed *f, struct engine_stream *stream) {
    const struct voice *const v = &stream->voice;
    const float before = atomic_exchange_explicit(&stream->speech, v->probability, memory_order_relaxed);
    const bool spoke = atomic_exchange_explicit(&stream->speaks, v->active, memory_order_relaxed);
    if (spoke != v->active || !isnan(before) != !isnan(v->probability))
        atomic_store(&f->notify, true);
}

/* Finds the stream's next hop, and skips hops if the stream is too far behind. Returns false if samples are missing. */
static bool next_hop(struct feed *f, struct engine_stream *stream, uint64_t *start) {
    struct engine_slot *const slot = stream->slot;
    if (atomic_load(&slot->lost))
        return false;
    const uint64_t base = atomic_load_explicit(&stream->base, memory_order_acquire);
    if (base != stream->begun) {
        if (stream->begun)
            engine_pause(slot->engine, stream->number);
        else
            engine_reset(slot->engine, stream->number);
        voice_restart(&stream->voice);
        show_voice(f, stream);
        stream->begun = base;
        stream->n_unclean = 0;
        atomic_store_explicit(&stream->next, base, memory_order_release);
    }
    *start = atomic_load_explicit(&stream->next, memory_order_relaxed);
    const uint64_t written = atomic_load_explicit(&f->written, memory_order_acquire);
    if (*start + slot->hop > written)
        return false;
    const uint64_t lag = written - *start - slot->hop;
    if (lag > BEHIND + atomic_load_explicit(&f->quantum, memory_order_relaxed)) {
        const uint64_t n = lag / slot->hop;
        atomic_fetch_add_explicit(&f->skipped_hops, n, memory_order_relaxed);
        *start += n * slot->hop;
        atomic_store_explicit(&stream->next, *start, memory_order_relaxed);
        stream->n_unclean = unclean_hops(slot);
    }
    return true;
}

/* Adds a feed's due hops to those of earlier feeds. */
static void find_due(struct feed *f, struct due_hops due[N_ROLES]) {
    const uint64_t due_ns = atomic_load_explicit(&f->due_ns, memory_order_relaxed);
    for (unsigned role = 0; role < N_ROLES; role++) {
        struct due_hops *const d = &due[role];
        struct engine_stream *const stream = atomic_load(&f->active[role]);
        uint64_t start;
        if (!stream || !next_hop(f, stream, &start))
            continue;
        if (d->n == 0 || due_ns < d->first_ns) {
            d->first_ns = due_ns;
            d->first = d->n;
        }
        d->hops[d->n++] = (struct due_hop){.feed = f, .stream = stream, .start = start};
    }
}

/* Picks the hop with the earliest deadline and, if the engine batches hops, all hops that can join it. Returns the
 * number of hops in the batch. */
static unsigned pick_batch(const struct due_hops *due, struct due_hop *batch) {
    if (!due->n)
        return 0;
    const struct due_hop *const first = &due->hops[due->first];
    unsigned n = 0;
    for (unsigned i = 0; i < due->n; i++) {
        if (first->stream->slot->together ? due->hops[i].stream->slot == first->stream->slot : &due->hops[i] == first)
            batch[n++] = due->hops[i];
    }
    return n;
}

/* Scans all feeds and decides what to compute next. Audible streams have priority over streams that are only fed, and
 * never wait for them. Returns the number of hops in the batch. */
static unsigned look(struct worker *w, struct due_hop *batch) {
    struct due_hops due[N_ROLES] = {0};
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (f) {
            answer_owner(f);
            find_due(f, due);
        }
    }
    count_streams(w);
    return pick_batch(&due[due[AUDIBLE].n ? AUDIBLE : FED], batch);
}

static bool is_in(const struct due_hop *batch, unsigned n, const struct engine_stream *stream) {
    for (unsigned i = 0; i < n; i++) {
        if (batch[i].stream == stream)
            return true;
    }
    return false;
}

/* Returns how long to wait for hops of other pumps that could join the batch. They are expected one block or one hop,
 * whichever is longer, after their last one. 0: do not wait. */
static uint64_t gather_ns(struct worker *w, const struct due_hop *batch, unsigned n) {
    const struct engine_slot *const slot = batch[0].stream->slot;
    if (!slot->together || batch[0].stream != atomic_load(&batch[0].feed->active[AUDIBLE]))
        return 0;
    uint64_t end_ns = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        const uint64_t posted_ns = atomic_load_explicit(&batch[i].feed->posted_ns, memory_order_relaxed);
        end_ns = posted_ns + GATHER_NS < end_ns ? posted_ns + GATHER_NS : end_ns;
    }
    const uint64_t now = now_ns();
    for (unsigned i = 0; now < end_ns && i < WORKER_PUMPS; i++) {
        const struct feed *const f = atomic_load(&w->feeds[i]);
        const struct engine_stream *const stream = f ? atomic_load(&f->active[AUDIBLE]) : NULL;
        if (!stream || stream->slot != slot || is_in(batch, n, stream))
            continue;
        const unsigned quantum = atomic_load_explicit(&f->quantum, memory_order_relaxed);
        const uint64_t expected_ns = atomic_load_explicit(&f->posted_ns, memory_order_relaxed) +
                                     (quantum > slot->hop ? quantum : slot->hop) * (1000000000ull / PUMP_RATE);
        if (expected_ns < end_ns && now < expected_ns + GATHER_NS)
            return end_ns - now;
    }
    return 0;
}

/* ---- the thread: computing --------------------------------------------------------------------------------------- */

/* Wakes the audio thread if it waits. */
static void tell_progress(struct feed *f) {
    atomic_fetch_add(&f->progress, 1);
    if (atomic_load(&f->waiting))
        futex_wake(&f->progress, 1);
}

/* Handles a failed engine: dry plays until the owner passes another one, and no thread waits for its hops. */
static void lose(struct worker *w, struct engine_slot *slot) {
    atomic_store(&slot->lost, true);
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (f) {
            atomic_store(&f->notify, true);
            tell_progress(f);
        }
    }
}

/* Passes a hop's output to the audio thread, unless it is spoiled by a gap in the input or a non-finite value. */
static void publish(const struct due_hop *d) {
    struct engine_stream *const stream = d->stream;
    struct engine_slot *const slot = stream->slot;
    bool finite = true;
    for (unsigned i = 0; i < slot->hop; i++)
        finite &= isfinite(stream->out[i]) != 0;
    if (!finite) { /* the state may be poisoned: reset it, and play dry until frames are full again */
        engine_reset(slot->engine, stream->number);
        stream->n_unclean = unclean_hops(slot);
    }
    if (stream->n_unclean) {
        stream->n_unclean--;
        return;
    }
    voice_hop(&stream->voice, stream->in, stream->out, slot->hop, engine_strength(slot->engine, stream->number));
    show_voice(d->feed, stream);
    ring_put(stream->wet, d->start - slot->delay, stream->out, slot->hop);
    engine_tail(slot->engine, stream->number, tail_of(stream, d->start));
    *speech_of(stream, d->start) = stream->voice.probability;
    atomic_store_explicit(done_mark(stream, d->start), d->start, memory_order_release);
}

/* Runs the batch and wakes the audio threads that wait for it. A hop's time is measured from when it could start: when
 * it was posted, or when the previous batch ended. */
static void compute(struct worker *w, const struct due_hop *batch, unsigned n) {
    struct engine_slot *const slot = batch[0].stream->slot;
    struct engine_job jobs[WORKER_PUMPS];
    uint64_t start_ns = now_ns();
    for (unsigned i = 0; i < n; i++) {
        struct engine_stream *const stream = batch[i].stream;
        const uint64_t posted_ns = atomic_load_explicit(&batch[i].feed->posted_ns, memory_order_relaxed);
        const uint64_t free_ns = posted_ns > w->ended_ns ? posted_ns : w->ended_ns;
        if (free_ns < start_ns)
            start_ns = free_ns;
        ring_get(batch[i].feed->dry, batch[i].start, stream->in, slot->hop);
        jobs[i] = (struct engine_job){.stream = stream->number, .n_hops = 1, .in = stream->in, .out = stream->out};
    }
    if (engine_process(slot->engine, jobs, n) < 0) {
        lose(w, slot);
        return;
    }
    bool ran = false;
    for (unsigned i = 0; i < n; i++) {
        publish(&batch[i]);
        ran |= engine_ran(slot->engine, batch[i].stream->number);
    }
    w->ended_ns = now_ns();
    if (ran)
        times_add(&slot->batches[n - 1], w->ended_ns - start_ns);
    for (unsigned i = 0; i < n; i++) {
        struct feed *const f = batch[i].feed;
        if (ran)
            times_add(&slot->hops, w->ended_ns - start_ns);
        atomic_fetch_add_explicit(&f->hops, 1, memory_order_relaxed);
        atomic_store_explicit(&batch[i].stream->next, batch[i].start + slot->hop, memory_order_release);
        tell_progress(f);
    }
}

/* ---- the thread: its life ---------------------------------------------------------------------------------------- */

/* Sleeps until the next post, or until the timeout; then it returns false. */
static bool sleep_until_posted(struct worker *w, uint32_t posted, uint64_t timeout_ns) {
    atomic_store(&w->sleeping, true);
    const bool woken = futex_wait(&w->posted, posted, timeout_ns);
    atomic_store(&w->sleeping, false);
    w->slept_ns = now_ns();
    return woken;
}

static void pause_now_and_then(struct worker *w) {
    if (w->ended_ns - w->slept_ns > RUN_MAX_NS) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        w->slept_ns = now_ns();
    }
}

/* The worker's loop: scans the feeds, then sleeps if nothing is due, waits if the batch may grow, or computes. */
static void *serve(void *arg) {
    struct worker *const w = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "primeknet hops");
    fpu_flush_denormals();
    atomic_store(&w->tid, (uint32_t)gettid());
    futex_wake(&w->tid, 1);

    enum { LOOKS, SLEEPS, GATHERS, COMPUTES, HAS_GATHERED } state = LOOKS;
    while (!atomic_load(&w->quit)) {
        const uint32_t posted = atomic_load(&w->posted);
        atomic_fetch_add(&w->looks, 1);
        worker_ask_realtime(w);
        if (atomic_load(&w->removing))
            futex_wake(&w->looks, 1);
        struct due_hop batch[WORKER_PUMPS];
        const unsigned n = look(w, batch);
        const uint64_t wait_ns = n && state != HAS_GATHERED ? gather_ns(w, batch, n) : 0;
        state = !n ? SLEEPS : wait_ns ? GATHERS : COMPUTES;
        if (state == COMPUTES) {
            compute(w, batch, n);
            pause_now_and_then(w);
            state = LOOKS;
        } else {
            const bool woken = sleep_until_posted(w, posted, state == SLEEPS ? UINT64_MAX : wait_ns);
            state = woken ? LOOKS : HAS_GATHERED; /* without the others, which did not arrive */
        }
    }
    return NULL;
}

static void post(struct worker *w) {
    atomic_fetch_add(&w->posted, 1);
    if (atomic_load(&w->sleeping))
        futex_wake(&w->posted, 1);
}

/* ---- audio threads ----------------------------------------------------------------------------------------------- */

void worker_post(struct worker *w, struct feed *f, uint64_t due_ns) {
    atomic_store_explicit(&f->posted_ns, now_ns(), memory_order_relaxed);
    atomic_store_explicit(&f->due_ns, due_ns, memory_order_relaxed);
    post(w);
}

bool worker_realtime(const struct worker *w) {
    return atomic_load_explicit(&w->realtime, memory_order_relaxed);
}

bool worker_ask_realtime(struct worker *w) {
    const bool realtime = w->rt.raised(w->rt.data, (pid_t)atomic_load(&w->tid));
    atomic_store(&w->realtime, realtime);
    return realtime;
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

bool worker_takes(unsigned hop, unsigned delay) {
    return hop && delay + hop + BLOCK_MAX <= PUMP_DELAY_MAX;
}

static int new_slot(struct engine_slot **ret, struct engine *engine, unsigned hop_p99_us) {
    if (!worker_takes(engine_hop(engine), engine_delay(engine)))
        return -EINVAL;
    return slot_new(ret, engine, hop_p99_us);
}

int worker_engine(struct worker *w, struct engine *engine, unsigned hop_p99_us) {
    struct stream_pair *pairs[WORKER_PUMPS] = {0};
    struct engine_slot *slot;
    int r = new_slot(&slot, engine, hop_p99_us);
    if (r < 0)
        return r;
    for (unsigned i = 0, number = 0; i < WORKER_PUMPS && r == 0; i++) {
        if (atomic_load(&w->feeds[i]))
            r = pair_new(&pairs[i], slot, number++);
    }
    if (r < 0) {
        for (unsigned i = 0; i < WORKER_PUMPS; i++)
            pair_free(pairs[i]);
        touched_free(slot);
        return r;
    }
    slot_add(&w->slots, slot);
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (!f)
            continue;
        pair_take(f, pairs[i]);
        struct stream_pair *const untaken = atomic_exchange(&f->incoming, pairs[i]);
        if (untaken)
            pair_leave(&w->slots, f, untaken);
        eventfd_write(f->event, 1); /* a pump whose audio thread does not run takes it in pump_dispatch */
    }
    w->all_locked = memory_lock(); /* includes weights and states */
    slots_release_unused(&w->slots);
    return 0;
}

int worker_add(struct worker *w, struct feed *f) {
    struct engine_slot *slot = w->slots.newest;
    while (slot->older && atomic_load(&slot->lost))
        slot = slot->older;
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        if (atomic_load(&w->feeds[i]))
            continue;
        struct stream_pair *pair;
        unsigned number = 0;
        while (number < slot->n_pairs && slot->pairs[number])
            number++;
        const int r = pair_new(&pair, slot, number);
        if (r < 0)
            return r;
        f->worker = w;
        f->number = i;
        pair_take(f, pair);
        atomic_store(&w->feeds[i], f);
        w->all_locked = memory_lock(); /* includes weights and states */
        return 0;
    }
    return -ENOSPC;
}

void worker_remove(struct worker *w, struct feed *f) {
    atomic_store(&w->feeds[f->number], NULL);
    /* A scan in progress may still use the feed; the next one does not. */
    const uint32_t looks = atomic_load(&w->looks);
    atomic_store(&w->removing, true);
    post(w);
    while (atomic_load(&w->looks) == looks)
        futex_wait(&w->looks, looks, UINT64_MAX);
    atomic_store(&w->removing, false);
    while (f->pairs)
        pair_leave(&w->slots, f, f->pairs);
}

void worker_tidy(struct worker *w, struct feed *f) {
    struct stream_pair *pair = atomic_exchange(&f->retired, NULL);
    while (pair) {
        struct stream_pair *const following = pair->retired;
        pair_leave(&w->slots, f, pair);
        pair = following;
    }
}

const char *worker_locked(const struct worker *w) {
    return w->all_locked ? "all" : touched_locked() ? "buffers" : "none";
}

int worker_refusal(const struct worker *w) {
    return w->refusal;
}

int worker_open(struct worker **ret, const struct worker_options *options) {
    struct worker *const w = touched(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    w->rt = *options->rt;
    w->slots.release = options->release;
    w->slots.data = options->data;
    int r = new_slot(&w->slots.newest, options->engine, options->hop_p99_us);
    if (r == 0)
        r = w->rt.start(w->rt.data, &w->thread, serve, w);
    if (r < 0) {
        touched_free(w->slots.newest);
        touched_free(w);
        return r;
    }
    while (!atomic_load(&w->tid))
        futex_wait(&w->tid, 0, UINT64_MAX);
    w->refusal = w->rt.raise(w->rt.data, w->thread);
    worker_ask_realtime(w);
    *ret = w;
    return 0;
}

void worker_close(struct worker *w) {
    if (!w)
        return;
    atomic_store(&w->quit, true);
    post(w);
    w->rt.join(w->rt.data, w->thread);
    slots_release(&w->slots);
    touched_free(w);
}
