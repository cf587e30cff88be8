#include "config.h"

#include "live/feed.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define SLACK 2u                       /* samples by which a resampler's blocks differ, in and out, now and then */
#define CHUNK 256u                     /* samples rendered at a time */
#define FADE (PUMP_RATE / 100)         /* samples of every cross-fade, and of the input's fade in and out */
#define STABLE PUMP_RATE               /* samples a quantum must last before the delay shrinks */
#define FEED (PUMP_RATE * 3 / 10)      /* samples a new lane is fed before it may sound */
#define FEED_MAX (2 * PUMP_RATE)       /* samples after which it sounds even if it never caught up beside the old one */
#define WAIT_AGAIN (10 * PUMP_RATE)    /* samples before waiting is tried again where measured hops forbade it */
#define LEVEL (PUMP_RATE * 3 / 10)     /* samples, the levels' time constant */
#define FLOOR_RISE (0.69 / PUMP_RATE)  /* of a level's floor, a sample: 3 dB/s of power */
#define START (1u << 20)               /* the first position: so that no hop's output lies before 0 */
#define N_HEADS 4
#define WAIT_SHARE 0.4                 /* of the quantum that the hops of one callback may take if it is to wait ... */
#define WAIT_SHARE_AGAIN 0.3           /* ... and after they once took more */

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
    struct feed feed; /* what the worker sees; it is told there whose the fields are */

    /* the owner's */
    uint64_t seen_written;
    bool rests;

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
    float heard[CHUNK], other[CHUNK]; /* scratch */

    /* between them */
    float *sounded;                        /* [RING], what went out, for those who look */
    _Atomic uint64_t n_sounded;            /* and START */
    _Atomic bool mute;
    _Atomic int holder;                    /* who works on the audio thread's part: see hold() */
    _Atomic uint64_t due_hops, late_hops; /* late_hops is written last and read first, so it is never the greater */
    _Atomic unsigned delay;
    _Atomic float in_rms, out_rms, in_noise, out_noise;
    _Atomic bool waits;
    _Atomic(struct lane *) sounding;
    _Atomic bool swapping;
};

enum { NOBODY, AUDIO, OWNER };

static unsigned gcd(unsigned a, unsigned b) {
    while (b) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool is_done(const struct lane *l, uint64_t s) {
    return atomic_load_explicit(done_slot(l, s), memory_order_acquire) == s;
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

/* May the audio thread wait for all the hops that a block of n samples can release, the other pumps' running too? */
static bool may_wait(const struct pump *p, unsigned n) {
    if (!worker_realtime(p->feed.worker) || p->end < p->wait_again)
        return false;
    double us = 0;
    for (unsigned rank = 0; rank < N_RANKS; rank++) {
        const struct lane *const l = atomic_load_explicit(&p->feed.active[rank], memory_order_relaxed);
        if (l) {
            const unsigned n_hops = (l->unit->hop - l->g + n) / l->unit->hop;
            const unsigned n_lanes = atomic_load_explicit(&l->unit->n_lanes[rank], memory_order_relaxed);
            us += unit_cost_us(l->unit, n_hops, n_lanes ? n_lanes : 1); /* 0: the worker has not seen this one yet */
        }
    }
    return us < (p->wait_again ? WAIT_SHARE_AGAIN : WAIT_SHARE) * n * 1e6 / PUMP_RATE;
}

static void begin_swap(struct pump *p, struct lane *next) {
    lane_begin(p, next);
    p->next = next;
    atomic_store(&p->feed.active[FED], next);
}

/* One lane alone. */
static void sound(struct pump *p, struct lane *l) {
    p->cur = l;
    p->next = NULL;
    atomic_store(&p->feed.active[SOUNDS], l);
    atomic_store(&p->feed.active[FED], NULL);
    atomic_store(&p->sounding, l);
}

/* The engine that was handed in, while nothing sounds: at once. */
static void adopt(struct pump *p) {
    struct seat *const seat = atomic_load(&p->feed.retiring) ? NULL : atomic_exchange(&p->feed.incoming, NULL);
    if (seat) {
        struct seat *const old = p->cur->seat;
        sound(p, &seat->lanes[0]);
        atomic_store(&p->feed.retiring, old);
    }
}

/* Takes in, sounds and retires lanes. Called between blocks. */
static void step_lanes(struct pump *p) {
    if (!p->next && !atomic_load(&p->feed.retiring) && atomic_load_explicit(&p->feed.incoming, memory_order_relaxed)) {
        struct seat *const seat = atomic_exchange(&p->feed.incoming, NULL);
        if (seat)
            begin_swap(p, &seat->lanes[0]);
    }
    if (!p->next)
        return;

    bool read = false; /* is the old lane still? */
    for (unsigned i = 0; i < p->n_heads; i++)
        read |= p->heads[i].lane == p->cur;
    if (top(p)->lane == p->cur) {
        if (atomic_load(&p->next->unit->lost) && p->next->unit != p->cur->unit) { /* the new one failed: keep the old */
            struct seat *const failed = p->next->seat;
            sound(p, p->cur);
            atomic_store(&p->feed.retiring, failed);
            return;
        }
        const uint64_t fed = p->end - p->next->grid;
        const uint64_t at = top(p)->at;
        const bool steady = at >= p->next->grid + p->next->unit->delay; /* all frames of what is read are full */
        const bool caught_up = fed >= FEED && steady && is_done(p->next, hop_of(p->next, at - 1));
        if ((caught_up || (steady && fed >= FEED_MAX)) && push_head(p, p->next, at)) {
            atomic_store(&p->feed.active[SOUNDS], p->next); /* what will sound comes first */
            atomic_store(&p->feed.active[FED], p->cur);
        }
    } else if (!read) {
        struct seat *const old = p->cur->seat;
        sound(p, p->next);
        if (old != p->cur->seat)
            atomic_store(&p->feed.retiring, old);
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
                struct lane *const lanes = p->cur->seat->lanes;
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
 * in: with its first sample that is not 0, for a stream's first blocks may be empty. */
static void take(struct pump *p, const float *in, unsigned n) {
    const bool mute = atomic_load_explicit(&p->mute, memory_order_relaxed);
    const float step = 1.0f / FADE;
    float power = 0;
    for (unsigned i = 0; i < n; i++) {
        p->held = !in || (p->held && p->gain > 0);
        if (!p->held)
            p->last = isfinite(in[i]) ? in[i] : 0;
        const bool sounds = p->gain > 0 || p->last != 0;
        p->gain = p->held || mute ? fmaxf(p->gain - step, 0) : sounds ? fminf(p->gain + step, 1) : 0;
        const float x = p->last * p->gain;
        p->feed.dry[(p->end + i) % RING] = x;
        power += square(x);
    }
    p->end += n;
    level(&p->in_power, &p->in_rms, power, n);
    floor_of(p, &p->in_floor, &p->in_noise, p->in_power, n);
    atomic_store_explicit(&p->feed.written, p->end, memory_order_release);
}

static void read_dry(const struct pump *p, uint64_t x, float *out, unsigned n) {
    if (x >= p->born && x + n <= p->end) {
        ring_get(p->feed.dry, x, out, n);
    } else {
        for (unsigned i = 0; i < n; i++, x++)
            out[i] = x >= p->born && x < p->end ? p->feed.dry[x % RING] : 0;
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
                h->tail = s > l->grid && is_done(l, s - u->hop) ? tail_slot(l, s - u->hop) : NULL;
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

/* Counts the hops whose first sample is due in the n that are read next, and of these those that are not there; where they
 * are there again they fade in. */
static void judge(struct pump *p, unsigned n) {
    const struct head *const h = top(p);
    const struct lane *const l = h->lane;
    const struct unit *const u = l->unit;
    if (atomic_load(&u->lost))
        return;
    const uint64_t from = h->at, to = from + n;
    bool all = true;
    uint64_t n_due = 0, n_late = 0;
    for (uint64_t s = from + u->delay < l->grid ? l->grid : hop_of(l, from); s < to + u->delay; s += u->hop) {
        const bool due = s - u->delay >= from;
        n_due += due;
        if (!is_done(l, s)) {
            all = false;
            n_late += due;
        }
    }
    atomic_fetch_add_explicit(&p->due_hops, n_due, memory_order_relaxed);
    if (n_late)
        atomic_fetch_add_explicit(&p->late_hops, n_late, memory_order_release);
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
        atomic_store(&p->feed.notify, true);
    }
    atomic_store_explicit(&p->sounding, top(p)->lane, memory_order_relaxed);
}

static void wait_until(struct pump *p, uint64_t deadline_ns, unsigned n) {
    atomic_store(&p->feed.waiting, true);
    for (;;) {
        const uint32_t progress = atomic_load(&p->feed.progress);
        const uint64_t now = now_ns();
        if (served(p, n) || now >= deadline_ns)
            break;
        futex_wait(&p->feed.progress, progress, deadline_ns - now);
    }
    atomic_store(&p->feed.waiting, false);
}

static void block(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    const uint64_t now = now_ns(), deadline_ns = now + n_in * (1000000000u / PUMP_RATE / 2);
    if (n_in) {
        if (!p->fresh)
            step_lanes(p);
        step_delay(p, n_in);
        if (n_in != n_out && n_in <= n_out + SLACK && n_out <= n_in + SLACK)
            p->slack = SLACK;
        atomic_store_explicit(&p->feed.quantum, n_in, memory_order_relaxed);
        show(p);
    }
    /* Only a worker that has nothing left of earlier blocks can serve this one in time. */
    const bool wait = n_in && p->wait && served(p, 0);
    const uint64_t before = p->end;
    if (n_in) {
        take(p, in, n_in);
        if (is_due(p->cur, before, p->end) || is_due(p->next, before, p->end) || atomic_load(&p->feed.notify) ||
            atomic_load_explicit(&p->feed.retiring, memory_order_relaxed))
            worker_post(p->feed.worker, &p->feed, p->wait ? deadline_ns : now + n_in * (1000000000ull / PUMP_RATE));
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
    atomic_store_explicit(&p->feed.last_block_ns, now_ns(), memory_order_relaxed);
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
        struct seat *old = p->cur->seat;
        if (atomic_load(&p->next->unit->lost))
            old = p->next->seat;
        sound(p, old == p->cur->seat ? p->next : p->cur);
        atomic_store(&p->feed.retiring, old);
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

static void pump_free(struct pump *p) {
    if (p->feed.event >= 0)
        close(p->feed.event);
    free(p->feed.dry);
    free(p->sounded);
    free(p);
}

int pump_open(struct pump **ret, struct worker *w) {
    struct pump *const p = touched(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->feed.controls.strength = 1;
    p->end = START;
    atomic_init(&p->feed.written, START);
    atomic_init(&p->n_sounded, START);
    p->feed.dry = touched(RING, sizeof *p->feed.dry);
    p->sounded = touched(RING, sizeof *p->sounded);
    p->feed.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = p->feed.event < 0 ? -errno : !p->feed.dry || !p->sounded ? -ENOMEM : 0;
    if (r == 0)
        r = worker_add(w, &p->feed);
    if (r < 0) {
        pump_free(p);
        return r;
    }
    p->cur = &p->feed.seats->lanes[0];
    atomic_init(&p->delay, p->cur->unit->delay);
    restart(p);
    *ret = p;
    return 0;
}

void pump_close(struct pump *p) {
    if (!p)
        return;
    worker_remove(p->feed.worker, &p->feed);
    pump_free(p);
}

void pump_control(struct pump *p, struct engine_controls controls) {
    p->feed.controls = controls;
    for (struct seat *seat = p->feed.seats; seat; seat = seat->link) {
        for (unsigned i = 0; i < PUMP_STREAMS; i++)
            engine_control(seat->unit->engine, seat->lanes[i].stream, controls);
    }
}

int pump_fd(const struct pump *p) {
    return p->feed.event;
}

void pump_dispatch(struct pump *p) {
    eventfd_t count;
    eventfd_read(p->feed.event, &count);
    worker_tidy(p->feed.worker, &p->feed);
    /* While the audio thread stands its part is done here. */
    if (!p->rests && now_ns() - atomic_load(&p->feed.last_block_ns) < PAUSED_NS)
        return;
    if (!atomic_load(&p->feed.incoming) && !atomic_load(&p->swapping))
        return;
    if (hold(p, OWNER)) {
        restart(p);
        atomic_store(&p->swapping, false);
        atomic_store(&p->holder, NOBODY);
        worker_post(p->feed.worker, &p->feed, now_ns());
    } else {
        eventfd_write(p->feed.event, 1); /* its last block: again in a moment */
    }
}

void pump_rest(struct pump *p, bool rests) {
    p->rests = rests;
    pump_dispatch(p);
}

void pump_mute(struct pump *p, bool mute) {
    atomic_store(&p->mute, mute);
}

void pump_stats(const struct pump *p, struct pump_stats *ret) {
    const struct unit *const u = atomic_load(&p->sounding)->unit;
    const uint64_t late_hops = atomic_load_explicit(&p->late_hops, memory_order_acquire);
    *ret = (struct pump_stats){
        .hops = atomic_load(&p->feed.hops),
        .due_hops = atomic_load(&p->due_hops),
        .late_hops = late_hops,
        .skipped_hops = atomic_load(&p->feed.skipped_hops),
        .hop_p50_us = atomic_load(&u->hops.p50_us),
        .hop_p99_us = atomic_load(&u->hops.p99_us),
        .hop_max_us = atomic_load(&u->hops.max_us),
        .delay = atomic_load(&p->delay),
        .quantum = atomic_load(&p->feed.quantum),
        .in_rms = atomic_load(&p->in_rms),
        .out_rms = atomic_load(&p->out_rms),
        .in_noise = atomic_load(&p->in_noise),
        .out_noise = atomic_load(&p->out_noise),
        .realtime = worker_ask_realtime(p->feed.worker),
        .refusal = worker_refusal(p->feed.worker),
        .locked = worker_locked(p->feed.worker),
        .waits = atomic_load(&p->waits),
        .swapping = atomic_load(&p->feed.incoming) || atomic_load(&p->swapping),
        .engine_lost = atomic_load(&u->lost),
    };
}

/* Both rings are much longer than what is read, so that it is not overwritten meanwhile. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n) {
    const uint64_t end = atomic_load_explicit(&p->feed.written, memory_order_acquire);
    ring_get(p->feed.dry, end - atomic_load(&p->delay) - n, in, n);
    ring_get(p->sounded, atomic_load_explicit(&p->n_sounded, memory_order_acquire) - n, out, n);
}

bool pump_alive(struct pump *p) {
    bool alive = true;
    for (unsigned i = 0; i < N_RANKS; i++) {
        const struct lane *const l = atomic_load(&p->feed.active[i]);
        if (!l || atomic_load(&l->unit->lost))
            continue;
        /* Where the worker has not begun the lane, or not begun it anew, next is of before. */
        const uint64_t base = atomic_load(&l->base), next = atomic_load(&l->next);
        alive &= (next > base ? next : base) + l->unit->hop > p->seen_written;
    }
    p->seen_written = atomic_load(&p->feed.written);
    return alive;
}
