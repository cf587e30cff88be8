#include "config.h"

#include "pump.h"

#include "fpu.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING 65536u                    /* samples kept, of the input and of every lane's output: a power of two */
#define BLOCK_MAX 16384u               /* samples; longer blocks are cut (8192 at a 44.1 kHz graph are 8917 here) */
#define SLACK 2u                       /* samples by which a resampler's blocks differ, in and out, now and then */
#define CHUNK 256u                     /* samples rendered at a time */
#define FADE (PUMP_RATE / 100)         /* samples of every cross-fade, and of the input's fade in and out */
#define STABLE PUMP_RATE               /* samples a quantum must last before the delay shrinks */
#define FEED (PUMP_RATE * 3 / 10)      /* samples a new lane is fed before it may sound */
#define FEED_MAX (2 * PUMP_RATE)       /* samples after which it sounds even if it never caught up beside the old one */
#define BEHIND (PUMP_RATE / 10)        /* samples, besides a quantum, that the worker may lag before it skips */
#define WAIT_AGAIN (10 * PUMP_RATE)    /* samples before waiting is tried again where measured hops forbade it */
#define LEVEL (PUMP_RATE * 3 / 10)     /* samples, the levels' time constant */
#define FLOOR_RISE (0.69 / PUMP_RATE)  /* of a level's floor, a sample: 3 dB/s of power */
#define START (1u << 20)               /* the first position: so that no hop's output lies before 0 */
#define N_HEADS 4
#define N_TIMES 2048                   /* hops measured */
#define N_BINS 336                     /* of the times' histogram, 16 an octave from 1 us: about 4 % each, up to 2 s */
#define SEEDED 1000                    /* hops after which live times alone count, not what came with the engine */
#define WAIT_SHARE 0.4                 /* of the quantum that the hops of one callback may take if it is to wait ... */
#define WAIT_SHARE_AGAIN 0.3           /* ... and after they once took more */
#define RUN_MAX_NS 20000000            /* that the worker computes in one go: RLIMIT_RTTIME kills, at 200 ms maybe */
#define PAUSE_NS 100000                /* after which it pauses: with 1 us the timer is over before the thread sleeps */
#define PAUSED_NS 1000000000           /* without a block: the audio thread does not run */

/* Times of an engine's hops: the last N_TIMES, as a histogram. The worker's, but for p50, p99 and max. */
struct times {
    uint16_t bin[N_TIMES];
    uint16_t count[N_BINS];
    uint64_t n;
    unsigned seed_us;
    _Atomic unsigned p50_us, p99_us, max_us;
};

struct unit;

/* One stream of an engine, its grid of hops and its output. Hop s (named by the position of its first input sample, s
 * = base + k * hop) takes the positions s .. s + hop - 1 in and gives s - delay .. s - delay + hop - 1 out. */
struct lane {
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
};

/* An engine and what belongs to it. */
struct unit {
    struct engine *engine;
    unsigned hop, delay, n_slots;
    const float *fade; /* [delay] */
    struct lane lanes[PUMP_STREAMS];
    struct times times;
    _Atomic bool lost;
    struct unit *link;    /* in pump.units, the owner's */
    struct unit *retired; /* in pump.retired */
};

/* One way of reading: a lane from a position on. After a late hop the engine's tail, then the dry signal. */
struct head {
    struct lane *lane;
    uint64_t at;        /* the next to be read */
    unsigned faded;     /* samples of its fade in over the heads before it; FADE: it sounds alone */
    bool lost;
    const float *tail;  /* [unit->delay] from tail_at on, or NULL */
    uint64_t tail_at;
};

struct pump {
    struct rt rt;
    pthread_t thread;
    bool realtime;
    int event;
    void (*release)(void *data, struct engine *engine);
    void *data;

    /* the owner's */
    struct unit *units;
    float strength, floor;
    bool controlled;
    uint64_t seen_progress;

    /* the audio thread's */
    struct lane *cur, *next; /* what sounds; what is fed beside it, or NULL */
    struct head heads[N_HEADS];
    unsigned n_heads;
    bool fresh;             /* the next block is a stream's first */
    unsigned target;        /* the delay that the head that sounds or fades in shall have ... */
    unsigned slack;         /* ... give or take this, ... */
    bool aim;               /* ... but exactly at first */
    uint64_t end;           /* of the input so far: a position */
    uint64_t born;          /* the input before it counts as silence */
    float gain, last;       /* the input's fade, its last sample */
    bool held;              /* the microphone went: its last sample stands until it is faded */
    unsigned quantum;       /* of the blocks since stable_from, give or take a sample */
    unsigned block_max;     /* longest block that the delay must cover */
    uint64_t stable_from;
    unsigned stable_gcd, stable_max;
    bool wait;
    uint64_t wait_again;    /* from this position on waiting may be tried again; 0: no such limit */
    double in_power, out_power, in_floor, out_floor;

    /* between them */
    float *dry;                            /* [RING], the input by position */
    _Atomic uint64_t written;              /* = end */
    float *sounded;                        /* [RING], what went out, for those who look */
    _Atomic uint64_t n_sounded;            /* and START */
    _Atomic uint64_t posted_ns;            /* when the last hops were handed over */
    _Atomic(struct lane *) active[2];      /* that the worker feeds; the first comes first */
    _Atomic(struct unit *) incoming, retiring, retired;
    _Atomic uint32_t posted, progress;     /* futexes: of the worker, of the audio thread */
    _Atomic bool sleeping, waiting, quit, notify, mute;
    _Atomic int holder;                    /* who works on the audio thread's part: see hold() */
    _Atomic uint64_t last_block_ns;
    _Atomic uint64_t hops, late_hops, skipped_hops;
    _Atomic unsigned delay, shown_quantum;
    _Atomic float in_rms, out_rms, in_noise, out_noise;
    _Atomic bool waits;
    _Atomic(struct lane *) sounding;
    _Atomic bool swapping;

    /* the worker's */
    uint64_t ended_ns, slept_ns;
    float *hop_in, *hop_out;               /* [RING], room for any hop */

    float heard[CHUNK], other[CHUNK];      /* the audio thread's scratch */
};

enum { NOBODY, AUDIO, OWNER };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* no system call: the vDSO's */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
    const struct timespec t = {
        .tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static unsigned gcd(unsigned a, unsigned b) {
    while (b) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void ring_put(float *ring, uint64_t position, const float *from, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(ring + at, from, first * sizeof *ring);
    memcpy(ring, from + first, (n - first) * sizeof *ring);
}

static void ring_get(const float *ring, uint64_t position, float *to, unsigned n) {
    const unsigned at = (unsigned)(position % RING), first = n < RING - at ? n : RING - at;
    memcpy(to, ring + at, first * sizeof *ring);
    memcpy(to + first, ring, (n - first) * sizeof *ring);
}

static _Atomic uint64_t *done_slot(const struct lane *l, uint64_t s) {
    return &l->done[s / l->unit->hop % l->unit->n_slots];
}

static float *tail_slot(const struct lane *l, uint64_t s) {
    return l->tails + s / l->unit->hop % l->unit->n_slots * l->unit->delay;
}

static bool is_done(const struct lane *l, uint64_t s) {
    return atomic_load_explicit(done_slot(l, s), memory_order_acquire) == s;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static unsigned time_bin(uint64_t ns) {
    const double bin = 16 * log2((double)ns / 1000);
    return bin < 0 ? 0 : bin >= N_BINS ? N_BINS - 1 : (unsigned)bin;
}

/* The upper edge of a bin: what is said of a time is never too good. */
static unsigned bin_us(unsigned bin) {
    return (unsigned)ceil(exp2((bin + 1) / 16.0));
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

/* ---- the worker -------------------------------------------------------------------------------------------------- */

/* Hops before a gap in the input is out of all frames, and these out of the overlap-add. */
static unsigned unclean_hops(const struct unit *u) {
    return 2 * ((u->delay + u->hop - 1) / u->hop);
}

static void lose_unit(struct pump *p, struct unit *u) {
    atomic_store(&u->lost, true);
    atomic_store(&p->notify, true);
}

/* Deals with one hop of a lane, if one is due. */
static bool lane_run(struct pump *p, struct lane *l) {
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
    const uint64_t written = atomic_load_explicit(&p->written, memory_order_acquire);
    if (s + u->hop > written)
        return false;

    const uint64_t lag = written - s - u->hop;
    if (lag > BEHIND + atomic_load_explicit(&p->shown_quantum, memory_order_relaxed)) {
        const uint64_t n = lag / u->hop;
        atomic_fetch_add_explicit(&p->skipped_hops, n, memory_order_relaxed);
        s += n * u->hop;
        l->n_unclean = unclean_hops(u);
    }

    uint64_t start_ns = now_ns();
    const uint64_t posted_ns = atomic_load_explicit(&p->posted_ns, memory_order_relaxed);
    const uint64_t free_ns = posted_ns > p->ended_ns ? posted_ns : p->ended_ns;
    if (free_ns < start_ns)
        start_ns = free_ns;

    ring_get(p->dry, s, p->hop_in, u->hop);
    const struct engine_job job = {.stream = l->stream, .n_hops = 1, .in = p->hop_in, .out = p->hop_out};
    if (engine_process(u->engine, &job, 1) < 0) {
        lose_unit(p, u);
        return false;
    }
    bool finite = true;
    for (unsigned i = 0; i < u->hop; i++)
        finite &= isfinite(p->hop_out[i]) != 0;
    if (!finite) { /* the state may be poisoned by a monstrous input: better a fresh one, and dry until it is warm */
        engine_reset(u->engine, l->stream);
        l->n_unclean = unclean_hops(u);
    }
    if (l->n_unclean) {
        l->n_unclean--;
    } else {
        ring_put(l->wet, s - u->delay, p->hop_out, u->hop);
        engine_tail(u->engine, l->stream, tail_slot(l, s));
        atomic_store_explicit(done_slot(l, s), s, memory_order_release);
    }
    p->ended_ns = now_ns();
    times_add(&u->times, p->ended_ns - start_ns);
    atomic_fetch_add_explicit(&p->hops, 1, memory_order_relaxed);
    atomic_store_explicit(&l->next, s + u->hop, memory_order_release);
    atomic_fetch_add(&p->progress, 1);
    if (atomic_load(&p->waiting))
        futex_wake(&p->progress);
    return true;
}

static void *worker(void *arg) {
    struct pump *const p = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "primeknet hops");
    fpu_flush_denormals();

    while (!atomic_load(&p->quit)) {
        const uint32_t posted = atomic_load(&p->posted);
        /* Taken before the lanes are read, so none of them belongs to it any more. */
        struct unit *const u = atomic_exchange(&p->retiring, NULL);
        if (u) {
            u->retired = atomic_load(&p->retired);
            while (!atomic_compare_exchange_weak(&p->retired, &u->retired, u)) {
            }
            atomic_store(&p->notify, true);
        }
        if (atomic_exchange(&p->notify, false))
            eventfd_write(p->event, 1);

        bool ran = false;
        for (unsigned i = 0; i < 2 && !ran; i++) {
            struct lane *const l = atomic_load(&p->active[i]);
            ran = l && lane_run(p, l);
        }
        if (!ran) {
            atomic_store(&p->sleeping, true);
            futex_wait(&p->posted, posted, UINT64_MAX);
            atomic_store(&p->sleeping, false);
            p->slept_ns = now_ns();
        } else if (p->ended_ns - p->slept_ns > RUN_MAX_NS) {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
            p->slept_ns = now_ns();
        }
    }
    return NULL;
}

static void post(struct pump *p) {
    atomic_store_explicit(&p->posted_ns, now_ns(), memory_order_relaxed);
    atomic_fetch_add(&p->posted, 1);
    if (atomic_load(&p->sleeping))
        futex_wake(&p->posted);
}

/* ---- the audio thread: delays and lanes -------------------------------------------------------------------------- */

/* The hop whose output holds a position. */
static uint64_t hop_of(const struct lane *l, uint64_t x) {
    const uint64_t at = x + l->unit->delay;
    return at - (at - l->grid) % l->unit->hop;
}

/* The lane starts at the end of the input so far, which is a block's beginning. */
static void lane_begin(struct pump *p, struct lane *l) {
    l->grid = p->end;
    l->g = l->unit->hop;
    atomic_store_explicit(&l->base, p->end, memory_order_release);
}

static struct head *top(struct pump *p) {
    return &p->heads[p->n_heads - 1];
}

/* Another way of reading fades in over the present ones. False when there are too many fades under way: try again. */
static bool push_head(struct pump *p, struct lane *l, uint64_t at) {
    if (p->n_heads == N_HEADS)
        return false;
    p->heads[p->n_heads++] = (struct head){.lane = l, .at = at};
    return true;
}

/* Least delay at which a lane can be read, if everything is computed at once: block ends lie g apart, hop ends hop
 * apart. */
static unsigned lane_delay(const struct lane *l, unsigned g) {
    return l->unit->delay + l->unit->hop - g;
}

static unsigned delay_for(const struct pump *p, unsigned g, unsigned block_max, bool wait) {
    unsigned delay = lane_delay(p->cur, g), hop = p->cur->unit->hop;
    if (p->next) {
        const unsigned other = lane_delay(p->next, p->next->g);
        delay = other > delay ? other : delay;
        hop = p->next->unit->hop > hop ? p->next->unit->hop : hop;
    }
    return delay + p->slack + (wait ? 0 : block_max > hop ? block_max : hop);
}

/* May the audio thread wait for all the hops that a block of n samples can release? */
static bool may_wait(const struct pump *p, unsigned n) {
    if (!p->realtime || p->end < p->wait_again)
        return false;
    double us = 0;
    const struct lane *const lanes[] = {p->cur, p->next};
    for (unsigned i = 0; i < 2; i++) {
        if (lanes[i]) {
            const unsigned n_hops = (lanes[i]->unit->hop - lanes[i]->g + n) / lanes[i]->unit->hop;
            us += (double)n_hops * atomic_load_explicit(&lanes[i]->unit->times.p99_us, memory_order_relaxed);
        }
    }
    return us < (p->wait_again ? WAIT_SHARE_AGAIN : WAIT_SHARE) * n * 1e6 / PUMP_RATE;
}

static void begin_swap(struct pump *p, struct lane *next) {
    lane_begin(p, next);
    p->next = next;
    atomic_store(&p->active[1], next);
}

/* One lane alone. */
static void sound(struct pump *p, struct lane *l) {
    p->cur = l;
    p->next = NULL;
    atomic_store(&p->active[0], l);
    atomic_store(&p->active[1], NULL);
    atomic_store(&p->sounding, l);
}

/* The engine that was handed in, while nothing sounds: at once. */
static void adopt(struct pump *p) {
    struct unit *const u = atomic_load(&p->retiring) ? NULL : atomic_exchange(&p->incoming, NULL);
    if (u) {
        struct unit *const old = p->cur->unit;
        sound(p, &u->lanes[0]);
        atomic_store(&p->retiring, old);
    }
}

/* Takes in, sounds and retires lanes. Called between blocks. */
static void step_lanes(struct pump *p) {
    if (!p->next && !atomic_load(&p->retiring) && atomic_load_explicit(&p->incoming, memory_order_relaxed)) {
        struct unit *const u = atomic_exchange(&p->incoming, NULL);
        if (u)
            begin_swap(p, &u->lanes[0]);
    }
    if (!p->next)
        return;

    bool read = false; /* is the old lane still? */
    for (unsigned i = 0; i < p->n_heads; i++)
        read |= p->heads[i].lane == p->cur;
    if (top(p)->lane == p->cur) {
        if (atomic_load(&p->next->unit->lost) && p->next->unit != p->cur->unit) { /* the new one failed: keep the old */
            struct unit *const failed = p->next->unit;
            sound(p, p->cur);
            atomic_store(&p->retiring, failed);
            return;
        }
        const uint64_t fed = p->end - p->next->grid;
        const uint64_t at = top(p)->at;
        const bool steady = at >= p->next->grid + p->next->unit->delay; /* all frames of what is read are full */
        const bool caught_up = fed >= FEED && steady && is_done(p->next, hop_of(p->next, at - 1));
        if ((caught_up || (steady && fed >= FEED_MAX)) && push_head(p, p->next, at)) {
            atomic_store(&p->active[0], p->next); /* what will sound comes first */
            atomic_store(&p->active[1], p->cur);
        }
    } else if (!read) {
        struct unit *const old = p->cur->unit;
        sound(p, p->next);
        if (old != p->cur->unit)
            atomic_store(&p->retiring, old);
    }
}

/* Sees a block of n samples coming: what the delay must be from now on, and whether to wait. */
static void step_delay(struct pump *p, unsigned n) {
    if (n > p->quantum + SLACK || n + SLACK < p->quantum) {
        p->quantum = n;
        p->slack = 0;
        p->stable_from = p->end;
        p->stable_gcd = p->stable_max = 0;
        p->wait_again = 0;
    }
    p->stable_gcd = gcd(p->stable_gcd, n);
    p->stable_max = n > p->stable_max ? n : p->stable_max;
    p->block_max = n > p->block_max ? n : p->block_max;
    p->cur->g = gcd(p->cur->g, n);
    if (p->next)
        p->next->g = gcd(p->next->g, n);

    if (p->fresh) {
        p->block_max = n;
        p->wait = may_wait(p, n);
        p->target = delay_for(p, p->cur->g, n, p->wait);
        p->heads[0] = (struct head){.lane = p->cur, .at = p->end - p->target, .faded = FADE};
        p->n_heads = 1;
        p->fresh = false;
        return;
    }

    if (p->wait && !may_wait(p, n)) {
        p->wait = false;
        if (p->end > p->stable_from && !p->next) /* it was allowed at this quantum before */
            p->wait_again = p->end + WAIT_AGAIN;
    }
    unsigned delay = delay_for(p, p->cur->g, p->block_max, p->wait);
    if (delay < p->target)
        delay = p->target;
    /* Only what is stable, and sounds alone, may shrink. */
    if (!p->next && p->n_heads == 1 && p->end - p->stable_from >= STABLE) {
        const unsigned g = gcd(p->cur->unit->hop, p->stable_gcd);
        const bool wait = p->wait || may_wait(p, p->stable_max);
        const unsigned less = delay_for(p, g, p->stable_max, wait);
        if (less < delay) {
            if ((p->end - p->cur->grid) % g) { /* the blocks' ends miss the hops': start hops at a block's beginning */
                struct lane *const lanes = p->cur->unit->lanes;
                begin_swap(p, &lanes[p->cur == &lanes[0]]);
                p->next->g = gcd(p->next->g, n);
            } else {
                p->cur->g = g;
                p->block_max = p->stable_max;
                p->wait = wait;
                delay = less;
            }
        }
    }
    p->aim |= p->target != delay;
    p->target = delay;
}

/* Brings the head that sounds to where the target is, when n_out samples are to be read after the input so far. */
static void step_head(struct pump *p, unsigned n_out) {
    const uint64_t at = p->end - n_out - p->target;
    const int64_t off = (int64_t)(top(p)->at - at);
    const int64_t slack = p->aim ? 0 : (int64_t)p->slack;
    if ((off >= -slack && off <= slack) || push_head(p, top(p)->lane, at))
        p->aim = false;
}

/* ---- the audio thread: samples ----------------------------------------------------------------------------------- */

static float square(float x) {
    return x * x;
}

/* power: the sum of a block's squares. */
static void level(double *mean, _Atomic float *rms, float power, unsigned n) {
    if (isfinite(power))
        *mean += (power / n - *mean) * n / (n + LEVEL);
    atomic_store_explicit(rms, sqrtf((float)*mean), memory_order_relaxed);
}

/* Follows a level down at once and up slowly: what is left of it where nobody speaks. */
static void floor_of(const struct pump *p, double *floor, _Atomic float *rms, double mean, unsigned n) {
    const bool settled = p->end - p->born >= PUMP_RATE;
    *floor = settled ? fmin(mean, *floor * (1 + FLOOR_RISE * n)) : mean;
    atomic_store_explicit(rms, settled ? sqrtf((float)*floor) : 0, memory_order_relaxed);
}

/* Takes the block into the dry ring. Where the microphone ends its last sample fades away, where it begins it fades
 * in. */
static void take(struct pump *p, const float *in, unsigned n) {
    const bool mute = atomic_load_explicit(&p->mute, memory_order_relaxed);
    const float step = 1.0f / FADE;
    float power = 0;
    for (unsigned i = 0; i < n; i++) {
        p->held = !in || (p->held && p->gain > 0);
        if (!p->held)
            p->last = isfinite(in[i]) ? in[i] : 0;
        p->gain = p->held || mute ? fmaxf(p->gain - step, 0) : fminf(p->gain + step, 1);
        const float x = p->last * p->gain;
        p->dry[(p->end + i) % RING] = x;
        power += square(x);
    }
    p->end += n;
    level(&p->in_power, &p->in_rms, power, n);
    floor_of(p, &p->in_floor, &p->in_noise, p->in_power, n);
    atomic_store_explicit(&p->written, p->end, memory_order_release);
}

static void read_dry(const struct pump *p, uint64_t x, float *out, unsigned n) {
    if (x >= p->born && x + n <= p->end) {
        ring_get(p->dry, x, out, n);
    } else {
        for (unsigned i = 0; i < n; i++, x++)
            out[i] = x >= p->born && x < p->end ? p->dry[x % RING] : 0;
    }
}

static void head_read(const struct pump *p, struct head *h, float *out, unsigned n) {
    const struct lane *const l = h->lane;
    const struct unit *const u = l->unit;
    uint64_t x = h->at;
    h->at += n;
    while (n) {
        unsigned len = n;
        if (!h->lost && x + u->delay < l->grid) { /* before the lane's first hop: only after a restart, so silence */
            len = l->grid - u->delay - x < n ? (unsigned)(l->grid - u->delay - x) : n;
            read_dry(p, x, out, len);
        } else if (!h->lost) {
            const uint64_t s = hop_of(l, x), end = s + u->hop - u->delay;
            if (!is_done(l, s)) {
                h->lost = true;
                h->tail = is_done(l, s - u->hop) ? tail_slot(l, s - u->hop) : NULL;
                h->tail_at = s - u->delay;
                continue;
            }
            len = end - x < n ? (unsigned)(end - x) : n;
            ring_get(l->wet, x, out, len);
        } else if (h->tail && x - h->tail_at < u->delay) {
            const unsigned at = (unsigned)(x - h->tail_at);
            len = u->delay - at < n ? u->delay - at : n;
            read_dry(p, x, out, len);
            for (unsigned i = 0; i < len; i++)
                out[i] = h->tail[at + i] + (1 - u->fade[at + i]) * out[i];
        } else {
            read_dry(p, x, out, len);
        }
        x += len;
        out += len;
        n -= len;
    }
}

/* The block's output: every head faded in over those before it. */
static void render(struct pump *p, float *out, unsigned n) {
    float power = 0;
    for (unsigned done = 0; done < n;) {
        const unsigned len = n - done < CHUNK ? n - done : CHUNK;
        head_read(p, &p->heads[0], p->heard, len);
        unsigned alone = 0;
        for (unsigned h = 1; h < p->n_heads; h++) {
            struct head *const head = &p->heads[h];
            head_read(p, head, p->other, len);
            for (unsigned i = 0; i < len; i++) {
                const unsigned faded = head->faded + i + 1 < FADE ? head->faded + i + 1 : FADE;
                p->heard[i] += (p->other[i] - p->heard[i]) * ((float)faded / FADE);
            }
            head->faded = head->faded + len < FADE ? head->faded + len : FADE;
            if (head->faded == FADE)
                alone = h;
        }
        if (alone) {
            p->n_heads -= alone;
            memmove(p->heads, p->heads + alone, p->n_heads * sizeof *p->heads);
        }
        for (unsigned i = 0; i < len; i++)
            power += square(p->heard[i]);
        memcpy(out + done, p->heard, len * sizeof *out);
        done += len;
    }
    const uint64_t n_sounded = atomic_load_explicit(&p->n_sounded, memory_order_relaxed);
    ring_put(p->sounded, n_sounded, out, n);
    atomic_store_explicit(&p->n_sounded, n_sounded + n, memory_order_release);
    level(&p->out_power, &p->out_rms, power, n);
    floor_of(p, &p->out_floor, &p->out_noise, p->out_power, n);
}

/* Counts the hops whose first sample is due in the n that are read next and that are not there; where they are there
 * again they fade in. */
static void judge(struct pump *p, unsigned n) {
    const struct head *const h = top(p);
    const struct lane *const l = h->lane;
    const struct unit *const u = l->unit;
    if (atomic_load(&u->lost))
        return;
    const uint64_t from = h->at, to = from + n;
    bool all = true;
    uint64_t n_late = 0;
    for (uint64_t s = from + u->delay < l->grid ? l->grid : hop_of(l, from); s < to + u->delay; s += u->hop) {
        if (!is_done(l, s)) {
            all = false;
            n_late += s - u->delay >= from;
        }
    }
    if (n_late)
        atomic_fetch_add_explicit(&p->late_hops, n_late, memory_order_relaxed);
    if (h->lost && all)
        push_head(p, h->lane, h->at);
}

/* Has the worker dealt with all that the next n samples need? What cannot be there yet, where a head reads too early
 * for a delay that has just grown, is not waited for. */
static bool served(const struct pump *p, unsigned n) {
    for (unsigned i = 0; i < p->n_heads; i++) {
        const struct head *const h = &p->heads[i];
        const struct lane *const l = h->lane;
        const uint64_t to = h->at + n;
        if ((h->lost && i + 1 < p->n_heads) || atomic_load(&l->unit->lost) || to + l->unit->delay <= l->grid)
            continue;
        const uint64_t released = p->end - (p->end - l->grid) % l->unit->hop, needed = hop_of(l, to - 1) + l->unit->hop;
        if (atomic_load_explicit(&l->next, memory_order_acquire) < (needed < released ? needed : released))
            return false;
    }
    return true;
}

static bool is_due(const struct lane *l, uint64_t before, uint64_t end) {
    return l && (end - l->grid) / l->unit->hop != (before - l->grid) / l->unit->hop;
}

static void show(struct pump *p) {
    const bool swapping = p->next && p->next->unit != p->cur->unit;
    if (atomic_load_explicit(&p->delay, memory_order_relaxed) != p->target ||
        atomic_load_explicit(&p->waits, memory_order_relaxed) != p->wait ||
        atomic_load_explicit(&p->swapping, memory_order_relaxed) != swapping) {
        atomic_store_explicit(&p->delay, p->target, memory_order_relaxed);
        atomic_store_explicit(&p->waits, p->wait, memory_order_relaxed);
        atomic_store_explicit(&p->swapping, swapping, memory_order_relaxed);
        atomic_store(&p->notify, true);
    }
    atomic_store_explicit(&p->sounding, top(p)->lane, memory_order_relaxed);
}

static void wait_until(struct pump *p, uint64_t deadline_ns, unsigned n) {
    atomic_store(&p->waiting, true);
    for (;;) {
        const uint32_t progress = atomic_load(&p->progress);
        const uint64_t now = now_ns();
        if (served(p, n) || now >= deadline_ns)
            break;
        futex_wait(&p->progress, progress, deadline_ns - now);
    }
    atomic_store(&p->waiting, false);
}

static void block(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    const uint64_t deadline_ns = now_ns() + n_in * (1000000000u / PUMP_RATE / 2);
    if (n_in) {
        if (!p->fresh)
            step_lanes(p);
        step_delay(p, n_in);
        if (n_in != n_out && n_in <= n_out + SLACK && n_out <= n_in + SLACK)
            p->slack = SLACK;
        atomic_store_explicit(&p->shown_quantum, n_in, memory_order_relaxed);
        show(p);
    }
    /* Only a worker that has nothing left of earlier blocks can serve this one in time. */
    const bool wait = n_in && p->wait && served(p, 0);
    const uint64_t before = p->end;
    if (n_in) {
        take(p, in, n_in);
        if (is_due(p->cur, before, p->end) || is_due(p->next, before, p->end) || atomic_load(&p->notify) ||
            atomic_load_explicit(&p->retiring, memory_order_relaxed))
            post(p);
    }
    if (n_out && !p->fresh) {
        step_head(p, n_out);
        if (wait)
            wait_until(p, deadline_ns, n_out);
        judge(p, n_out);
        render(p, out, n_out);
    } else if (n_out) {
        memset(out, 0, n_out * sizeof *out);
    }
}

static bool hold(struct pump *p, int who) {
    int nobody = NOBODY;
    return atomic_compare_exchange_strong(&p->holder, &nobody, who);
}

void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    if (!hold(p, AUDIO)) { /* after a pause, and the owner just exchanges the engine */
        if (n_out)
            memset(out, 0, n_out * sizeof *out);
        return;
    }
    atomic_store_explicit(&p->last_block_ns, now_ns(), memory_order_relaxed);
    while (n_in || n_out) {
        const unsigned i = n_in < BLOCK_MAX ? n_in : BLOCK_MAX, o = n_out < BLOCK_MAX ? n_out : BLOCK_MAX;
        block(p, in, i, out, o);
        in = in ? in + i : NULL;
        out = out ? out + o : NULL;
        n_in -= i;
        n_out -= o;
    }
    atomic_store(&p->holder, NOBODY);
}

static void restart(struct pump *p) {
    if (p->next && p->next->unit != p->cur->unit) { /* no need to fade now */
        struct unit *old = p->cur->unit;
        if (atomic_load(&p->next->unit->lost))
            old = p->next->unit;
        sound(p, old == p->cur->unit ? p->next : p->cur);
        atomic_store(&p->retiring, old);
    } else {
        sound(p, p->cur);
    }
    adopt(p);
    p->born = p->end;
    p->gain = p->last = 0;
    p->held = false;
    p->in_power = p->out_power = 0;
    p->n_heads = 0;
    p->quantum = 0;
    p->fresh = true;
    lane_begin(p, p->cur);
}

void pump_restart(struct pump *p) {
    if (hold(p, AUDIO)) {
        restart(p);
        atomic_store(&p->holder, NOBODY);
    }
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

static void unit_free(struct unit *u) {
    if (!u)
        return;
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        free(u->lanes[i].done);
        free(u->lanes[i].wet);
        free(u->lanes[i].tails);
    }
    free(u);
}

/* Zeroed and already backed by memory: the real-time threads shall not fault it in. */
static void *touched(size_t n, size_t size) {
    void *const memory = calloc(n, size);
    if (memory)
        memset(memory, 0, n * size);
    __asm__ volatile("" : : "r"(memory) : "memory"); /* or the compiler takes the memset for done */
    return memory;
}

static int unit_new(struct unit **ret, struct engine *engine, unsigned hop_p99_us) {
    const unsigned hop = engine_hop(engine), delay = engine_delay(engine);
    if (!hop || delay + hop + BLOCK_MAX > PUMP_DELAY_MAX)
        return -EINVAL;
    struct unit *const u = touched(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    u->engine = engine;
    u->hop = hop;
    u->delay = delay;
    u->n_slots = RING / hop;
    u->fade = engine_fade(engine);
    u->times.seed_us = hop_p99_us;
    atomic_init(&u->times.p99_us, hop_p99_us);
    for (unsigned i = 0; i < PUMP_STREAMS; i++) {
        struct lane *const l = &u->lanes[i];
        l->unit = u;
        l->stream = i;
        l->done = touched(u->n_slots, sizeof *l->done);
        l->wet = touched(RING, sizeof *l->wet);
        l->tails = touched((size_t)u->n_slots * delay + 1, sizeof *l->tails);
        if (!l->done || !l->wet || !l->tails) {
            unit_free(u);
            return -ENOMEM;
        }
    }
    *ret = u;
    return 0;
}

static void release_unit(struct pump *p, struct unit *u) {
    for (struct unit **at = &p->units; *at; at = &(*at)->link) {
        if (*at == u) {
            *at = u->link;
            break;
        }
    }
    p->release(p->data, u->engine);
    unit_free(u);
}

static void unit_control(const struct pump *p, struct unit *u) {
    for (unsigned i = 0; i < PUMP_STREAMS; i++)
        engine_control(u->engine, i, p->strength, p->floor);
}

int pump_open(struct pump **ret, const struct pump_options *options) {
    int r = -ENOMEM;
    struct unit *unit = NULL;
    struct pump *const p = touched(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->rt = *options->rt;
    p->release = options->release;
    p->data = options->data;
    p->end = START;
    atomic_init(&p->written, START);
    atomic_init(&p->n_sounded, START);
    p->dry = touched(RING, sizeof *p->dry);
    p->sounded = touched(RING, sizeof *p->sounded);
    p->hop_in = touched(RING, sizeof *p->hop_in);
    p->hop_out = touched(RING, sizeof *p->hop_out);
    p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!p->dry || !p->sounded || !p->hop_in || !p->hop_out || p->event < 0)
        goto fail;
    r = unit_new(&unit, options->engine, options->hop_p99_us);
    if (r < 0)
        goto fail;
    p->cur = &unit->lanes[0];
    atomic_init(&p->delay, unit->delay);
    restart(p);
    r = p->rt.start(p->rt.data, &p->thread, worker, p);
    if (r < 0)
        goto fail;
    p->realtime = p->rt.raise(p->rt.data, p->thread) == 0;
    p->units = unit;
    *ret = p;
    return 0;
fail:
    unit_free(unit);
    if (p->event >= 0)
        close(p->event);
    free(p->dry);
    free(p->sounded);
    free(p->hop_in);
    free(p->hop_out);
    free(p);
    return r;
}

void pump_close(struct pump *p) {
    if (!p)
        return;
    atomic_store(&p->quit, true);
    post(p);
    p->rt.join(p->rt.data, p->thread);
    while (p->units)
        release_unit(p, p->units);
    close(p->event);
    free(p->dry);
    free(p->sounded);
    free(p->hop_in);
    free(p->hop_out);
    free(p);
}

int pump_engine(struct pump *p, struct engine *engine, unsigned hop_p99_us) {
    struct unit *u;
    const int r = unit_new(&u, engine, hop_p99_us);
    if (r < 0)
        return r;
    u->link = p->units;
    p->units = u;
    if (p->controlled)
        unit_control(p, u);
    struct unit *const untaken = atomic_exchange(&p->incoming, u);
    if (untaken)
        release_unit(p, untaken);
    if (now_ns() - atomic_load(&p->last_block_ns) > PAUSED_NS && hold(p, OWNER)) {
        restart(p);
        atomic_store(&p->holder, NOBODY);
        post(p);
    }
    return 0;
}

void pump_control(struct pump *p, float strength, float floor) {
    p->strength = strength;
    p->floor = floor;
    p->controlled = true;
    for (struct unit *u = p->units; u; u = u->link)
        unit_control(p, u);
}

int pump_fd(const struct pump *p) {
    return p->event;
}

void pump_dispatch(struct pump *p) {
    eventfd_t count;
    eventfd_read(p->event, &count);
    struct unit *u = atomic_exchange(&p->retired, NULL);
    while (u) {
        struct unit *const following = u->retired;
        release_unit(p, u);
        u = following;
    }
}

void pump_mute(struct pump *p, bool mute) {
    atomic_store(&p->mute, mute);
}

void pump_stats(const struct pump *p, struct pump_stats *ret) {
    const struct unit *const u = atomic_load(&p->sounding)->unit;
    *ret = (struct pump_stats){
        .hops = atomic_load(&p->hops),
        .late_hops = atomic_load(&p->late_hops),
        .skipped_hops = atomic_load(&p->skipped_hops),
        .hop_p50_us = atomic_load(&u->times.p50_us),
        .hop_p99_us = atomic_load(&u->times.p99_us),
        .hop_max_us = atomic_load(&u->times.max_us),
        .delay = atomic_load(&p->delay),
        .quantum = atomic_load(&p->shown_quantum),
        .in_rms = atomic_load(&p->in_rms),
        .out_rms = atomic_load(&p->out_rms),
        .in_noise = atomic_load(&p->in_noise),
        .out_noise = atomic_load(&p->out_noise),
        .realtime = p->realtime,
        .waits = atomic_load(&p->waits),
        .swapping = atomic_load(&p->incoming) || atomic_load(&p->swapping),
        .engine_lost = atomic_load(&u->lost),
    };
}

/* Both rings are much longer than what is read, so that it is not overwritten meanwhile. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n) {
    ring_get(p->dry, atomic_load_explicit(&p->written, memory_order_acquire) - atomic_load(&p->delay) - n, in, n);
    ring_get(p->sounded, atomic_load_explicit(&p->n_sounded, memory_order_acquire) - n, out, n);
}

bool pump_alive(struct pump *p) {
    const uint64_t progress = atomic_load(&p->hops) + atomic_load(&p->skipped_hops);
    const uint64_t written = atomic_load(&p->written);
    bool due = false;
    for (unsigned i = 0; i < 2; i++) {
        const struct lane *const l = atomic_load(&p->active[i]);
        due |= l && !atomic_load(&l->unit->lost) && atomic_load(&l->next) + l->unit->hop <= written;
    }
    const bool alive = !due || progress != p->seen_progress;
    p->seen_progress = progress;
    return alive;
}
