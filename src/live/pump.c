/* More than 700 lines, because the states of pump.h and the readers' cross-fades share what only the audio thread
 * touches, and none of it is for others to see. */
#include "config.h"

#include "live/pump.h"

#include "base/clock.h"
#include "engine/level.h"
#include "live/delay.h"
#include "live/feed.h"
#include "base/futex.h"
#include "live/reduction.h"
#include "live/slots.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CHUNK 256u                    /* samples rendered at a time */
#define FADE (PUMP_RATE / 100)        /* samples of every cross-fade, and of the input's fade in and out */
#define STABLE PUMP_RATE              /* samples a quantum must last before the delay shrinks */
#define FED_MIN (PUMP_RATE * 3 / 10)  /* samples a stream is fed before it may sound */
#define FED_MAX (2 * PUMP_RATE)       /* samples after which it sounds even if it never caught up beside the old one */
#define FULL_SCALE 0.999f             /* converters end at 32767 / 32768 */
#define CLIP_HOLD (2 * PUMP_RATE)     /* samples, as pump_stats has it */
#define METER (PUMP_RATE * 3 / 10)    /* samples, the meters' time constant */
#define START (1u << 20)              /* the first position, so that no hop's output lies before 0 */
#define N_READERS 4

enum state { FRESH, STEADY, FEEDING, FADING }; /* see pump.h */

/* Reads an engine stream's output from a position on. After a late hop it gives the engine's tail, then dry. */
struct reader {
    struct engine_stream *stream;
    uint64_t at;       /* the next position to be read */
    unsigned faded;    /* samples of its fade in over the readers before it; FADE: it sounds alone */
    bool lost;         /* a hop was late */
    const float *tail; /* [delay] from tail_start on, or NULL */
    uint64_t tail_start;
};

/* A signal's mean power. */
struct meter {
    double power;
    _Atomic float rms; /* for pump_stats */
};

struct pump {
    struct feed feed; /* what the worker sees */

    /* the owner's */
    uint64_t seen_written; /* by pump_alive */
    bool rests;

    /* the audio thread's */
    enum state state;
    struct engine_stream *cur, *next; /* next: FEEDING and FADING, else NULL */
    struct reader readers[N_READERS]; /* the last one sounds, or fades in over those before it; none in FRESH */
    unsigned n_readers;
    struct blocks blocks;
    struct wait wait;
    unsigned block_max;       /* the longest block that the delay must cover, samples */
    unsigned target;          /* the delay that the last reader shall have ... */
    bool aim;                 /* ... exactly; else give or take blocks.slack */
    uint64_t end;             /* the position at which the input ends so far */
    uint64_t born;            /* the input before this position counts as silence */
    float gain, last;         /* the input's fade, and its last sample */
    bool held;                /* the microphone went: its last sample stands until it has faded */
    float heard[CHUNK], other[CHUNK]; /* scratch */
    struct level level;
    struct level_channel channel; /* of `level` */

    /* between the threads */
    float sounded[RING];        /* what went out, for pump_listen */
    _Atomic uint64_t n_sounded; /* START more than the samples that went out */
    _Atomic uint64_t clipped; /* where a sample came in at full scale last; 0: none did */
    _Atomic bool mute;
    _Atomic int holder;                   /* who works on the audio thread's part: see hold() */
    _Atomic uint64_t due_hops, late_hops; /* late_hops is written last and read first, so it is never the greater */
    _Atomic unsigned delay;               /* = target */
    _Atomic bool waits, swapping;
    _Atomic(struct engine_stream *) sounding;
    struct meter in_meter, out_meter;
    struct reduction reduction;
    _Atomic bool other_controls; /* than `reduction` was measured with */
};

enum { NOBODY, AUDIO, OWNER };

static bool is_done(const struct engine_stream *stream, uint64_t start) {
    return atomic_load_explicit(done_mark(stream, start), memory_order_acquire) == start;
}

/* The hop whose output holds a position. */
static uint64_t hop_of(const struct engine_stream *stream, uint64_t x) {
    const uint64_t at = x + stream->slot->delay;
    return at - (at - stream->grid) % stream->slot->hop;
}

static struct reader *newest(struct pump *p) {
    return &p->readers[p->n_readers - 1];
}

/* Fades another reader in over the present ones. False where too many fades are under way: try again. */
static bool add_reader(struct pump *p, struct engine_stream *stream, uint64_t at) {
    if (p->n_readers == N_READERS)
        return false;
    p->readers[p->n_readers++] = (struct reader){.stream = stream, .at = at};
    return true;
}

/* ---- the audio thread: engine streams ---------------------------------------------------------------------------- */

/* The stream begins anew at the end of the input so far, which is a block's beginning. */
static void stream_begin(struct pump *p, struct engine_stream *stream) {
    stream->grid = p->end;
    stream->block_gcd = stream->slot->hop;
    atomic_store_explicit(&stream->base, p->end, memory_order_release);
}

/* To FEEDING: a stream begins beside the one that sounds. */
static void feed_beside(struct pump *p, struct engine_stream *next) {
    stream_begin(p, next);
    p->state = FEEDING;
    p->next = next;
    atomic_store(&p->feed.active[FED], next);
}

/* To FADING: the stream that was fed fades in over the one that sounds, and its hops come first. */
static void fade_over(struct pump *p) {
    if (!add_reader(p, p->next, newest(p)->at))
        return;
    p->state = FADING;
    atomic_store(&p->feed.active[AUDIBLE], p->next);
    atomic_store(&p->feed.active[FED], p->cur);
}

/* To STEADY: one stream alone. A pair that is then no longer used goes back to the owner, through the worker. */
static void sound_alone(struct pump *p, struct engine_stream *stream) {
    struct stream_pair *const cur = p->cur->pair, *const next = p->next ? p->next->pair : cur;
    p->state = STEADY;
    p->cur = stream;
    p->next = NULL;
    atomic_store(&p->feed.active[AUDIBLE], stream);
    atomic_store(&p->feed.active[FED], NULL);
    atomic_store(&p->sounding, stream);
    if (stream->pair != cur)
        atomic_store(&p->feed.retiring, cur);
    else if (stream->pair != next)
        atomic_store(&p->feed.retiring, next);
}

/* The pair that was handed in; NULL where there is none, or one before it is still on its way back. */
static struct stream_pair *take_incoming(struct pump *p) {
    if (atomic_load(&p->feed.retiring) || !atomic_load_explicit(&p->feed.incoming, memory_order_relaxed))
        return NULL;
    return atomic_exchange(&p->feed.incoming, NULL);
}

static bool is_swap(const struct pump *p) {
    return p->next && p->next->slot != p->cur->slot;
}

/* Whether the stream that is fed may sound from the position that is read next: its frames are full there, it was fed
 * long enough, and it keeps up, or will never. */
static bool is_ready(struct pump *p) {
    const struct engine_stream *const next = p->next;
    const uint64_t fed = p->end - next->grid, at = newest(p)->at;
    if (at < next->grid + next->slot->delay || fed < FED_MIN)
        return false;
    return fed >= FED_MAX || is_done(next, hop_of(next, at - 1));
}

static bool is_read(const struct pump *p, const struct engine_stream *stream) {
    for (unsigned i = 0; i < p->n_readers; i++) {
        if (p->readers[i].stream == stream)
            return true;
    }
    return false;
}

/* The transitions of pump.h's table that come between blocks. */
static void step_streams(struct pump *p) {
    struct stream_pair *pair;
    switch (p->state) {
    case FRESH:
        break;
    case STEADY:
        pair = take_incoming(p);
        if (!pair)
            break;
        feed_beside(p, &pair->streams[0]);
        /* fall through */
    case FEEDING:
        if (is_swap(p) && atomic_load(&p->next->slot->lost))
            sound_alone(p, p->cur);
        else if (is_ready(p))
            fade_over(p);
        break;
    case FADING:
        if (!is_read(p, p->cur))
            sound_alone(p, p->next);
        break;
    }
}

/* ---- the audio thread: the delay --------------------------------------------------------------------------------- */

/* The delay that is needed where the present stream's block ends lie block_gcd apart. */
static unsigned delay_for(const struct pump *p, unsigned block_gcd, unsigned block_max, bool waits) {
    const struct engine_slot *const cur = p->cur->slot, *const next = p->next ? p->next->slot : cur;
    const struct delay_stream streams[] = {
        {cur->delay, cur->hop, block_gcd},
        {next->delay, next->hop, p->next ? p->next->block_gcd : block_gcd},
    };
    return delay_needed(streams, 2, p->blocks.slack, block_max, waits);
}

/* May the audio thread wait for all the hops that a block of n samples can release, the other pumps' running too? */
static bool may_wait(const struct pump *p, unsigned n) {
    double us = 0;
    for (unsigned role = 0; role < N_ROLES; role++) {
        const struct engine_stream *const s = atomic_load_explicit(&p->feed.active[role], memory_order_relaxed);
        if (s) {
            const unsigned n_hops = (s->slot->hop - s->block_gcd + n) / s->slot->hop;
            const unsigned n_streams = atomic_load_explicit(&s->slot->n_streams[role], memory_order_relaxed);
            us += slot_cost_us(s->slot, n_hops, n_streams ? n_streams : 1); /* 0: the worker has not seen it yet */
        }
    }
    return wait_fits(&p->wait, worker_realtime(p->feed.worker), us, n, p->end);
}

/* From FRESH to STEADY, where a stream's first block of n samples comes. */
static void begin_reading(struct pump *p, unsigned n) {
    const bool waits = may_wait(p, n);
    if (waits)
        wait_begin(&p->wait);
    else if (wait_now(&p->wait))
        wait_end(&p->wait, false, p->end);
    p->block_max = n;
    p->target = delay_for(p, p->cur->block_gcd, n, waits);
    p->readers[0] = (struct reader){.stream = p->cur, .at = p->end - p->target, .faded = FADE};
    p->n_readers = 1;
    p->state = STEADY;
}

/* Where the quantum has been stable and one stream sounds alone, the delay may shrink to what these blocks need. If
 * hops would then end inside blocks, the pair's other stream begins at this block's beginning instead (FEEDING), and
 * the delay shrinks once that sounds. Returns the delay from now on. */
static unsigned shrink(struct pump *p, unsigned n, unsigned delay) {
    if (p->state != STEADY || p->n_readers != 1 || p->end - p->blocks.since < STABLE)
        return delay;
    const unsigned block_gcd = delay_gcd(p->cur->slot->hop, p->blocks.gcd);
    const bool waits = wait_now(&p->wait) || may_wait(p, p->blocks.max);
    const unsigned less = delay_for(p, block_gcd, p->blocks.max, waits);
    if (less >= delay)
        return delay;
    if ((p->end - p->cur->grid) % block_gcd) {
        struct engine_stream *const streams = p->cur->pair->streams;
        feed_beside(p, &streams[p->cur == &streams[0]]);
        p->next->block_gcd = delay_gcd(p->next->block_gcd, n);
        return delay;
    }
    p->cur->block_gcd = block_gcd;
    p->block_max = p->blocks.max;
    if (waits && !wait_now(&p->wait))
        wait_begin(&p->wait);
    return less;
}

/* Sees a block of n samples coming: what the delay must be from now on, and whether to wait. */
static void step_delay(struct pump *p, unsigned n) {
    if (blocks_add(&p->blocks, n, p->end))
        wait_renew(&p->wait);
    p->block_max = n > p->block_max ? n : p->block_max;
    p->cur->block_gcd = delay_gcd(p->cur->block_gcd, n);
    if (p->next)
        p->next->block_gcd = delay_gcd(p->next->block_gcd, n);
    if (p->state == FRESH) {
        begin_reading(p, n);
        return;
    }
    if (wait_now(&p->wait) && !may_wait(p, n))
        wait_end(&p->wait, p->end > p->blocks.since && p->state == STEADY, p->end); /* a swap's hops bar nothing */
    unsigned delay = delay_for(p, p->cur->block_gcd, p->block_max, wait_now(&p->wait));
    delay = shrink(p, n, delay > p->target ? delay : p->target);
    p->aim |= p->target != delay;
    p->target = delay;
}

/* Brings the signal to where the target is, when n_out samples are to be read after the input so far. */
static void step_reader(struct pump *p, unsigned n_out) {
    const uint64_t at = p->end - n_out - p->target;
    const int64_t off = (int64_t)(newest(p)->at - at);
    const int64_t slack = p->aim ? 0 : (int64_t)p->blocks.slack;
    if ((off >= -slack && off <= slack) || add_reader(p, newest(p)->stream, at))
        p->aim = false;
}

/* ---- the audio thread: samples ----------------------------------------------------------------------------------- */

static float square(float x) {
    return x * x;
}

/* Follows the mean power of blocks of n samples, whose squares sum to `power`. */
static void meter_add(struct meter *m, float power, unsigned n) {
    if (isfinite(power))
        m->power += (power / n - m->power) * n / (n + METER);
    atomic_store_explicit(&m->rms, sqrtf((float)m->power), memory_order_relaxed);
}

/* Takes the block into the dry ring. Where the microphone ends, its last sample fades out. Where it begins, it fades in
 * from its first sample that is not 0, since a stream's first blocks may be empty. */
static void take(struct pump *p, const float *in, unsigned n) {
    const bool mute = atomic_load_explicit(&p->mute, memory_order_relaxed);
    const float step = 1.0f / FADE;
    float power = 0, peak = 0;
    for (unsigned i = 0; i < n; i++) {
        p->held = !in || (p->held && p->gain > 0);
        if (!p->held)
            p->last = isfinite(in[i]) ? in[i] : 0;
        const bool sounds = p->gain > 0 || p->last != 0;
        p->gain = p->held || mute ? fmaxf(p->gain - step, 0) : sounds ? fminf(p->gain + step, 1) : 0;
        const float x = p->last * p->gain;
        p->feed.dry[(p->end + i) % RING] = x;
        power += square(x);
        peak = fmaxf(peak, fabsf(x));
    }
    p->end += n;
    if (peak >= FULL_SCALE)
        atomic_store_explicit(&p->clipped, p->end, memory_order_relaxed);
    meter_add(&p->in_meter, power, n);
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

/* The next n samples of a reader. */
static void read_on(const struct pump *p, struct reader *r, float *out, unsigned n) {
    const struct engine_stream *const stream = r->stream;
    const unsigned hop = stream->slot->hop, delay = stream->slot->delay;
    uint64_t x = r->at;
    r->at += n;
    while (n) {
        unsigned len = n;
        if (!r->lost && x + delay < stream->grid) { /* before the stream's first hop */
            const uint64_t before = stream->grid - delay - x;
            len = before < n ? (unsigned)before : n;
            read_dry(p, x, out, len);
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
            read_dry(p, x, out, len);
            for (unsigned i = 0; i < len; i++)
                out[i] = r->tail[at + i] + (1 - stream->slot->fade[at + i]) * out[i];
        } else {
            read_dry(p, x, out, len);
        }
        x += len;
        out += len;
        n -= len;
    }
}

/* The next n <= CHUNK samples of all readers, each faded in over those before it. Those that no longer sound end. */
static void mix_readers(struct pump *p, unsigned n) {
    unsigned alone = 0;
    read_on(p, &p->readers[0], p->heard, n);
    for (unsigned r = 1; r < p->n_readers; r++) {
        struct reader *const reader = &p->readers[r];
        read_on(p, reader, p->other, n);
        for (unsigned i = 0; i < n; i++) {
            const unsigned faded = reader->faded + i + 1 < FADE ? reader->faded + i + 1 : FADE;
            p->heard[i] += (p->other[i] - p->heard[i]) * ((float)faded / FADE);
        }
        reader->faded = reader->faded + n < FADE ? reader->faded + n : FADE;
        if (reader->faded == FADE)
            alone = r;
    }
    p->n_readers -= alone;
    memmove(p->readers, p->readers + alone, p->n_readers * sizeof *p->readers);
}

/* The n <= CHUNK samples in `heard` have been rendered. In the first second the network does not know the noise yet. */
static void compare(struct pump *p, unsigned n) {
    if (atomic_exchange_explicit(&p->other_controls, false, memory_order_relaxed))
        reduction_restart(&p->reduction);
    if (p->end - p->born < PUMP_RATE)
        return;
    read_dry(p, newest(p)->at - n, p->other, n);
    reduction_add(&p->reduction, p->other, p->heard, n);
}

/* Whether what goes out n samples before the next is speech, as voice.h has it; NAN where that is dry. */
static float speech_at(struct pump *p, unsigned n) {
    const struct reader *const r = newest(p);
    const struct engine_stream *const stream = r->stream;
    const uint64_t at = r->at - n;
    if (r->lost || at + stream->slot->delay < stream->grid)
        return NAN;
    return is_done(stream, hop_of(stream, at)) ? *speech_of(stream, hop_of(stream, at)) : NAN;
}

/* The block's output: n samples. */
static void render(struct pump *p, float *out, unsigned n) {
    float power = 0;
    for (unsigned done = 0; done < n;) {
        const unsigned len = n - done < CHUNK ? n - done : CHUNK;
        mix_readers(p, len);
        compare(p, len);
        level_process(&p->level, &p->channel, 1, len, speech_at(p, (len + 1) / 2));
        for (unsigned i = 0; i < len; i++)
            power += square(p->heard[i]);
        memcpy(out + done, p->heard, len * sizeof *out);
        done += len;
    }
    const uint64_t n_sounded = atomic_load_explicit(&p->n_sounded, memory_order_relaxed);
    ring_put(p->sounded, n_sounded, out, n);
    atomic_store_explicit(&p->n_sounded, n_sounded + n, memory_order_release);
    meter_add(&p->out_meter, power, n);
}

/* ---- the audio thread: hops -------------------------------------------------------------------------------------- */

/* Counts the hops whose first sample is due in the n that are read next, and those among them that are late. Where hops
 * are there again after a late one, they fade in. */
static void count_late(struct pump *p, unsigned n) {
    const struct reader *const r = newest(p);
    const struct engine_stream *const stream = r->stream;
    const struct engine_slot *const slot = stream->slot;
    if (atomic_load(&slot->lost))
        return;
    const uint64_t from = r->at, to = from + n;
    bool all = true;
    uint64_t n_due = 0, n_late = 0;
    uint64_t start = from + slot->delay < stream->grid ? stream->grid : hop_of(stream, from);
    for (; start < to + slot->delay; start += slot->hop) {
        const bool due = start - slot->delay >= from;
        n_due += due;
        if (!is_done(stream, start)) {
            all = false;
            n_late += due;
        }
    }
    atomic_fetch_add_explicit(&p->due_hops, n_due, memory_order_relaxed);
    if (n_late)
        atomic_fetch_add_explicit(&p->late_hops, n_late, memory_order_release);
    if (r->lost && all)
        add_reader(p, r->stream, r->at);
}

/* Has the worker dealt with all that the next n samples need? What cannot be there yet, where a reader reads too early
 * for a delay that has just grown, is not waited for. */
static bool is_served(const struct pump *p, unsigned n) {
    for (unsigned i = 0; i < p->n_readers; i++) {
        const struct reader *const r = &p->readers[i];
        const struct engine_stream *const stream = r->stream;
        const struct engine_slot *const slot = stream->slot;
        const uint64_t to = r->at + n;
        if ((r->lost && i + 1 < p->n_readers) || atomic_load(&slot->lost) || to + slot->delay <= stream->grid)
            continue;
        const uint64_t released = p->end - (p->end - stream->grid) % slot->hop;
        const uint64_t needed = hop_of(stream, to - 1) + slot->hop;
        if (atomic_load_explicit(&stream->next, memory_order_acquire) < (needed < released ? needed : released))
            return false;
    }
    return true;
}

static void wait_until(struct pump *p, uint64_t deadline_ns, unsigned n) {
    atomic_store(&p->feed.waiting, true);
    for (;;) {
        const uint32_t progress = atomic_load(&p->feed.progress);
        const uint64_t now = now_ns();
        if (is_served(p, n) || now >= deadline_ns)
            break;
        futex_wait(&p->feed.progress, progress, deadline_ns - now);
    }
    atomic_store(&p->feed.waiting, false);
}

/* Did the input between two positions complete a hop? */
static bool completes_hop(const struct engine_stream *stream, uint64_t before, uint64_t end) {
    const unsigned hop = stream->slot->hop;
    return (end - stream->grid) / hop != (before - stream->grid) / hop;
}

/* Wakes the worker where hops are complete, or where it has something to pass on to the owner. */
static void hand_over(struct pump *p, uint64_t before, uint64_t due_ns) {
    if (completes_hop(p->cur, before, p->end) || (p->next && completes_hop(p->next, before, p->end)) ||
        atomic_load(&p->feed.notify) || atomic_load_explicit(&p->feed.retiring, memory_order_relaxed))
        worker_post(p->feed.worker, &p->feed, due_ns);
}

/* ---- the audio thread: blocks ------------------------------------------------------------------------------------ */

/* Tells others what has changed. */
static void show(struct pump *p) {
    const bool swapping = is_swap(p), waits = wait_now(&p->wait);
    bool news = atomic_exchange_explicit(&p->delay, p->target, memory_order_relaxed) != p->target;
    news |= atomic_exchange_explicit(&p->waits, waits, memory_order_relaxed) != waits;
    news |= atomic_exchange_explicit(&p->swapping, swapping, memory_order_relaxed) != swapping;
    if (news)
        atomic_store(&p->feed.notify, true);
    atomic_store_explicit(&p->sounding, newest(p)->stream, memory_order_relaxed);
}

static void block(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    const uint64_t now = now_ns(), deadline_ns = now + n_in * (1000000000u / PUMP_RATE / 2);
    bool wait = false;
    if (n_in) {
        step_streams(p);
        step_delay(p, n_in);
        if (n_in != n_out && n_in <= n_out + DELAY_SLACK && n_out <= n_in + DELAY_SLACK)
            p->blocks.slack = DELAY_SLACK;
        atomic_store_explicit(&p->feed.quantum, n_in, memory_order_relaxed);
        show(p);
        /* Only a worker that has nothing left of earlier blocks can serve this one in time. */
        wait = wait_now(&p->wait) && is_served(p, 0);
        const uint64_t before = p->end;
        take(p, in, n_in);
        hand_over(p, before, wait_now(&p->wait) ? deadline_ns : now + n_in * (1000000000ull / PUMP_RATE));
    }
    if (n_out && p->state != FRESH) {
        step_reader(p, n_out);
        if (wait)
            wait_until(p, deadline_ns, n_out);
        count_late(p, n_out);
        render(p, out, n_out);
    } else if (n_out) {
        memset(out, 0, n_out * sizeof *out);
    }
}

/* The audio thread's part is its own while blocks come. While it stands the owner works on it. False: it is taken. */
static bool hold(struct pump *p, int who) {
    int nobody = NOBODY;
    return atomic_compare_exchange_strong(&p->holder, &nobody, who);
}

static void let_go(struct pump *p) {
    atomic_store(&p->holder, NOBODY);
}

void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    if (!hold(p, AUDIO)) { /* after a pause, and the owner is just exchanging the engine */
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
    let_go(p);
}

/* To FRESH. Nothing sounds, so a swap ends here, with the new engine unless that is lost, and an engine that was handed
 * in is taken at once. */
static void restart(struct pump *p) {
    sound_alone(p, is_swap(p) && !atomic_load(&p->next->slot->lost) ? p->next : p->cur);
    struct stream_pair *const pair = take_incoming(p);
    if (pair) {
        p->next = &pair->streams[0];
        sound_alone(p, p->next);
    }
    p->state = FRESH;
    p->n_readers = 0;
    p->blocks.quantum = 0;
    p->born = p->end;
    p->gain = p->last = 0;
    p->held = false;
    p->in_meter.power = p->out_meter.power = 0;
    reduction_restart(&p->reduction);
    stream_begin(p, p->cur);
}

void pump_restart(struct pump *p) {
    if (hold(p, AUDIO)) { /* else the owner is restarting it */
        restart(p);
        let_go(p);
    }
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

static void pump_free(struct pump *p) {
    if (p->feed.event >= 0)
        close(p->feed.event);
    touched_free(p);
}

int pump_open(struct pump **ret, struct worker *w) {
    struct pump *const p = touched(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->feed.controls.strength = 1;
    level_init(&p->level, PUMP_RATE);
    p->channel.x = p->heard;
    p->end = START;
    atomic_init(&p->feed.written, START);
    atomic_init(&p->n_sounded, START);
    p->feed.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int r = p->feed.event < 0 ? -errno : worker_add(w, &p->feed);
    if (r < 0) {
        pump_free(p);
        return r;
    }
    p->cur = &p->feed.pairs->streams[0];
    atomic_init(&p->delay, p->cur->slot->delay);
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

static bool same_controls(const struct engine_controls *a, const struct engine_controls *b) {
    return a->strength == b->strength && a->floor == b->floor && a->low_cut_hz == b->low_cut_hz;
}

void pump_control(struct pump *p, struct engine_controls controls) {
    if (!same_controls(&controls, &p->feed.controls))
        atomic_store(&p->other_controls, true);
    p->feed.controls = controls;
    for (struct stream_pair *pair = p->feed.pairs; pair; pair = pair->following) {
        for (unsigned i = 0; i < PUMP_STREAMS; i++)
            engine_control(pair->slot->engine, pair->streams[i].number, controls);
    }
}

int pump_fd(const struct pump *p) {
    return p->feed.event;
}

void pump_level(struct pump *p, float target) {
    level_control(&p->level, target);
}

/* While the audio thread stands, its part of an exchange of engines is done here. */
void pump_dispatch(struct pump *p) {
    eventfd_t count;
    eventfd_read(p->feed.event, &count);
    worker_tidy(p->feed.worker, &p->feed);
    if (!p->rests && now_ns() - atomic_load(&p->feed.last_block_ns) < PAUSED_NS)
        return;
    if (!atomic_load(&p->feed.incoming) && !atomic_load(&p->swapping))
        return;
    if (hold(p, OWNER)) {
        restart(p);
        atomic_store(&p->swapping, false);
        let_go(p);
        worker_post(p->feed.worker, &p->feed, now_ns());
    } else {
        eventfd_write(p->feed.event, 1); /* the audio thread's last block: again in a moment */
    }
}

void pump_rest(struct pump *p, bool rests) {
    p->rests = rests;
    pump_dispatch(p);
}

void pump_mute(struct pump *p, bool mute) {
    atomic_store(&p->mute, mute);
}

static bool clips(const struct pump *p) {
    const uint64_t clipped = atomic_load_explicit(&p->clipped, memory_order_relaxed);
    return clipped && atomic_load_explicit(&p->feed.written, memory_order_relaxed) < clipped + CLIP_HOLD;
}

void pump_stats(const struct pump *p, struct pump_stats *ret) {
    const struct engine_stream *const stream = atomic_load(&p->sounding);
    const struct engine_slot *const slot = stream->slot;
    const uint64_t late_hops = atomic_load_explicit(&p->late_hops, memory_order_acquire);
    *ret = (struct pump_stats){
        .hops = atomic_load(&p->feed.hops),
        .due_hops = atomic_load(&p->due_hops),
        .late_hops = late_hops,
        .skipped_hops = atomic_load(&p->feed.skipped_hops),
        .hop = slot->hop,
#define ROW(name, percent) .hop_##name##_us = atomic_load(&slot->hops.name##_us),
        TIMES_STATISTICS(ROW)
#undef ROW
        .delay = atomic_load(&p->delay),
        .quantum = atomic_load(&p->feed.quantum),
        .in_rms = atomic_load(&p->in_meter.rms),
        .out_rms = atomic_load(&p->out_meter.rms),
        .clips = clips(p),
        .speech = atomic_load_explicit(&stream->speech, memory_order_relaxed),
        .speaks = atomic_load_explicit(&stream->speaks, memory_order_relaxed),
        .realtime = worker_ask_realtime(p->feed.worker),
        .refusal = worker_refusal(p->feed.worker),
        .locked = worker_locked(p->feed.worker),
        .waits = atomic_load(&p->waits),
        .swapping = atomic_load(&p->feed.incoming) || atomic_load(&p->swapping),
        .engine_lost = atomic_load(&slot->lost),
    };
}

/* Both rings are much longer than what is read, so that it is not overwritten meanwhile. */
void pump_listen(const struct pump *p, float *in, float *out, unsigned n) {
    const uint64_t end = atomic_load_explicit(&p->feed.written, memory_order_acquire);
    ring_get(p->feed.dry, end - atomic_load(&p->delay) - n, in, n);
    ring_get(p->sounded, atomic_load_explicit(&p->n_sounded, memory_order_acquire) - n, out, n);
}

bool pump_reduction(const struct pump *p, float *db, float *noise) {
    return reduction_read(&p->reduction, db, noise);
}

bool pump_alive(struct pump *p) {
    bool alive = true;
    for (unsigned role = 0; role < N_ROLES; role++) {
        const struct engine_stream *const stream = atomic_load(&p->feed.active[role]);
        if (!stream || atomic_load(&stream->slot->lost))
            continue;
        /* A stream that the worker has not begun yet, or not begun anew, still has next as it was before. */
        const uint64_t base = atomic_load(&stream->base), next = atomic_load(&stream->next);
        alive &= (next > base ? next : base) + stream->slot->hop > p->seen_written;
    }
    p->seen_written = atomic_load(&p->feed.written);
    return alive;
}
