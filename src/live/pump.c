#include "config.h"

#include "live/pump.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/gcd.h"
#include "engine/level.h"
#include "live/delay.h"
#include "live/meter.h"
#include "live/reader.h"
#include "live/reduction.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STABLE PUMP_RATE             /* samples a quantum must last before the delay shrinks */
#define FED_MIN (PUMP_RATE * 3 / 10) /* samples a stream is fed before it may sound */
#define FED_MAX (2 * PUMP_RATE)      /* samples after which it sounds even if it has not caught up */
#define FULL_SCALE 0.999f            /* a converter's highest value is 32767 / 32768 */
#define CLIP_HOLD (2 * PUMP_RATE)    /* samples; see pump_stats.clips */

enum state { FRESH, STEADY, FEEDING, FADING }; /* see pump.h */

struct pump {
    struct feed feed; /* shared with the worker */

    /* owner only */
    uint64_t seen_written; /* by pump_alive */
    bool rests;

    /* audio thread only */
    enum state state;
    struct engine_stream *cur, *next; /* next: FEEDING and FADING, else NULL */
    struct readers readers;           /* none in FRESH */
    struct blocks blocks;
    struct wait wait;
    unsigned block_max; /* samples: the longest block that the delay must cover */
    unsigned target;    /* the delay that the newest reader should have ... */
    bool aim;           /* ... exactly; otherwise within blocks.slack */
    struct input input;
    float gain, last;   /* the input's fade, and its last sample */
    bool held;          /* the microphone is gone: its last sample is held and faded out */
    float heard[CHUNK]; /* scratch */
    struct level level;
    struct level_channel channel; /* of `level` */

    /* shared by the threads */
    float sounded[RING];        /* the output, for pump_listen */
    _Atomic uint64_t n_sounded; /* RING_START plus the number of output samples */
    _Atomic uint64_t clipped;   /* the position of the last input sample at full scale; 0: none */
    _Atomic bool mute;
    _Atomic int holder;                   /* who holds the audio thread's part: see hold() */
    _Atomic uint64_t due_hops, late_hops; /* late_hops is written last and read first, so it never exceeds due_hops */
    _Atomic unsigned delay;               /* = target */
    _Atomic bool waits, swapping;
    _Atomic(struct engine_stream *) sounding;
    struct meter in_meter, out_meter;
    struct reduction reduction;
    _Atomic bool other_controls; /* than `reduction` was measured with */
};

enum { NOBODY, AUDIO, OWNER };

/* ---- the audio thread: engine streams ---------------------------------------------------------------------------- */

/* Restarts the stream at the end of the input so far, where a block begins. */
static void stream_begin(struct pump *p, struct engine_stream *stream) {
    stream->grid = p->input.end;
    stream->block_gcd = stream->slot->hop;
    atomic_store_explicit(&stream->base, p->input.end, memory_order_release);
}

/* To FEEDING: starts a stream beside the audible one. */
static void feed_beside(struct pump *p, struct engine_stream *next) {
    stream_begin(p, next);
    p->state = FEEDING;
    p->next = next;
    atomic_store(&p->feed.active[FED], next);
}

/* To FADING: fades in the fed stream over the audible one, and gives its hops priority. */
static void fade_over(struct pump *p) {
    if (!readers_add(&p->readers, p->next, newest(&p->readers)->at))
        return;
    p->state = FADING;
    atomic_store(&p->feed.active[AUDIBLE], p->next);
    atomic_store(&p->feed.active[FED], p->cur);
}

/* To STEADY: keeps one stream. Returns a pair that is no longer used to the owner, through the worker. */
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

/* Takes the incoming pair. Returns NULL if there is none, or an earlier pair is still on its way back. */
static struct stream_pair *take_incoming(struct pump *p) {
    if (atomic_load(&p->feed.retiring) || !atomic_load_explicit(&p->feed.incoming, memory_order_relaxed))
        return NULL;
    return atomic_exchange(&p->feed.incoming, NULL);
}

static bool is_swap(const struct pump *p) {
    return p->next && p->next->slot != p->cur->slot;
}

/* Whether the fed stream may sound from the next position on: its frames are full there, it was fed long enough, and it
 * keeps up or has had its maximum time. */
static bool is_ready(struct pump *p) {
    const struct engine_stream *const next = p->next;
    const uint64_t fed = p->input.end - next->grid, at = newest(&p->readers)->at;
    if (at < next->grid + next->slot->delay || fed < FED_MIN)
        return false;
    return fed >= FED_MAX || is_done(next, hop_of(next, at - 1));
}

/* Makes the transitions of pump.h's table that happen between blocks. */
static void step_streams(struct pump *p) {
    struct stream_pair *pair;
    switch (p->state) {
    case FRESH: break;
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
        if (!readers_use(&p->readers, p->cur))
            sound_alone(p, p->next);
        break;
    }
}

/* ---- the audio thread: the delay --------------------------------------------------------------------------------- */

/* Returns the delay needed if the current stream's blocks end at multiples of block_gcd. */
static unsigned delay_for(const struct pump *p, unsigned block_gcd, unsigned block_max, bool waits) {
    const struct engine_slot *const cur = p->cur->slot, *const next = p->next ? p->next->slot : cur;
    const struct delay_stream streams[] = {
        {cur->delay, cur->hop, block_gcd},
        {next->delay, next->hop, p->next ? p->next->block_gcd : block_gcd},
    };
    return delay_needed(streams, 2, p->blocks.slack, block_max, waits);
}

/* Whether the audio thread may wait for all the hops that a block of n samples can release, while the other pumps run,
 * too. */
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
    return wait_fits(&p->wait, worker_realtime(p->feed.worker), us, n, p->input.end);
}

/* From FRESH to STEADY, at the first block, of n samples. */
static void begin_reading(struct pump *p, unsigned n) {
    const bool waits = may_wait(p, n);
    if (waits)
        wait_begin(&p->wait);
    else if (wait_now(&p->wait))
        wait_end(&p->wait, false, p->input.end);
    p->block_max = n;
    p->target = delay_for(p, p->cur->block_gcd, n, waits);
    p->readers.all[0] = (struct reader){.stream = p->cur, .at = p->input.end - p->target, .faded = FADE};
    p->readers.n = 1;
    p->state = STEADY;
}

/* Shrinks the delay to what the blocks need, if the quantum has been stable and only one stream sounds. If hops would
 * then end inside blocks, it instead starts the pair's other stream at the beginning of this block (FEEDING), and the
 * delay shrinks once that stream sounds. Returns the new delay. */
static unsigned shrink(struct pump *p, unsigned n, unsigned delay) {
    if (p->state != STEADY || p->readers.n != 1 || p->input.end - p->blocks.since < STABLE)
        return delay;
    const unsigned block_gcd = gcd(p->cur->slot->hop, p->blocks.gcd);
    const bool waits = wait_now(&p->wait) || may_wait(p, p->blocks.max);
    const unsigned less = delay_for(p, block_gcd, p->blocks.max, waits);
    if (less >= delay)
        return delay;
    if ((p->input.end - p->cur->grid) % block_gcd) {
        struct engine_stream *const streams = p->cur->pair->streams;
        feed_beside(p, &streams[p->cur == &streams[0]]);
        p->next->block_gcd = gcd(p->next->block_gcd, n);
        return delay;
    }
    p->cur->block_gcd = block_gcd;
    p->block_max = p->blocks.max;
    if (waits && !wait_now(&p->wait))
        wait_begin(&p->wait);
    return less;
}

/* Before a block of n samples: updates the delay, and decides whether to wait for the worker. */
static void step_delay(struct pump *p, unsigned n) {
    if (blocks_add(&p->blocks, n, p->input.end))
        wait_renew(&p->wait);
    p->block_max = n > p->block_max ? n : p->block_max;
    p->cur->block_gcd = gcd(p->cur->block_gcd, n);
    if (p->next)
        p->next->block_gcd = gcd(p->next->block_gcd, n);
    if (p->state == FRESH) {
        begin_reading(p, n);
        return;
    }
    if (wait_now(&p->wait) && !may_wait(p, n))
        wait_end(&p->wait, p->input.end > p->blocks.since && p->state == STEADY, p->input.end); /* a swap never bars */
    unsigned delay = delay_for(p, p->cur->block_gcd, p->block_max, wait_now(&p->wait));
    delay = shrink(p, n, delay > p->target ? delay : p->target);
    p->aim |= p->target != delay;
    p->target = delay;
}

/* Moves the reader to the target, before n_out samples are read after the input so far. */
static void step_reader(struct pump *p, unsigned n_out) {
    const uint64_t at = p->input.end - n_out - p->target;
    const int64_t off = (int64_t)(newest(&p->readers)->at - at);
    const int64_t slack = p->aim ? 0 : (int64_t)p->blocks.slack;
    if ((off >= -slack && off <= slack) || readers_add(&p->readers, newest(&p->readers)->stream, at))
        p->aim = false;
}

/* ---- the audio thread: samples ----------------------------------------------------------------------------------- */

static float square(float x) {
    return x * x;
}

/* Writes the block to the dry ring. When the microphone stops, its last sample is faded out. When it starts, it is
 * faded in from its first nonzero sample, because the first blocks of a stream may be empty. */
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
        p->feed.dry[(p->input.end + i) % RING] = x;
        power += square(x);
        peak = fmaxf(peak, fabsf(x));
    }
    p->input.end += n;
    if (peak >= FULL_SCALE)
        atomic_store_explicit(&p->clipped, p->input.end, memory_order_relaxed);
    meter_add(&p->in_meter, power, n);
    atomic_store_explicit(&p->feed.written, p->input.end, memory_order_release);
}

/* Handles the n <= CHUNK rendered samples in `heard`. Ignores the first second for the reduction, in which the network
 * does not know the noise yet. */
static void compare(struct pump *p, unsigned n) {
    if (atomic_exchange_explicit(&p->other_controls, false, memory_order_relaxed))
        reduction_restart(&p->reduction);
    if (p->input.end - p->input.born < PUMP_RATE)
        return;
    input_get(&p->input, newest(&p->readers)->at - n, p->readers.other, n);
    reduction_add(&p->reduction, p->readers.other, p->heard, n);
}

/* Renders the block's n output samples. */
static void render(struct pump *p, float *out, unsigned n) {
    float power = 0;
    for (unsigned done = 0; done < n;) {
        const unsigned len = n - done < CHUNK ? n - done : CHUNK;
        readers_mix(&p->readers, &p->input, p->heard, len);
        compare(p, len);
        level_process(&p->level, &p->channel, 1, len, readers_speech(&p->readers, (len + 1) / 2));
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

static void count_late(struct pump *p, unsigned n) {
    uint64_t n_due, n_late;
    readers_count(&p->readers, n, &n_due, &n_late);
    atomic_fetch_add_explicit(&p->due_hops, n_due, memory_order_relaxed);
    if (n_late)
        atomic_fetch_add_explicit(&p->late_hops, n_late, memory_order_release);
}

static void wait_until(struct pump *p, uint64_t deadline_ns, unsigned n) {
    atomic_store(&p->feed.waiting, true);
    for (;;) {
        const uint32_t progress = atomic_load(&p->feed.progress);
        const uint64_t now = now_ns();
        if (readers_served(&p->readers, p->input.end, n) || now >= deadline_ns)
            break;
        futex_wait(&p->feed.progress, progress, deadline_ns - now);
    }
    atomic_store(&p->feed.waiting, false);
}

/* Whether the input between two positions completed a hop. */
static bool completes_hop(const struct engine_stream *stream, uint64_t before, uint64_t end) {
    const unsigned hop = stream->slot->hop;
    return (end - stream->grid) / hop != (before - stream->grid) / hop;
}

/* Wakes the worker if hops are complete, or if it has something to pass on to the owner. */
static void hand_over(struct pump *p, uint64_t before, uint64_t due_ns) {
    if (completes_hop(p->cur, before, p->input.end) || (p->next && completes_hop(p->next, before, p->input.end)) ||
        atomic_load(&p->feed.notify) || atomic_load_explicit(&p->feed.retiring, memory_order_relaxed))
        worker_post(p->feed.worker, &p->feed, due_ns);
}

/* ---- the audio thread: blocks ------------------------------------------------------------------------------------ */

/* Publishes the state for other threads. */
static void show(struct pump *p) {
    const bool swapping = is_swap(p), waits = wait_now(&p->wait);
    bool news = atomic_exchange_explicit(&p->delay, p->target, memory_order_relaxed) != p->target;
    news |= atomic_exchange_explicit(&p->waits, waits, memory_order_relaxed) != waits;
    news |= atomic_exchange_explicit(&p->swapping, swapping, memory_order_relaxed) != swapping;
    if (news)
        atomic_store(&p->feed.notify, true);
    atomic_store_explicit(&p->sounding, newest(&p->readers)->stream, memory_order_relaxed);
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
        /* Only a worker without a backlog of earlier blocks can serve this one in time. */
        wait = wait_now(&p->wait) && readers_served(&p->readers, p->input.end, 0);
        const uint64_t before = p->input.end;
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

/* Takes hold of the audio thread's part: the audio thread does during a block, the owner while the audio thread does
 * not run. Returns false if the other holds it. */
static bool hold(struct pump *p, int who) {
    int nobody = NOBODY;
    return atomic_compare_exchange_strong(&p->holder, &nobody, who);
}

static void let_go(struct pump *p) {
    atomic_store(&p->holder, NOBODY);
}

void pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    if (!hold(p, AUDIO)) { /* after a pause, while the owner exchanges the engine */
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

/* To FRESH. Nothing sounds, so this completes a swap, with the new engine unless it is lost, and takes an incoming
 * engine at once. */
static void restart(struct pump *p) {
    sound_alone(p, is_swap(p) && !atomic_load(&p->next->slot->lost) ? p->next : p->cur);
    struct stream_pair *const pair = take_incoming(p);
    if (pair) {
        p->next = &pair->streams[0];
        sound_alone(p, p->next);
    }
    p->state = FRESH;
    p->readers.n = 0;
    p->blocks.quantum = 0;
    p->input.born = p->input.end;
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
    p->input = (struct input){.dry = p->feed.dry, .end = RING_START};
    atomic_init(&p->feed.written, RING_START);
    atomic_init(&p->n_sounded, RING_START);
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

/* Does the audio thread's part of an engine exchange while that thread does not run. */
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

/* Both rings are much longer than n, so the samples are not overwritten while they are read. */
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
        /* Ignores a stream that the worker has not (re)started yet: its `next` is an old one. */
        const uint64_t base = atomic_load(&stream->base), next = atomic_load(&stream->next);
        alive &= (next > base ? next : base) + stream->slot->hop > p->seen_written;
    }
    p->seen_written = atomic_load(&p->feed.written);
    return alive;
}
