#include "config.h"

#include "live/feed.h"
#include "base/fpu.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define BEHIND (PUMP_RATE / 10) /* samples, besides a quantum, that a lane may lag before hops are skipped */
#define SEEDED 1000             /* batches after which live times alone count, not what came with the engine */
#define GATHER_NS 200000        /* that a hop waits for others to go with: what blocks of one cycle of the graph lie apart */
#define RUN_MAX_NS 20000000     /* that is computed in one go: RLIMIT_RTTIME kills, at 200 ms maybe */
#define PAUSE_NS 100000         /* after which it pauses: with 1 us the timer is over before the thread sleeps */

/* A lane whose hop s is due. */
struct due {
    struct feed *feed;
    struct lane *lane;
    uint64_t s;
};

struct worker {
    struct rt rt;
    pthread_t thread;
    int refusal;                          /* of real-time priority */
    bool all_locked;                      /* in memory */
    void (*release)(void *data, struct engine *engine);
    void *data;
    struct unit *units;                   /* the owner's */

    _Atomic(struct feed *) feeds[WORKER_PUMPS];
    _Atomic uint32_t posted, looks, tid;  /* futexes: of the worker, of the owner that removes a feed, that opens it */
    _Atomic bool realtime;
    _Atomic bool sleeping, removing, quit;

    /* the thread's */
    uint64_t ended_ns, slept_ns;
};

/* ---- times ------------------------------------------------------------------------------------------------------- */

static unsigned time_bin(uint64_t ns) {
    const double bin = 16 * log2((double)ns / 1000);
    return bin < 0 ? 0 : bin >= N_BINS ? N_BINS - 1 : (unsigned)bin;
}

/* The upper edge of a bin: what is said of a time is never too good. */
static unsigned bin_us(unsigned bin) {
    return (unsigned)ceil(exp2((bin + 1) / 16.0));
}

static void times_seed(struct times *t, unsigned us) {
    t->seed_us = us;
    atomic_init(&t->p99_us, us);
}

static void times_add(struct times *t, uint64_t ns) {
    uint16_t *const bin = &t->bin[t->n % N_TIMES];
    if (t->n >= N_TIMES)
        t->count[*bin]--;
    *bin = (uint16_t)time_bin(ns);
    t->count[*bin]++;
    t->n++;
    if (t->n % 16 && t->n > 16)
        return;
    const unsigned n = t->n < N_TIMES ? (unsigned)t->n : N_TIMES;
    unsigned sum = 0, p50 = 0, p99 = 0, max = 0;
    for (unsigned i = 0; i < N_BINS; i++) {
        if (!t->count[i])
            continue;
        sum += t->count[i];
        max = bin_us(i);
        if (!p50 && 2 * sum >= n)
            p50 = max;
        if (!p99 && 100 * sum >= 99 * n)
            p99 = max;
    }
    if (t->n < SEEDED && p99 < t->seed_us)
        p99 = t->seed_us;
    atomic_store_explicit(&t->p50_us, p50, memory_order_relaxed);
    atomic_store_explicit(&t->p99_us, p99, memory_order_relaxed);
    atomic_store_explicit(&t->max_us, max, memory_order_relaxed);
}

static unsigned batch_us(const struct unit *u, unsigned n) {
    return n ? atomic_load_explicit(&u->batches[n - 1].p99_us, memory_order_relaxed) : 0;
}

/* Together: each hop in a batch with the others', and the first after one of theirs that had begun. Else each after one
 * of every other lane. */
unsigned unit_cost_us(const struct unit *u, unsigned n_hops, unsigned n_lanes) {
    return u->together ? n_hops * batch_us(u, n_lanes) + batch_us(u, n_lanes - 1) : n_hops * n_lanes * batch_us(u, 1);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void tell(struct feed *f) {
    atomic_store(&f->notify, true);
}

/* Hops before a gap in the input is out of all frames, and these out of the overlap-add. */
static unsigned unclean_hops(const struct unit *u) {
    return 2 * ((u->delay + u->hop - 1) / u->hop);
}

/* The lane's next hop, if it is due; hops that it is too far behind for are skipped. */
static bool lane_due(struct feed *f, struct lane *l, uint64_t *ret) {
    struct unit *const u = l->unit;
    if (atomic_load(&u->lost))
        return false;
    const uint64_t base = atomic_load_explicit(&l->base, memory_order_acquire);
    if (base != l->begun) {
        engine_reset(u->engine, l->stream);
        l->begun = base;
        l->n_unclean = 0;
        atomic_store_explicit(&l->next, base, memory_order_release);
    }
    uint64_t s = atomic_load_explicit(&l->next, memory_order_relaxed);
    const uint64_t written = atomic_load_explicit(&f->written, memory_order_acquire);
    if (s + u->hop > written)
        return false;
    const uint64_t lag = written - s - u->hop;
    if (lag > BEHIND + atomic_load_explicit(&f->quantum, memory_order_relaxed)) {
        const uint64_t n = lag / u->hop;
        atomic_fetch_add_explicit(&f->skipped_hops, n, memory_order_relaxed);
        s += n * u->hop;
        atomic_store_explicit(&l->next, s, memory_order_relaxed);
        l->n_unclean = unclean_hops(u);
    }
    *ret = s;
    return true;
}

/* A seat that is no longer used, for the owner to free. Taken before the lanes are read, so none of them belongs to it
 * any more. */
static void retire(struct feed *f) {
    struct seat *const seat = atomic_exchange(&f->retiring, NULL);
    if (!seat)
        return;
    seat->retired = atomic_load(&f->retired);
    while (!atomic_compare_exchange_weak(&f->retired, &seat->retired, seat)) {
    }
    tell(f);
}

/* Goes over all feeds, and picks the batch: of the lanes that are due the one that is needed first, and all that can
 * go with it. Lanes that sound come before those that are only fed, and are not held up by them. Returns their number. */
static unsigned look(struct worker *w, struct due *batch) {
    struct due due[N_RANKS][WORKER_PUMPS];
    unsigned n_due[N_RANKS] = {0}, first[N_RANKS] = {0};
    uint64_t first_ns[N_RANKS] = {UINT64_MAX, UINT64_MAX};
    const struct lane *lanes[N_RANKS][WORKER_PUMPS] = {0}; /* of pumps that run */
    const uint64_t now = now_ns();

    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (!f)
            continue;
        retire(f);
        if (atomic_exchange(&f->notify, false))
            eventfd_write(f->event, 1);
        const bool runs = now - atomic_load_explicit(&f->last_block_ns, memory_order_relaxed) < PAUSED_NS;
        const uint64_t due_ns = atomic_load_explicit(&f->due_ns, memory_order_relaxed);
        for (unsigned rank = 0; rank < N_RANKS; rank++) {
            struct lane *const l = atomic_load(&f->active[rank]);
            uint64_t s;
            if (l && runs)
                lanes[rank][i] = l;
            if (!l || !lane_due(f, l, &s))
                continue;
            if (due_ns < first_ns[rank]) {
                first_ns[rank] = due_ns;
                first[rank] = n_due[rank];
            }
            due[rank][n_due[rank]++] = (struct due){.feed = f, .lane = l, .s = s};
        }
    }
    for (unsigned rank = 0; rank < N_RANKS; rank++) {
        for (unsigned i = 0; i < WORKER_PUMPS; i++) {
            unsigned n = 0;
            for (unsigned j = 0; lanes[rank][i] && j < WORKER_PUMPS; j++)
                n += lanes[rank][j] && lanes[rank][j]->unit == lanes[rank][i]->unit;
            if (n)
                atomic_store_explicit(&lanes[rank][i]->unit->n_lanes[rank], n, memory_order_relaxed);
        }
    }
    const unsigned rank = n_due[SOUNDS] ? SOUNDS : FED;
    unsigned n = 0;
    if (n_due[rank] && !due[rank][first[rank]].lane->unit->together) {
        batch[0] = due[rank][first[rank]];
        return 1;
    }
    for (unsigned i = 0; i < n_due[rank]; i++) {
        if (due[rank][i].lane->unit == due[rank][first[rank]].lane->unit)
            batch[n++] = due[rank][i];
    }
    return n;
}

static bool is_in(const struct due *batch, unsigned n, const struct lane *l) {
    for (unsigned i = 0; i < n; i++) {
        if (batch[i].lane == l)
            return true;
    }
    return false;
}

/* How long to wait for hops of other pumps that would make the batch larger, and are expected in a moment: a block's
 * time, or a hop's, after their last. 0: not at all. */
static uint64_t gather_ns(struct worker *w, const struct due *batch, unsigned n) {
    const struct unit *const u = batch[0].lane->unit;
    if (!u->together || batch[0].lane != atomic_load(&batch[0].feed->active[SOUNDS]))
        return 0;
    uint64_t end_ns = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        const uint64_t posted_ns = atomic_load_explicit(&batch[i].feed->posted_ns, memory_order_relaxed);
        end_ns = posted_ns + GATHER_NS < end_ns ? posted_ns + GATHER_NS : end_ns;
    }
    const uint64_t now = now_ns();
    for (unsigned i = 0; now < end_ns && i < WORKER_PUMPS; i++) {
        const struct feed *const f = atomic_load(&w->feeds[i]);
        const struct lane *const l = f ? atomic_load(&f->active[SOUNDS]) : NULL;
        if (!l || l->unit != u || is_in(batch, n, l))
            continue;
        const unsigned quantum = atomic_load_explicit(&f->quantum, memory_order_relaxed);
        const uint64_t expected_ns = atomic_load_explicit(&f->posted_ns, memory_order_relaxed) +
                                     (quantum > u->hop ? quantum : u->hop) * (1000000000ull / PUMP_RATE);
        if (expected_ns < end_ns && now < expected_ns + GATHER_NS)
            return end_ns - now;
    }
    return 0;
}

static void lose(struct worker *w, struct unit *u) {
    atomic_store(&u->lost, true);
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (f)
            tell(f);
    }
}

/* What came out of a lane's hop, to the audio thread. */
static void publish(const struct due *d) {
    struct lane *const l = d->lane;
    struct unit *const u = l->unit;
    bool finite = true;
    for (unsigned i = 0; i < u->hop; i++)
        finite &= isfinite(l->out[i]) != 0;
    if (!finite) { /* the state may be poisoned by a monstrous input: better a fresh one, and dry until it is warm */
        engine_reset(u->engine, l->stream);
        l->n_unclean = unclean_hops(u);
    }
    if (l->n_unclean) {
        l->n_unclean--;
    } else {
        ring_put(l->wet, d->s - u->delay, l->out, u->hop);
        engine_tail(u->engine, l->stream, tail_slot(l, d->s));
        atomic_store_explicit(done_slot(l, d->s), d->s, memory_order_release);
    }
}

static void compute(struct worker *w, const struct due *batch, unsigned n) {
    struct unit *const u = batch[0].lane->unit;
    struct engine_job jobs[WORKER_PUMPS];
    uint64_t start_ns = now_ns();
    for (unsigned i = 0; i < n; i++) {
        struct lane *const l = batch[i].lane;
        const uint64_t posted_ns = atomic_load_explicit(&batch[i].feed->posted_ns, memory_order_relaxed);
        const uint64_t free_ns = posted_ns > w->ended_ns ? posted_ns : w->ended_ns;
        if (free_ns < start_ns)
            start_ns = free_ns;
        ring_get(batch[i].feed->dry, batch[i].s, l->in, u->hop);
        jobs[i] = (struct engine_job){.stream = l->stream, .n_hops = 1, .in = l->in, .out = l->out};
    }
    if (engine_process(u->engine, jobs, n) < 0) {
        lose(w, u);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        publish(&batch[i]);
    w->ended_ns = now_ns();
    times_add(&u->batches[n - 1], w->ended_ns - start_ns);
    for (unsigned i = 0; i < n; i++) {
        struct feed *const f = batch[i].feed;
        times_add(&u->hops, w->ended_ns - start_ns);
        atomic_fetch_add_explicit(&f->hops, 1, memory_order_relaxed);
        atomic_store_explicit(&batch[i].lane->next, batch[i].s + u->hop, memory_order_release);
        atomic_fetch_add(&f->progress, 1);
        if (atomic_load(&f->waiting))
            futex_wake(&f->progress);
    }
}

static void *serve(void *arg) {
    struct worker *const w = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "primeknet hops");
    fpu_flush_denormals();
    atomic_store(&w->tid, (uint32_t)gettid());
    futex_wake(&w->tid);

    bool gathered = false; /* the others did not come */
    while (!atomic_load(&w->quit)) {
        const uint32_t posted = atomic_load(&w->posted);
        atomic_fetch_add(&w->looks, 1);
        worker_ask_realtime(w);
        if (atomic_load(&w->removing))
            futex_wake(&w->looks);
        struct due batch[WORKER_PUMPS];
        const unsigned n = look(w, batch);
        const uint64_t wait_ns = !n ? UINT64_MAX : gathered ? 0 : gather_ns(w, batch, n);
        if (wait_ns) {
            atomic_store(&w->sleeping, true);
            gathered = !futex_wait(&w->posted, posted, wait_ns);
            atomic_store(&w->sleeping, false);
            w->slept_ns = now_ns();
            continue;
        }
        compute(w, batch, n);
        gathered = false;
        if (w->ended_ns - w->slept_ns > RUN_MAX_NS) {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
            w->slept_ns = now_ns();
        }
    }
    return NULL;
}

static void post(struct worker *w) {
    atomic_fetch_add(&w->posted, 1);
    if (atomic_load(&w->sleeping))
        futex_wake(&w->posted);
}

void worker_post(struct worker *w, struct feed *f, uint64_t due_ns) {
    atomic_store_explicit(&f->posted_ns, now_ns(), memory_order_relaxed);
    atomic_store_explicit(&f->due_ns, due_ns, memory_order_relaxed);
    post(w);
}

/* ---- the owner: units and seats ---------------------------------------------------------------------------------- */

static bool buffers_locked = true;

void *touched(size_t n, size_t size) {
    void *const memory = calloc(n, size);
    if (memory)
        memset(memory, 0, n * size);
    __asm__ volatile("" : : "r"(memory) : "memory"); /* or the compiler takes the memset for done */
    if (memory && mlock(memory, n * size) < 0)
        buffers_locked = false;
    return memory;
}

/* With all that there is now, the network's weights and states among it, if the limit is that high. */
static void lock_all(struct worker *w) {
    w->all_locked = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
}

const char *worker_locked(const struct worker *w) {
    return w->all_locked ? "all" : buffers_locked ? "buffers" : "none";
}

bool worker_takes(unsigned hop, unsigned delay) {
    return hop && delay + hop + BLOCK_MAX <= PUMP_DELAY_MAX;
}

static int unit_new(struct unit **ret, struct engine *engine, unsigned hop_p99_us) {
    const unsigned hop = engine_hop(engine), delay = engine_delay(engine);
    if (!worker_takes(hop, delay))
        return -EINVAL;
    struct unit *const u = touched(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    u->engine = engine;
    u->hop = hop;
    u->delay = delay;
    u->fade = engine_fade(engine);
    u->together = engine_together(engine);
    u->n_seats = engine_streams(engine) / PUMP_STREAMS;
    if (u->n_seats > WORKER_PUMPS)
        u->n_seats = WORKER_PUMPS;
    for (unsigned i = 0; i < WORKER_PUMPS; i++)
        times_seed(&u->batches[i], (i + 1) * hop_p99_us);
    *ret = u;
    return 0;
}

static void release_unit(struct worker *w, struct unit *u) {
    struct unit **at = &w->units;
    while (*at != u)
        at = &(*at)->link;
    *at = u->link;
    w->release(w->data, u->engine);
    free(u);
}

/* The newest stays for pumps to come, where there is nothing better. */
static void release_unused(struct worker *w) {
    for (struct unit *u = w->units, *older; u; u = older) {
        older = u->link;
        if (!u->n_taken && (u != w->units || (older && older->n_taken)))
            release_unit(w, u);
    }
}

static void seat_free(struct seat *seat) {
    if (!seat)
        return;
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        free(seat->lanes[i].done);
        free(seat->lanes[i].wet);
        free(seat->lanes[i].tails);
        free(seat->lanes[i].in);
        free(seat->lanes[i].out);
    }
    free(seat);
}

/* Not the unit's yet: see take_seat. */
static int seat_new(struct seat **ret, struct unit *u, unsigned number) {
    if (number >= u->n_seats)
        return -ENOSPC;
    struct seat *const seat = touched(1, sizeof *seat);
    if (!seat)
        return -ENOMEM;
    seat->unit = u;
    seat->number = number;
    seat->n_slots = RING / u->hop;
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        struct lane *const l = &seat->lanes[i];
        l->seat = seat;
        l->unit = u;
        l->stream = number * PUMP_STREAMS + i;
        l->done = touched(seat->n_slots, sizeof *l->done);
        l->wet = touched(RING, sizeof *l->wet);
        l->tails = touched((size_t)seat->n_slots * u->delay + 1, sizeof *l->tails);
        l->in = touched(u->hop, sizeof *l->in);
        l->out = touched(u->hop, sizeof *l->out);
        if (!l->done || !l->wet || !l->tails || !l->in || !l->out) {
            seat_free(seat);
            return -ENOMEM;
        }
    }
    *ret = seat;
    return 0;
}

static void take_seat(struct feed *f, struct seat *seat) {
    seat->link = f->seats;
    f->seats = seat;
    seat->unit->seats[seat->number] = seat;
    seat->unit->n_taken++;
    for (unsigned i = 0; i < PUMP_STREAMS; i++)
        engine_control(seat->unit->engine, seat->lanes[i].stream, f->controls);
}

static void leave_seat(struct worker *w, struct feed *f, struct seat *seat) {
    struct unit *const u = seat->unit;
    struct seat **at = &f->seats;
    while (*at != seat)
        at = &(*at)->link;
    *at = seat->link;
    u->seats[seat->number] = NULL;
    u->n_taken--;
    seat_free(seat);
    release_unused(w);
}

int worker_engine(struct worker *w, struct engine *engine, unsigned hop_p99_us) {
    struct seat *seats[WORKER_PUMPS] = {0};
    struct unit *u;
    int r = unit_new(&u, engine, hop_p99_us);
    if (r < 0)
        return r;
    for (unsigned i = 0, number = 0; i < WORKER_PUMPS && r == 0; i++) {
        if (atomic_load(&w->feeds[i]))
            r = seat_new(&seats[i], u, number++);
    }
    if (r < 0) {
        for (unsigned i = 0; i < WORKER_PUMPS; i++)
            seat_free(seats[i]);
        free(u);
        return r;
    }
    u->link = w->units;
    w->units = u;
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        struct feed *const f = atomic_load(&w->feeds[i]);
        if (!f)
            continue;
        take_seat(f, seats[i]);
        struct seat *const untaken = atomic_exchange(&f->incoming, seats[i]);
        if (untaken)
            leave_seat(w, f, untaken);
        eventfd_write(f->event, 1); /* a pump that stands takes it from pump_dispatch */
    }
    lock_all(w);
    release_unused(w);
    return 0;
}

/* ---- the owner: feeds -------------------------------------------------------------------------------------------- */

int worker_add(struct worker *w, struct feed *f) {
    struct unit *u = w->units;
    while (u->link && atomic_load(&u->lost))
        u = u->link;
    for (unsigned i = 0; i < WORKER_PUMPS; i++) {
        if (atomic_load(&w->feeds[i]))
            continue;
        struct seat *seat;
        unsigned number = 0;
        while (number < u->n_seats && u->seats[number])
            number++;
        const int r = seat_new(&seat, u, number);
        if (r < 0)
            return r;
        f->worker = w;
        f->number = i;
        take_seat(f, seat);
        atomic_store(&w->feeds[i], f);
        lock_all(w);
        return 0;
    }
    return -ENOSPC;
}

void worker_remove(struct worker *w, struct feed *f) {
    atomic_store(&w->feeds[f->number], NULL);
    /* A look that has begun may still use it; the one after does not. */
    const uint32_t looks = atomic_load(&w->looks);
    atomic_store(&w->removing, true);
    post(w);
    while (atomic_load(&w->looks) == looks)
        futex_wait(&w->looks, looks, UINT64_MAX);
    atomic_store(&w->removing, false);
    while (f->seats)
        leave_seat(w, f, f->seats);
}

void worker_tidy(struct worker *w, struct feed *f) {
    struct seat *seat = atomic_exchange(&f->retired, NULL);
    while (seat) {
        struct seat *const following = seat->retired;
        leave_seat(w, f, seat);
        seat = following;
    }
}

unsigned worker_hop(const struct worker *w) {
    return w->units->hop;
}

bool worker_realtime(const struct worker *w) {
    return atomic_load_explicit(&w->realtime, memory_order_relaxed);
}

bool worker_ask_realtime(struct worker *w) {
    const bool realtime = w->rt.raised(w->rt.data, (pid_t)atomic_load(&w->tid));
    atomic_store(&w->realtime, realtime);
    return realtime;
}

int worker_refusal(const struct worker *w) {
    return w->refusal;
}

int worker_open(struct worker **ret, const struct worker_options *options) {
    struct worker *const w = touched(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    w->rt = *options->rt;
    w->release = options->release;
    w->data = options->data;
    int r = unit_new(&w->units, options->engine, options->hop_p99_us);
    if (r == 0)
        r = w->rt.start(w->rt.data, &w->thread, serve, w);
    if (r < 0) {
        free(w->units);
        free(w);
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
    while (w->units)
        release_unit(w, w->units);
    free(w);
}
