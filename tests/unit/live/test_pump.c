/* The pump and its worker with the test's own engine and a clock that only the test advances, so that every run is the
 * same. Includes the sources of both, so that a test can wait until the worker is idle. */
#include "config.h"

#include "base/futex.h"

static bool wait_told(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
static int pause_told(const struct timespec *t, struct timespec *left);
#define futex_wait wait_told
#define nanosleep pause_told
#include "live/pump.c"
#include "live/worker.c"
#undef futex_wait
#undef nanosleep

#include "base/memory.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>

#define HOP 256u
#define LONG (12 * PUMP_RATE)

/* ---- clock, engine and worker of the tests ----------------------------------------------------------------------- */

static _Atomic uint64_t clock_ns = 10000000000; /* no block is of yesterday: 0 is long ago */

int clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    const uint64_t ns = atomic_load(&clock_ns);
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

static uint64_t real_ns(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Atomic unsigned n_pauses; /* of the worker, between hops */

static int pause_told(const struct timespec *t, struct timespec *left) {
    atomic_fetch_add(&n_pauses, 1);
    return nanosleep(t, left);
}

/* Outputs the delayed input times gain, or a recursive filter of it that depends on all earlier input. */
struct engine {
    unsigned hop, delay, n_streams;
    float gain, pole;
    _Atomic uint32_t stall;   /* process waits: a futex */
    _Atomic unsigned cost_us; /* by the tests' clock */
    _Atomic bool burn;        /* and in real time */
    _Atomic unsigned fail_at; /* the hop, counted from 1, that fails; 0: none */
    _Atomic unsigned nan_at;  /* ... whose output is not finite */
    _Atomic bool nan;         /* no output is finite */
    _Atomic bool skips;       /* hops without its network */
    _Atomic unsigned n_hops, n_resets, n_pauses;
    _Atomic unsigned n_batches[WORKER_STREAMS + 1]; /* by the number of jobs */
    unsigned order[64];                             /* the streams of the last hops, at the hop's number */
    float past[WORKER_STREAMS][4096], filter[WORKER_STREAMS];
    float fade[4096];
    bool together;
    bool released;
};

#include "tests/support/fake_engine.h"

unsigned engine_streams(const struct engine *e) {
    return e->n_streams;
}

void engine_reset(struct engine *e, unsigned stream) {
    memset(e->past[stream], 0, sizeof e->past[stream]);
    e->filter[stream] = 0;
    atomic_fetch_add(&e->n_resets, 1);
}

void engine_pause(struct engine *e, unsigned stream) {
    memset(e->past[stream], 0, sizeof e->past[stream]);
    atomic_fetch_add(&e->n_pauses, 1);
}

bool engine_ran(const struct engine *e, unsigned stream) {
    (void)stream;
    return !atomic_load(&e->skips);
}

int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    while (atomic_load(&e->stall))
        futex_wait(&e->stall, true, UINT64_MAX);
    atomic_fetch_add(&clock_ns, atomic_load(&e->cost_us) * 1000ull);
    if (atomic_load(&e->burn)) {
        const uint64_t end = real_ns() + atomic_load(&e->cost_us) * 1000ull;
        while (real_ns() < end) {
        }
    }
    const unsigned n = atomic_fetch_add(&e->n_hops, 1) + 1;
    atomic_fetch_add(&e->n_batches[n_jobs], 1);
    e->order[n % 64] = jobs[0].stream;
    if (n == atomic_load(&e->fail_at))
        return -EIO;
    for (unsigned j = 0; j < n_jobs; j++) {
        float *const past = e->past[jobs[j].stream];
        memcpy(past + e->delay, jobs[j].in, e->hop * sizeof *past);
        for (unsigned i = 0; i < e->hop; i++) {
            float *const y = &e->filter[jobs[j].stream];
            *y = e->pole * *y + e->gain * past[i];
            jobs[j].out[i] = n == atomic_load(&e->nan_at) || atomic_load(&e->nan) ? NAN : *y;
        }
        memmove(past, past + e->hop, e->delay * sizeof *past);
    }
    return 0;
}

static _Atomic float strength_seen;

void engine_control(struct engine *e, unsigned stream, struct engine_controls controls) {
    (void)e, (void)stream;
    atomic_store(&strength_seen, controls.strength);
}

static _Atomic bool passes; /* strength 0 */

float engine_strength(const struct engine *e, unsigned stream) {
    (void)e, (void)stream;
    return atomic_load(&passes) ? 0 : 1;
}

static bool together; /* for engines filled from now on */

static void stall(struct engine *e, bool stalls) {
    atomic_store(&e->stall, stalls);
    futex_wake(&e->stall, 1);
}

static void fill(struct engine *e, unsigned hop, unsigned delay, float gain) {
    *e = (struct engine){.hop = hop, .delay = delay, .gain = gain, .n_streams = WORKER_STREAMS, .together = together};
    for (unsigned i = 0; i < delay; i++) { /* what is missing of overlapping squared windows */
        double all = 0, left = 0;
        for (unsigned k = 0; k < delay + hop; k += hop) {
            const double w = 0.5 - 0.5 * cos(2 * M_PI * (i % hop + k) / (delay + hop));
            all += w;
            if (k > i - i % hop)
                left += w;
        }
        e->fade[i] = (float)(left / all);
    }
}

static void release(void *data, struct engine *e) {
    ck_assert(!e->released);
    e->released = true;
    ++*(unsigned *)data;
}

static int start_plain(void *data, pthread_t *ret, void *(*run)(void *), void *arg) {
    (void)data;
    return -pthread_create(ret, NULL, run, arg);
}

static _Atomic bool has_come;

static bool raised_later(void *data, pid_t tid) {
    (void)data, (void)tid;
    return atomic_load(&has_come);
}

static void join_plain(void *data, pthread_t thread) {
    (void)data;
    pthread_join(thread, NULL);
}

/* The clock stops while the audio thread waits, so any worker is as fast as one with real-time priority. */
static const struct rt granted = {
    .start = start_plain, .raise = raise_granted, .raised = raised_true, .join = join_plain};
static const struct rt refused = {
    .start = start_plain, .raise = raise_refused, .raised = raised_false, .join = join_plain};
static const struct rt later = {
    .start = start_plain, .raise = raise_granted, .raised = raised_later, .join = join_plain};

/* ---- a pump under test ------------------------------------------------------------------------------------------- */

static struct engine engines[3];
static struct worker *worker;
static struct pump *pump;
static unsigned n_released;
static float *in, *out; /* [LONG] */
static unsigned at;     /* samples run so far */
static uint32_t seed, first_seed;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * n) >> 32);
}

/* With engines[0] as it is filled. */
static void open_filled(const struct rt *rt, unsigned p99_us) {
    const struct worker_options o = {
        .rt = rt, .engine = &engines[0], .hop_p99_us = p99_us, .release = release, .data = &n_released};
    n_released = 0;
    ck_assert_int_eq(worker_open(&worker, &o), 0);
    ck_assert_int_eq(pump_open(&pump, worker), 0);
    at = 0;
}

static void open_pump(const struct rt *rt, unsigned delay, float gain, unsigned p99_us) {
    fill(&engines[0], HOP, delay, gain);
    open_filled(rt, p99_us);
}

static void setup(void) {
    in = malloc(LONG * sizeof *in);
    out = malloc(LONG * sizeof *out);
    seed = first_seed;
    together = false;
    for (unsigned i = 0; i < LONG; i++)
        in[i] = (float)draw(1u << 24) / (1 << 23) - 1;
}

static void close_pump(void) {
    pump_close(pump);
    worker_close(worker);
    pump = NULL;
    worker = NULL;
}

static void teardown(void) {
    close_pump();
    free(in);
    free(out);
}

static void sine(double frequency) {
    for (unsigned i = 0; i < LONG; i++)
        in[i] = (float)(0.5 * sin(2 * M_PI * frequency * i / PUMP_RATE));
}

/* How often a thread of the pump or the worker went to sleep, or was about to: a futex. */
static _Atomic uint32_t n_sleeps;
static _Atomic bool patient; /* a waiting thread is woken, or waits for ever */

static bool wait_told(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
    atomic_fetch_add(&n_sleeps, 1);
    futex_wake(&n_sleeps, 1);
    return futex_wait(word, value, atomic_load(&patient) ? UINT64_MAX : timeout_ns);
}

/* Waits until the worker has nothing left to do. */
static void settle(void) {
    for (;;) {
        const uint32_t seen = atomic_load(&n_sleeps);
        bool due = !atomic_load(&worker->sleeping);
        for (unsigned i = 0; i < WORKER_PUMPS && !due; i++) {
            struct feed *const f = atomic_load(&worker->feeds[i]);
            due |= f && atomic_load(&f->retiring);
            for (unsigned role = 0; f && role < N_ROLES; role++) {
                const struct engine_stream *const s = atomic_load(&f->active[role]);
                due |= s && !atomic_load(&s->slot->lost) &&
                       (atomic_load(&s->next) + s->slot->hop <= atomic_load(&f->written) ||
                        atomic_load(&s->next) < atomic_load(&s->base)); /* it has to restart */
            }
        }
        if (!due)
            return;
        futex_wait(&n_sleeps, seen, UINT64_MAX);
    }
}

/* One block of real time. The worker is done with it before the next one, unless it is stalled. */
static void run_block(unsigned n, bool settled) {
    ck_assert_uint_le(at + n, LONG);
    rt_guard_enter();
    pump_process(pump, in + at, n, out + at, n);
    rt_guard_leave();
    at += n;
    if (settled)
        settle();
    atomic_fetch_add(&clock_ns, n * 1000000000ull / PUMP_RATE);
    pump_dispatch(pump);
}

static void run(unsigned n_samples, unsigned n_block) {
    for (const unsigned end = at + n_samples; at < end;)
        run_block(n_block, true);
}

static struct pump_stats stats(void) {
    struct pump_stats s;
    pump_stats(pump, &s);
    return s;
}

/* Outside fades, out[i] = gain * in[i - delay], bit for bit. */
static void expect(unsigned from, unsigned to, unsigned delay, float gain) {
    for (unsigned i = from > delay + FADE ? from : delay + FADE; i < to; i++)
        ck_assert_msg(out[i] == gain * in[i - delay], "sample %u: %g, not %g (delay %u)", i, out[i],
                      gain * in[i - delay], delay);
}

/* The delay with an engine whose windows have 1024 samples. */
static unsigned delay_of(unsigned hop, unsigned q, bool waits) {
    return 1024 - gcd(q, hop) + (waits ? 0 : q > hop ? q : hop);
}

static const unsigned quanta[] = {32, 64, 128, 256, 480, 1024, 2048, 8192, 1, 300, 441, 8917};
enum { n_quanta = sizeof quanta / sizeof *quanta };

/* ---- tests ------------------------------------------------------------------------------------------------------- */

START_TEST(delay_is_exact_where_it_waits) {
    const unsigned q = quanta[_i];
    open_pump(&granted, 768, 0.5f, 1);
    run(LONG / 12 + 4 * q, q);
    ck_assert(stats().waits && stats().realtime);
    ck_assert_uint_eq(stats().delay, 768 + HOP - gcd(q, HOP));
    ck_assert_uint_eq(stats().late_hops, 0);
    expect(0, at, stats().delay, 0.5f);
}
END_TEST

START_TEST(delay_is_exact_where_it_does_not_wait) {
    const unsigned q = quanta[_i];
    open_pump(&refused, 768, 0.5f, 1);
    run(LONG / 12 + 4 * q, q);
    ck_assert(!stats().waits && !stats().realtime);
    ck_assert_uint_eq(stats().delay, 768 + HOP - gcd(q, HOP) + (q > HOP ? q : HOP));
    ck_assert_uint_eq(stats().late_hops, 0);
    expect(0, at, stats().delay, 0.5f);
}
END_TEST

START_TEST(the_needed_delay) {
    static const struct {
        struct delay_stream streams[2];
        unsigned slack, block_max;
        bool waits;
        unsigned delay;
    } cases[] = {
        /* one engine; hops end with blocks, or up to hop - block_gcd samples after them */
        {{{768, 256, 256}}, 0, 256, true, 768},
        {{{768, 256, 256}}, 0, 1024, true, 768},
        {{{768, 256, 64}}, 0, 64, true, 768 + 192},
        {{{768, 256, 32}}, 0, 480, true, 768 + 224},
        {{{768, 256, 1}}, 0, 441, true, 768 + 255},
        /* without waiting hops come a block later, or a hop where that is longer */
        {{{768, 256, 256}}, 0, 256, false, 768 + 256},
        {{{768, 256, 256}}, 0, 1024, false, 768 + 1024},
        {{{768, 256, 64}}, 0, 64, false, 768 + 192 + 256},
        {{{768, 256, 32}}, 0, 480, false, 768 + 224 + 480},
        /* a resampler's blocks */
        {{{768, 256, 1}}, DELAY_SLACK, 279, true, 768 + 255 + 2},
        {{{768, 256, 1}}, DELAY_SLACK, 279, false, 768 + 255 + 2 + 279},
        /* two engines: the longer delay, the longer hop */
        {{{768, 256, 256}, {1536, 256, 256}}, 0, 256, true, 1536},
        {{{768, 256, 256}, {256, 480, 32}}, 0, 256, true, 768},
        {{{768, 256, 256}, {256, 480, 32}}, 0, 256, false, 768 + 480},
        {{{768, 256, 256}, {640, 480, 32}}, 0, 1024, false, 640 + 448 + 1024},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned n = cases[i].streams[1].hop ? 2 : 1;
        ck_assert_msg(delay_needed(cases[i].streams, n, cases[i].slack, cases[i].block_max, cases[i].waits) ==
                          cases[i].delay,
                      "case %u", i);
    }
}
END_TEST

START_TEST(blocks_of_one_quantum) {
    static const struct {
        unsigned n;
        bool changed;
        struct blocks after;
    } cases[] = {
        {256, true, {256, 256, 256, 0, 0}},    {256, false, {256, 256, 256, 0, 0}},
        {64, true, {64, 64, 64, 0, 512}},      {279, true, {279, 279, 279, 0, 576}},
        {278, false, {279, 1, 279, 0, 576}},   {281, false, {279, 1, 281, 0, 576}},
        {282, true, {282, 282, 282, 0, 1414}}, {1024, true, {1024, 1024, 1024, 0, 1696}},
    };
    struct blocks b = {0};
    uint64_t end = 0;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct blocks *const after = &cases[i].after;
        ck_assert_msg(blocks_add(&b, cases[i].n, end) == cases[i].changed, "case %u", i);
        ck_assert_msg(b.quantum == after->quantum && b.gcd == after->gcd && b.max == after->max &&
                          b.slack == after->slack && b.since == after->since,
                      "case %u: quantum %u, gcd %u, max %u, since %u", i, b.quantum, b.gcd, b.max, (unsigned)b.since);
        end += cases[i].n;
    }
}
END_TEST

/* The table of delay.h. Blocks of 256 samples are 5333 us: 0.4 of that are 2133, 0.3 are 1600. */
START_TEST(states_of_waiting) {
    enum { BEGIN, END, BAR, RENEW };
    static const struct {
        enum waiting from;
        unsigned event;
        enum waiting to;
    } steps[] = {
        {AHEAD, BEGIN, WAITS},        {AHEAD, RENEW, AHEAD},      {WAITS, BEGIN, WAITS},
        {WAITS, END, AHEAD},          {WAITS, BAR, BARRED},       {WAITS, RENEW, WAITS},
        {BARRED, BEGIN, WAITS_AGAIN}, {BARRED, RENEW, AHEAD},     {WAITS_AGAIN, BEGIN, WAITS_AGAIN},
        {WAITS_AGAIN, BAR, BARRED},   {WAITS_AGAIN, END, BARRED}, {WAITS_AGAIN, RENEW, WAITS},
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct wait w = {.state = steps[i].from, .until = 5, .barred = 2 * PUMP_RATE};
        switch (steps[i].event) {
        case BEGIN: wait_begin(&w); break;
        case END: wait_end(&w, false, 1000); break;
        case BAR: wait_end(&w, true, 1000); break;
        default: wait_renew(&w); break;
        }
        ck_assert_msg(w.state == steps[i].to, "step %u", i);
        const unsigned seconds = steps[i].from == WAITS_AGAIN ? 4 : 2;
        ck_assert_uint_eq(w.until, steps[i].event == BAR     ? 1000 + seconds * PUMP_RATE
                                   : steps[i].event == RENEW ? 0
                                                             : 5);
    }
    static const struct {
        enum waiting state;
        bool realtime;
        unsigned us;
        uint64_t end;
        bool fits;
    } cases[] = {
        {AHEAD, true, 2130, 0, true},   {AHEAD, true, 2140, 0, false},        {AHEAD, false, 1, 0, false},
        {WAITS, true, 2130, 0, true},   {WAITS, true, 2140, 0, false},        {WAITS, false, 1, 0, false},
        {BARRED, true, 1, 99, false},   {BARRED, true, 1590, 100, true},      {BARRED, true, 1610, 100, false},
        {BARRED, false, 1, 100, false}, {WAITS_AGAIN, true, 1590, 100, true}, {WAITS_AGAIN, true, 1610, 100, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wait w = {.state = cases[i].state, .until = 100};
        ck_assert_msg(wait_fits(&w, cases[i].realtime, cases[i].us, 256, cases[i].end) == cases[i].fits, "case %u", i);
    }
    struct wait again = {.state = WAITS};
    uint64_t end = 1000;
    for (unsigned i = 0; i < 7; i++) { /* busy again and again */
        wait_end(&again, true, end);
        ck_assert_uint_eq(again.until - end, (i < 5 ? 2u << i : 32) * PUMP_RATE);
        end = again.until;
        wait_begin(&again);
        end += 30 * PUMP_RATE - 1;
    }
    wait_end(&again, true, end + 1);
    ck_assert_uint_eq(again.until - end - 1, 2 * PUMP_RATE);
}
END_TEST

START_TEST(waits_only_if_the_hops_fit) {
    open_pump(&granted, 768, 1, 2100); /* 0.394 of 256 samples */
    run(2048, 256);
    ck_assert(stats().waits);
    teardown();
    setup();
    open_pump(&granted, 768, 1, 2200); /* 0.412 */
    run(2048, 256);
    ck_assert(!stats().waits);
    ck_assert_uint_eq(stats().delay, 768 + 256);
}
END_TEST

/* rtkit may grant real-time priority later, and withdraws it from a thread that abuses it. */
START_TEST(waits_while_it_has_priority) {
    open_pump(&later, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(!stats().realtime && !stats().waits && stats().refusal == 0);
    atomic_store(&has_come, true);
    run(2 * PUMP_RATE, 256);
    ck_assert(stats().realtime && stats().waits);
    ck_assert_uint_eq(stats().delay, 768);
    atomic_store(&has_come, false);
    run(2048, 256);
    ck_assert(!stats().realtime && !stats().waits);
    ck_assert_uint_eq(stats().delay, 1024);
    close_pump();
    open_pump(&refused, 768, 0.5f, 1);
    ck_assert_int_eq(stats().refusal, -EPERM);
}
END_TEST

START_TEST(a_late_hop_outputs_dry_without_a_click) {
    sine(200);
    open_pump(&refused, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned delay = stats().delay, begin = at;
    stall(&engines[0], true);
    run_block(256, false);
    run_block(256, false);
    run_block(256, false);
    stall(&engines[0], false);
    settle();
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(stats().late_hops, 2); /* the third was computed before its time */
    ck_assert_uint_eq(stats().due_hops, (at - delay + 768) / HOP);
    ck_assert_uint_eq(stats().skipped_hops, 0);
    ck_assert_uint_eq(stats().delay, delay);
    expect(PUMP_RATE / 2, begin, delay, 0.5f);
    expect(begin + 4096, at, delay, 0.5f);
    /* The steepest step of the input, and a little for the fades. */
    const float step = 0.5f * 2 * (float)M_PI * 200 / PUMP_RATE;
    float loudest = 0;
    for (unsigned i = begin; i < begin + 4096; i++) {
        ck_assert_msg(fabsf(out[i] - out[i - 1]) < 1.1f * step, "click at %u: %g", i - begin, out[i] - out[i - 1]);
        loudest = fmaxf(loudest, fabsf(out[i]));
    }
    ck_assert_float_gt(loudest, 0.3f); /* dry sounded */
}
END_TEST

/* A run's whole output, by position, must be the same for any blocks. */
START_TEST(any_split_gives_the_same_samples) {
    float *const whole = malloc(LONG * sizeof *whole);
    open_pump(&granted, 768, 0.1f, 1);
    engines[0].pole = 0.9f;
    run(3 * PUMP_RATE, 256);
    const unsigned delay = stats().delay;
    memcpy(whole, out + delay, (at - delay) * sizeof *whole);
    const unsigned n = at - 8192 - delay;
    for (unsigned draws = 0; draws < 4; draws++) {
        close_pump();
        open_pump(draws % 2 ? &refused : &granted, 768, 0.1f, 1);
        engines[0].pole = 0.9f;
        const uint32_t used = seed = first_seed + (unsigned)_i * 4 + draws;
        const unsigned largest = 1u << (2 + draw(12));
        unsigned first_quiet = 0; /* since the last change of delay and its fade */
        while (at < n) {
            const unsigned before = stats().delay;
            run_block(1 + draw(largest), true);
            if (stats().delay != before || pump->readers.n > 1)
                first_quiet = at;
        }
        ck_assert_uint_eq(stats().late_hops, 0);
        const unsigned d = stats().delay;
        ck_assert_uint_lt(first_quiet, n);
        for (unsigned i = first_quiet > d ? first_quiet : d; i < at; i++)
            ck_assert_msg(out[i] == whole[i - d], "seed %u, blocks up to %u: sample %u is %g, not %g", used, largest, i,
                          out[i], whole[i - d]);
    }
    free(whole);
}
END_TEST

START_TEST(the_delay_follows_the_quantum) {
    seed = first_seed + (unsigned)_i;
    open_pump(_i % 2 ? &refused : &granted, 768, 0.5f, 1);
    sine(100);
    for (unsigned turn = 0; turn < 4; turn++) {
        const unsigned q = quanta[draw(n_quanta)];
        const unsigned before = at ? stats().delay : 0, begin = at;
        run_block(q, true);
        const unsigned needed = 768 + HOP - gcd(q, HOP) + (_i % 2 ? q > HOP ? q : HOP : 0);
        ck_assert_msg(stats().delay >= needed && stats().delay >= before, "seed %d: grows at once", _i + 1);
        run(PUMP_RATE * 3 / 2 + 4 * q, q); /* a second, a realignment, fades */
        run(PUMP_RATE / 2, q);
        ck_assert_msg(stats().delay == needed, "seed %d, quantum %u: delay %u, not %u", _i + 1, q, stats().delay,
                      needed);
        expect(at - PUMP_RATE / 4, at, needed, 0.5f);
        /* 100 Hz: cross-fades between delays stay smooth. */
        for (unsigned i = begin ? begin : 1; i < at; i++)
            ck_assert_msg(fabsf(out[i] - out[i - 1]) < 0.01f, "seed %d, quantum %u: click at %u of %u: %g", _i + 1, q,
                          i - begin, at - begin, out[i] - out[i - 1]);
    }
    ck_assert_uint_eq(stats().late_hops, 0);
}
END_TEST

START_TEST(blocks_of_a_resampler) {
    open_pump(_i ? &refused : &granted, 768, 0.5f, 1);
    /* 256 samples at 44.1 kHz are 278.64 here, in and out rounded at different times, never more than one off. */
    unsigned n_in = 0, n_out = 0, first_quiet = 0;
    for (unsigned i = 1; n_in + 300 < 4 * PUMP_RATE; i++) {
        const unsigned a = (unsigned)(i * 278.6395) - n_in, b = (unsigned)(i * 278.6395 + 0.7) - n_out;
        pump_process(pump, in + n_in, a, out + n_out, b);
        n_in += a;
        n_out += b;
        atomic_fetch_add(&clock_ns, a * 1000000000ull / PUMP_RATE);
        settle();
        if (pump->readers.n > 1)
            first_quiet = n_out;
    }
    const unsigned delay = stats().delay;
    ck_assert_uint_eq(delay, 768 + HOP - 1 + DELAY_SLACK + (_i ? 279 : 0));
    ck_assert_uint_lt(first_quiet, 3 * PUMP_RATE / 2);
    int off = (int)DELAY_SLACK + 1; /* constant, to the sample, and within the slack of what is told */
    for (int o = -(int)DELAY_SLACK; o <= (int)DELAY_SLACK; o++) {
        bool same = true;
        for (unsigned i = first_quiet + delay; i < n_out && same; i++)
            same = out[i] == 0.5f * in[(int)i - (int)delay + o];
        if (same)
            off = o;
    }
    ck_assert_int_le(off, (int)DELAY_SLACK);
    ck_assert_uint_eq(stats().late_hops, 0);
}
END_TEST

START_TEST(cycles_missed_by_one_side_add_no_delay) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    pump_process(pump, in + at, 256, NULL, 0); /* nobody took that */
    at += 256;
    settle();
    run(PUMP_RATE / 2, 256);
    expect(at - PUMP_RATE / 4, at, 768, 0.5f);
    pump_process(pump, in + at, 256, out + at, 128); /* the quantum grew, what was asked for is of the old one */
    at += 256;
    settle();
    run(PUMP_RATE / 2, 256);
    expect(at - PUMP_RATE / 4, at, 768, 0.5f);
    pump_process(pump, NULL, 0, out + at, 256); /* nothing came */
    run(PUMP_RATE / 2, 256);
    expect(at - PUMP_RATE / 4, at, 768, 0.5f);
    ck_assert_uint_eq(stats().delay, 768);
}
END_TEST

/* The audio thread waits for at most half a block. The clock, which otherwise stops, advances while it waits. */
static void *move_clock(void *arg) {
    (void)arg;
    while (!atomic_load(&pump->feed.waiting))
        sched_yield();
    atomic_fetch_add(&clock_ns, 10000000);
    return NULL;
}

START_TEST(waiting_ends_at_the_deadline) {
    sine(200);
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(stats().waits);
    const unsigned begin = at;
    stall(&engines[0], true);
    pthread_t mover;
    ck_assert_int_eq(pthread_create(&mover, NULL, move_clock, NULL), 0);
    run_block(256, false); /* would never return without a deadline */
    pthread_join(mover, NULL);
    ck_assert_uint_eq(stats().late_hops, 1);
    run_block(256, false); /* the worker still is at it: no wait at all */
    stall(&engines[0], false);
    settle();
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(stats().delay, 768);
    ck_assert_uint_le(stats().late_hops, 3);
    expect(begin + 4096, at, 768, 0.5f);
    for (unsigned i = begin; i < begin + 4096; i++)
        ck_assert_float_lt(fabsf(out[i] - out[i - 1]), 0.015f);
}
END_TEST

static void *go_on(void *arg) {
    (void)arg;
    while (!atomic_load(&pump->feed.waiting))
        sched_yield();
    stall(&engines[0], false);
    return NULL;
}

START_TEST(waiting_ends_if_the_engine_is_lost) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(stats().waits);
    atomic_store(&engines[0].fail_at, atomic_load(&engines[0].n_hops) + 1);
    stall(&engines[0], true);
    atomic_store(&patient, true);
    pthread_t goer;
    ck_assert_int_eq(pthread_create(&goer, NULL, go_on, NULL), 0);
    run_block(256, true);
    pthread_join(goer, NULL);
    atomic_store(&patient, false);
    ck_assert(stats().engine_lost);
    run(PUMP_RATE, 256);
    expect(at - PUMP_RATE / 2, at, 768, 1);
}
END_TEST

START_TEST(waiting_ends_if_hops_take_too_long) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(stats().waits);
    atomic_store(&engines[0].cost_us, 2500); /* of 5333 */
    run(PUMP_RATE, 256);
    ck_assert(!stats().waits);
    ck_assert_uint_ge(stats().hop_p99_us, 2500);
    ck_assert_uint_lt(stats().hop_p99_us, 2700);
    ck_assert_uint_eq(stats().delay, 1024);
    atomic_store(&engines[0].cost_us, 100);
    run(PUMP_RATE, 256);
    ck_assert(!stats().waits); /* not to and fro */
    run(3 * PUMP_RATE, 256);
    ck_assert(stats().waits);
    ck_assert_uint_eq(stats().delay, 768);
}
END_TEST

/* One slow hop does not end the waiting, nor do a few at the start. While many are slow, the pauses grow. */
START_TEST(a_busy_moment_ends_waiting_for_seconds) {
    enum { SECONDS = 60 };
    unsigned n_changes = 0, n_waits = 0;
    bool waits = true;
    open_pump(&granted, 768, 0.5f, 1);
    for (unsigned i = 0; i < 12; i++) {
        atomic_store(&engines[0].cost_us, i % 4 == 3 ? 2500 : 100);
        run(256, 256);
        ck_assert(stats().waits);
    }
    atomic_store(&engines[0].cost_us, 100);
    run(11 * PUMP_RATE, 256);
    for (unsigned i = 0; i < 10; i++) { /* one in 256: less than one in a hundred */
        at = 0;                         /* what sounds is not looked at */
        atomic_store(&engines[0].cost_us, 2500);
        run(256, 256);
        atomic_store(&engines[0].cost_us, 100);
        run(255 * 256, 256);
        ck_assert(stats().waits);
    }
    for (unsigned i = 0; i < 2 * SECONDS; i++) { /* busy every other quarter of a second */
        at = 0;
        atomic_store(&engines[0].cost_us, 2500);
        run(PUMP_RATE / 4 / 256 * 256, 256);
        atomic_store(&engines[0].cost_us, 100);
        run(PUMP_RATE / 4 / 256 * 256, 256);
        n_changes += waits != stats().waits;
        n_waits += stats().waits;
        waits = stats().waits;
    }
    printf("busy: %u changes, %u of %u moments waited for\n", n_changes, n_waits, 2 * SECONDS);
    ck_assert_uint_le(n_changes, 2);
    run(2 * PUMP_RATE, 256);
    run(2 * PUMP_RATE, 256);
    ck_assert(stats().waits);
    ck_assert_uint_eq(stats().late_hops, 0);
}
END_TEST

/* Whether the mapping that contains this address is locked. */
static bool is_locked(const void *memory) {
    char line[256];
    uintmax_t begin, end;
    bool here = false, is = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%jx-%jx", &begin, &end) == 2)
            here = begin <= (uintptr_t)memory && (uintptr_t)memory < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            is = strstr(line, " lo") != NULL;
    }
    fclose(f);
    return is;
}

static unsigned n_trims;

int __real_malloc_trim(size_t pad);
int __wrap_malloc_trim(size_t pad);
int __wrap_malloc_trim(size_t pad) {
    const struct stream_pair *const pair = pump->cur->pair;
    const void *const buffers[] = {pump, worker, pair, pair->slot, pair->streams[0].tails, pair->streams[1].done};
    n_trims++;
    for (unsigned i = 0; i < sizeof buffers / sizeof *buffers; i++)
        ck_assert_msg(is_locked(buffers[i]), "buffer %u", i);
    ck_assert(!is_locked((char *)sbrk(0) - 1)); /* or nothing is given back */
    return __real_malloc_trim(pad);
}

START_TEST(trimming_memory_keeps_the_buffers_locked) {
#ifndef SANITIZED /* whose buffers are in the heap */
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE / 10, 256);
    if (memory_lock()) { /* RLIMIT_MEMLOCK may be too low */
        memory_trim();
        ck_assert_uint_eq(n_trims, 1);
        ck_assert(is_locked((char *)sbrk(0) - 1));
    }
#endif
}
END_TEST

/* Hops in which the network does not run say nothing about its cost. */
START_TEST(hops_without_the_network_do_not_count) {
    open_pump(&granted, 768, 0.5f, 1);
    atomic_store(&engines[0].cost_us, 1000);
    run(PUMP_RATE, 256);
    const struct pump_stats before = stats();
    ck_assert_uint_ge(before.hop_p50_us, 1000);
    atomic_store(&engines[0].skips, true);
    atomic_store(&engines[0].cost_us, 1);
    run(6 * PUMP_RATE, 256);
    ck_assert_uint_eq(stats().hop_p50_us, before.hop_p50_us);
    ck_assert_uint_eq(stats().hop_p99_us, before.hop_p99_us);
    ck_assert_uint_gt(stats().hops, before.hops);
}
END_TEST

START_TEST(a_worker_far_behind_skips_hops) {
    open_pump(&refused, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned delay = stats().delay;
    const uint64_t hops = stats().hops;
    stall(&engines[0], true);
    for (unsigned i = 0; i < 188; i++)
        run_block(256, false);
    ck_assert_uint_eq(pump->readers.n, 1); /* nothing fades in while hops stay late */
    ck_assert(pump_alive(pump));           /* the first look */
    ck_assert(!pump_alive(pump));
    stall(&engines[0], false);
    settle();
    ck_assert(pump_alive(pump));
    ck_assert_uint_ge(stats().skipped_hops, 150);
    ck_assert_uint_eq(stats().hops + stats().skipped_hops, hops + 188);
    ck_assert_uint_ge(stats().late_hops, 186);
    ck_assert_uint_le(stats().late_hops, stats().due_hops);
    for (unsigned i = at - 30000; i < at; i++) /* dry meanwhile */
        ck_assert(out[i] == in[i - delay]);
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(stats().delay, delay);
    expect(at - PUMP_RATE / 2, at, delay, 0.5f);
}
END_TEST

/* Nothing is due before the first block, during a pause, or after a stream restarts. */
START_TEST(a_watchdog_detects_only_hops_that_stay_due) {
    open_pump(&refused, 768, 0.5f, 1);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(pump_alive(pump));
    for (unsigned i = 0; i < 3; i++) {
        run(PUMP_RATE, 256);
        ck_assert(pump_alive(pump));
        pump_rest(pump, true);
        for (unsigned k = 0; k < 3; k++)
            ck_assert(pump_alive(pump));
        pump_rest(pump, false);
        pump_restart(pump);
        ck_assert(pump_alive(pump));
        ck_assert(pump_alive(pump));
    }
    stall(&engines[0], true); /* before its first hop after a restart */
    run_block(256, false);
    ck_assert(pump_alive(pump)); /* it may just have become due */
    ck_assert(!pump_alive(pump));
    stall(&engines[0], false);
    settle();
    ck_assert(pump_alive(pump));
}
END_TEST

START_TEST(an_engine_is_swapped) {
    const unsigned delays[] = {768, 256, 1536}; /* of the second one */
    sine(100);
    open_pump(_i % 2 ? &refused : &granted, 768, 0.5f, 1);
    pump_control(pump, (struct engine_controls){.strength = 0.25f});
    run(PUMP_RATE, 256);
    const unsigned before = stats().delay, begin = at;
    fill(&engines[1], _i / 2 == 1 ? 128 : HOP, delays[_i / 2], 0.25f);
    atomic_store(&strength_seen, 0);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    ck_assert_float_eq(atomic_load(&strength_seen), 0.25f);
    ck_assert(stats().swapping);
    unsigned sounding = 0;
    while (!n_released) {
        run_block(256, true);
        ck_assert_uint_lt(at - begin, PUMP_RATE);
        ck_assert(!stats().swapping || stats().delay >= before);
        if (!sounding && newest(&pump->readers)->stream->slot->engine == &engines[1])
            sounding = at;
    }
    ck_assert(engines[0].released);
    ck_assert_uint_ge(sounding - begin, PUMP_RATE * 3 / 10);
    ck_assert(!stats().swapping);
    run(2 * PUMP_RATE, 256);
    ck_assert_uint_eq(stats().delay, before - 768 + delays[_i / 2]);
    expect(at - PUMP_RATE / 2, at, stats().delay, 0.25f);
    ck_assert_uint_eq(stats().late_hops, 0);
    for (unsigned i = begin; i < at; i++)
        ck_assert_msg(fabsf(out[i] - out[i - 1]) < 0.01f, "click at %u", i - begin);
}
END_TEST

/* From hops of 256 to hops of 512, or back. */
static const unsigned some_quanta[] = {64, 256, 480, 512, 1024, 2048};
enum { n_some_quanta = sizeof some_quanta / sizeof *some_quanta };

START_TEST(an_engine_of_another_hop_takes_over) {
    const unsigned q = some_quanta[_i / 4];
    const unsigned hops[] = {_i & 1 ? 256 : 512, _i & 1 ? 512 : 256};
    const bool waits = !(_i & 2);
    sine(100);
    fill(&engines[0], hops[0], 1024 - hops[0], 0.5f);
    fill(&engines[1], hops[1], 1024 - hops[1], 0.5f);
    open_filled(waits ? &granted : &refused, 1);
    run(2 * PUMP_RATE, q);
    const unsigned before = delay_of(hops[0], q, waits), after = delay_of(hops[1], q, waits);
    ck_assert_uint_eq(stats().delay, before);
    ck_assert_uint_eq(stats().hop, hops[0]);
    expect(0, at, before, 0.5f);
    const unsigned begin = at;
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    while (!n_released) {
        run_block(q, true);
        ck_assert_uint_lt(at - begin, PUMP_RATE);
        ck_assert(!stats().swapping || stats().delay >= before);
    }
    ck_assert_uint_eq(stats().hop, hops[1]);
    run(3 * PUMP_RATE, q);
    ck_assert_uint_eq(stats().delay, after);
    ck_assert_uint_eq(stats().late_hops, 0);
    expect(at - PUMP_RATE / 2, at, after, 0.5f);
    for (unsigned i = begin; i < at; i++) /* half of 100 Hz moves by 0.0033 a sample; a fade between delays adds */
        ck_assert_msg(fabsf(out[i] - out[i - 1]) < 0.005f, "click at %u: %g after %g", i - begin, out[i], out[i - 1]);
}
END_TEST

START_TEST(a_queued_engine_is_replaced) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    fill(&engines[2], HOP, 768, 0.125f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    ck_assert_int_eq(worker_engine(worker, &engines[2], 1), 0);
    ck_assert_uint_eq(n_released, 1);
    ck_assert(engines[1].released);
    run(PUMP_RATE, 256);
    ck_assert(engines[0].released);
    expect(at - 4096, at, 768, 0.125f);
}
END_TEST

START_TEST(a_lost_engine_outputs_dry_until_the_next_takes_over) {
    seed = first_seed + (unsigned)_i;
    sine(100);
    open_pump(_i % 2 ? &refused : &granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned begin = at;
    atomic_store(&engines[0].fail_at, begin / HOP + 1 + draw(16));
    run(PUMP_RATE, 256);
    ck_assert(stats().engine_lost);
    ck_assert(pump_alive(pump));
    const unsigned delay = stats().delay;
    expect(begin + 8192, at, delay, 1);
    const unsigned hop = _i & 2 ? 2 * HOP : HOP; /* of what takes over */
    fill(&engines[1], hop, 1024 - hop, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    run(PUMP_RATE, 256);
    ck_assert(engines[0].released);
    ck_assert(!stats().engine_lost);
    expect(at - 4096, at, delay_of(hop, 256, !(_i % 2)), 0.25f);
    for (unsigned i = PUMP_RATE / 2; i < at; i++)
        ck_assert_msg(fabsf(out[i] - out[i - 1]) < 0.015f, "click at %u", i);
}
END_TEST

START_TEST(a_new_engine_that_fails_is_given_back) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    atomic_store(&engines[1].fail_at, 20);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    run(PUMP_RATE, 256);
    ck_assert(engines[1].released && !engines[0].released);
    ck_assert(!stats().swapping && !stats().engine_lost);
    run(PUMP_RATE, 256);
    expect(PUMP_RATE, at, 768, 0.5f);
}
END_TEST

START_TEST(non_finite_output_is_replaced) {
    open_pump(&granted, 768, 0.5f, 1);
    in[50000] = NAN;
    in[50001] = INFINITY;
    in[50002] = -INFINITY;
    run(PUMP_RATE, 256);
    const unsigned resets = engines[0].n_resets;
    run(PUMP_RATE, 256);
    atomic_store(&engines[0].nan_at, engines[0].n_hops + 10);
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(engines[0].n_resets, resets + 1);
    for (unsigned i = 0; i < at; i++)
        ck_assert_msg(isfinite(out[i]), "sample %u", i);
    ck_assert(out[50000 + 768] == 0);
    ck_assert_uint_ge(stats().late_hops, 1);
    expect(at - PUMP_RATE / 2, at, 768, 0.5f);
}
END_TEST

START_TEST(a_pause_discards_earlier_sound) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned resets = engines[0].n_resets, pause = at;
    ck_assert_uint_eq(engines[0].n_pauses, 0);
    pump_restart(pump);
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(engines[0].n_resets, resets);
    ck_assert_uint_eq(engines[0].n_pauses, 1);
    for (unsigned i = pause; i < pause + 768; i++)
        ck_assert(out[i] == 0);
    for (unsigned i = 0; i < FADE; i++)
        ck_assert_float_le(fabsf(out[pause + 768 + i]), 0.5f * (float)(i + 1) / FADE + 1e-6f);
    expect(pause + 768 + FADE, at, 768, 0.5f);
    ck_assert_uint_eq(stats().late_hops, 0);
}
END_TEST

/* The overlap-add buffer from before the pause must not become the tail of the sound after it. */
START_TEST(a_late_first_hop_replays_nothing_from_before_the_pause) {
    open_pump(&refused, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned pause = at;
    pump_restart(pump);
    settle();
    stall(&engines[0], true);
    for (unsigned i = 0; i < 8; i++)
        run_block(256, false);
    stall(&engines[0], false);
    settle();
    ck_assert_uint_ge(stats().late_hops, 1);
    for (unsigned i = pause; i < pause + stats().delay; i++)
        ck_assert_msg(out[i] == 0, "sample %u after the pause: %g", i - pause, out[i]);
}
END_TEST

START_TEST(an_engine_is_swapped_during_a_pause) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    atomic_fetch_add(&clock_ns, 2000000000);
    fill(&engines[1], HOP, 512, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    pump_dispatch(pump); /* takes it, and when the worker knows, */
    settle();
    pump_dispatch(pump); /* gives the other one back */
    ck_assert(engines[0].released);
    ck_assert(!stats().swapping);
    const unsigned pause = at;
    pump_restart(pump);
    run(PUMP_RATE, 256);
    expect(pause + 512 + FADE, at, 512, 0.25f);
}
END_TEST

/* Once nobody listens, a swap that is queued or under way completes immediately. */
START_TEST(an_engine_is_swapped_while_nobody_listens) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 512, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    if (_i)
        run(4096, 256); /* fed, but too young to sound */
    ck_assert(stats().swapping);
    pump_rest(pump, true);
    settle();
    pump_dispatch(pump);
    ck_assert(engines[0].released);
    ck_assert(!stats().swapping);
    pump_rest(pump, false);
    pump_restart(pump);
    const unsigned pause = at;
    run(PUMP_RATE, 256);
    expect(pause + 512 + FADE, at, 512, 0.25f);
}
END_TEST

/* At any time and for any blocks, the levels are those of the latest output and of the input that it came from, and the
 * reduction is their difference; also while the level keeps changing. */
START_TEST(levels_match_the_output) {
    static const unsigned blocks[] = {256, 100, 2048, 441};
    float before[1000], after[1000], db, noise;
    sine(100);
    for (unsigned i = 0; i < LONG; i++)
        in[i] *= i / 3000 % 2 ? 1 : .01f;
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE * 3 / 2, blocks[_i]);
    ck_assert(!pump_reduction(pump, &db, &noise));
    run(PUMP_RATE, blocks[_i]);
    for (int i = 0; i < 4; i++) {
        ck_assert(pump_reduction(pump, &db, &noise));
        ck_assert_float_eq_tol(db, 6.02f, .05f);
        run(PUMP_RATE, blocks[_i]);
    }
    pump_control(pump, (struct engine_controls){.strength = 1});
    run(PUMP_RATE / 2, blocks[_i]);
    ck_assert(pump_reduction(pump, &db, &noise)); /* they are as they were */
    pump_control(pump, (struct engine_controls){.strength = .5f});
    run(PUMP_RATE / 2, blocks[_i]);
    ck_assert(!pump_reduction(pump, &db, &noise));

    pump_listen(pump, before, after, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert(after[i] == out[at - 1000 + i]);
        ck_assert(before[i] == in[at - 1000 - stats().delay + i]);
    }
}
END_TEST

/* Twelve seconds of noise at -40 dBFS, which the network attenuates by 12 dB, with syllables of 0.3 s in three of every
 * four seconds. */
static void sound(float *x, float *y) {
    uint32_t random = 7;
    for (unsigned i = 0; i < LONG; i++) {
        const bool speech = i / 14400 % 2 && i / PUMP_RATE % 4;
        random = random * 1664525u + 1013904223u;
        x[i] = y[i] = ((float)(random >> 8) / 8388608 - 1) * .01f * sqrtf(3);
        y[i] *= .25f;
        if (speech) {
            x[i] += .1f * sinf(.02f * (float)i);
            y[i] += .1f * sinf(.02f * (float)i);
        }
    }
}

/* The same sound gives the same figure, wherever the measurement starts. */
START_TEST(the_reduction_of_noise_is_measured) {
    static float x[LONG], y[LONG];
    static struct reduction r;
    float db, noise;
    sound(x, y);
    for (unsigned start = 0; start < 2 * PUMP_RATE; start += 7001) {
        reduction_restart(&r);
        for (unsigned i = start; i < start + 10 * PUMP_RATE; i += 100)
            reduction_add(&r, x + i, y + i, 100);
        ck_assert(reduction_read(&r, &db, &noise));
        ck_assert_float_eq_tol(db, 12.04f, .5f);
        ck_assert_float_eq_tol(20 * log10f(noise), -40, .5f);
    }
    for (unsigned i = 0; i < LONG; i++)
        y[i] = 0;
    reduction_add(&r, x, y, LONG);
    ck_assert(reduction_read(&r, &db, &noise));
    ck_assert_float_eq(db, REDUCTION_MOST_DB);
    reduction_add(&r, x, x, LONG);
    ck_assert(reduction_read(&r, &db, &noise));
    ck_assert_float_eq(db, 0);
    reduction_add(&r, y, x, LONG); /* a microphone that is switched off */
    ck_assert(!reduction_read(&r, &db, &noise));
}
END_TEST

static float gain_db(unsigned n) {
    double before = 0, after = 0;
    for (unsigned i = at - n; i < at; i++) {
        before += square(in[i - stats().delay]);
        after += square(out[i]);
    }
    return (float)(10 * log10(after / before));
}

/* A tone at -37 LUFS, which counts as speech. Its gain survives a swap of engines, does not count as noise reduction,
 * and ends when the engine is lost, on bypass, and when the setting is off. */
START_TEST(the_level_follows_the_output) {
    float db, noise;
    sine(997);
    for (unsigned i = 0; i < LONG; i++)
        in[i] *= .04f;
    open_pump(&granted, 768, 1, 1);
    pump_level(pump, -23);
    run(8 * PUMP_RATE, 256);
    const float gained_db = gain_db(4800);
    const float last_s = 7.8f - logf(14 / 4.f); /* from 4 dB off on, with the long time constant */
    ck_assert_float_eq_tol(gained_db, 14 - 4 * expf(-last_s / 3), .5f);
    ck_assert(pump_reduction(pump, &db, &noise));
    ck_assert_float_eq_tol(db, 0, .1f);
    ck_assert_float_eq_tol(20 * log10f(stats().out_rms / stats().in_rms), gained_db, .5f);
    fill(&engines[1], HOP, 768, 1);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    for (unsigned i = 0; i < 100; i++) {
        run(256, 256);
        ck_assert_float_ge(gain_db(256), gained_db - .1f);
    }
    ck_assert(engines[0].released);
    switch (_i) {
    case 0: atomic_store(&engines[1].fail_at, engines[1].n_hops + 1); break;
    case 1: atomic_store(&passes, true); break;
    case 2: pump_level(pump, NAN); break;
    }
    run(PUMP_RATE, 256);
    expect(at - PUMP_RATE / 2, at, stats().delay, 1);
    if (_i > 0) {
        atomic_store(&passes, false);
        pump_level(pump, -23);
        run(PUMP_RATE / 2, 256);
        ck_assert_float_ge(gain_db(256), gained_db);
    }
}
END_TEST

/* One sample at full scale is reported for two seconds. */
START_TEST(clipping_is_reported) {
    sine(100);
    in[PUMP_RATE + 300] = -1; /* after whole blocks */
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(!stats().clips);
    run(512, 256);
    ck_assert(stats().clips);
    run(2 * PUMP_RATE - 1024, 256);
    ck_assert(stats().clips);
    run(2048, 256);
    ck_assert(!stats().clips);
}
END_TEST

START_TEST(the_microphone_disappears_and_returns) {
    sine(100);
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE + 100, 100);
    const unsigned gone = at;
    for (unsigned i = 0; i < 200; i++) {
        pump_process(pump, NULL, 256, out + at, 256);
        at += 256;
        settle();
    }
    const unsigned back = at;
    for (unsigned i = gone + 2048; i < back; i++)
        ck_assert(out[i] == 0);
    memset(in + at, 0, 1000 * sizeof *in); /* its first blocks may be empty */
    run(PUMP_RATE, 256);
    pump_mute(pump, true);
    run(PUMP_RATE / 2, 256);
    for (unsigned i = at - 4096; i < at; i++)
        ck_assert(out[i] == 0);
    pump_mute(pump, false);
    run(PUMP_RATE / 2, 256);
    expect(at - 4096, at, stats().delay, 0.5f);
    for (unsigned i = 1; i < at; i++)
        ck_assert_msg(fabsf(out[i] - out[i - 1]) < 0.01f, "click at %u", i);
    ck_assert_float_gt(stats().in_rms, 0.3f);
    ck_assert_float_lt(stats().out_rms, 0.2f);
}
END_TEST

/* The output never becomes zeros, whatever happens: late and skipped hops, a slow or lost engine, another engine,
 * another quantum and so another alignment, a block that one side missed, a block without a microphone, output that is
 * not finite. The input is never 0, so the pump would have made such zeros. */
START_TEST(sound_never_turns_into_zeros) {
    seed = first_seed + (unsigned)_i;
    for (unsigned i = 0; i < LONG; i++)
        in[i] = in[i] == 0 ? 0.5f : in[i];
    open_pump(_i % 2 ? &refused : &granted, 768, 0.5f, 1);
    struct engine *stalled = NULL;
    unsigned q = 256, n_engines = 1, n_zeros = 0, missed = 0, stalled_at = 0;
    while (at < LONG / 2) {
        const float *from = in + at;
        unsigned n_in = q, n_out = q;
        switch (draw(24)) {
        case 0: q = quanta[2 + draw(6)]; break;
        case 1:
            stalled = _i % 2 && !stalled ? &engines[n_engines - 1] : NULL;
            if (stalled) {
                stall(stalled, true);
                stalled_at = at;
            }
            break;
        case 2: atomic_store(&engines[n_engines - 1].cost_us, draw(8) * 1000); break;
        case 3: atomic_store(&engines[n_engines - 1].nan_at, engines[n_engines - 1].n_hops + 1 + draw(8)); break;
        case 4: n_in = q + draw(3); break;
        case 5: n_out = 0; break;
        case 6:
            if (q < FADE && at - missed > 4 * FADE) { /* it fades out and in; another one meanwhile would be silence */
                from = NULL;
                missed = at;
            }
            break;
        case 7:
            if (n_engines < 3 && at > n_engines * LONG / 8) {
                fill(&engines[n_engines], n_engines == 1 ? 128 : HOP, n_engines == 1 ? 384 : 768, 0.25f);
                ck_assert_int_eq(worker_engine(worker, &engines[n_engines], 1), 0);
                n_engines++;
            }
            break;
        case 8:
            if (draw(64) == 0)
                atomic_store(&engines[n_engines - 1].fail_at, engines[n_engines - 1].n_hops + 1 + draw(8));
            break;
        default: break;
        }
        rt_guard_enter();
        pump_process(pump, from, n_in, out, n_out);
        rt_guard_leave();
        at += n_in;
        if (!stalled || at - stalled_at > RING / 4) { /* longer, and the worker would find its input overwritten */
            for (unsigned i = 0; i < 3; i++)
                stall(&engines[i], false);
            stalled = NULL;
        }
        if (!stalled)
            settle();
        atomic_fetch_add(&clock_ns, n_in * 1000000000ull / PUMP_RATE);
        pump_dispatch(pump);
        for (unsigned i = 0; i < n_out && at > 20000; i++) {
            n_zeros = out[i] == 0 ? n_zeros + 1 : 0;
            ck_assert_msg(n_zeros < 8, "seed %u, quantum %u: zeros at %u", first_seed + (unsigned)_i, q, at);
        }
    }
    for (unsigned i = 0; i < 3; i++)
        stall(&engines[i], false);
}
END_TEST

/* 640 ms of work at once. */
START_TEST(a_busy_worker_pauses_regularly) {
    open_pump(&refused, 768, 0.5f, 1);
    atomic_store(&engines[0].cost_us, 10000);
    const unsigned before = atomic_load(&n_pauses);
    run_block(64 * HOP, true);
    ck_assert_uint_ge(atomic_load(&n_pauses) - before, 640 / 30);
    ck_assert_uint_le(atomic_load(&n_pauses) - before, 640 / 20);
}
END_TEST

/* With real-time priority and 640 ms of work at once, the worker must pause at least every 100 ms, or the kernel would
 * kill it. */
START_TEST(an_overloaded_worker_is_not_killed) {
    open_pump(&rt_posix, 768, 0.5f, 1);
    if (!stats().realtime) {
        fprintf(stderr, "no right to real-time priority: nothing to test\n");
        return;
    }
    const struct rlimit limit = {.rlim_cur = 100000, .rlim_max = 100000};
    ck_assert_int_eq(setrlimit(RLIMIT_RTTIME, &limit), 0);
    atomic_store(&engines[0].cost_us, 10000);
    atomic_store(&engines[0].burn, true);
    run_block(64 * HOP, true);
    ck_assert_uint_eq(stats().hops, 64);
}
END_TEST

static unsigned long locked_kib(void) {
    unsigned long kib = 0;
    char line[128];
    FILE *const status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status) && sscanf(line, "VmLck: %lu", &kib) != 1) {
    }
    fclose(status);
    return kib;
}

/* A pump runs under any limit; a process with CAP_IPC_LOCK has none. */
START_TEST(memory_is_locked_where_the_limit_allows_it) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* they lock nothing */
#endif
    const struct {
        rlim_t limit;
        const char *locked;
    } cases[] = {{1 << 16, "none"}, {8 << 20, "buffers"}, {0, "all"}};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    struct rlimit limit;
    ck_assert_int_eq((int)syscall(SYS_capget, &header, caps), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const bool may = caps[0].effective & 1u << CAP_IPC_LOCK;
    if (cases[_i].limit ? limit.rlim_max < cases[_i].limit : !may) {
        fprintf(stderr, "no right to lock so much: nothing to test\n");
        return;
    }
    if (cases[_i].limit) {
        limit.rlim_cur = cases[_i].limit;
        ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
        caps[0].effective &= ~(1u << CAP_IPC_LOCK);
        ck_assert_int_eq((int)syscall(SYS_capset, &header, caps), 0);
    }
    open_pump(&granted, 768, 0.5f, 1);
    ck_assert_str_eq(stats().locked, cases[_i].locked);
    if (_i > 0)
        ck_assert_uint_ge(locked_kib(), 2500);
    run(PUMP_RATE, 256);
    expect(0, at, 768, 0.5f);
}
END_TEST

/* ---- at the edges ------------------------------------------------------------------------------------------------ */

/* An engine takes over within FADE samples, starting with the first sample of a block. */
START_TEST(a_fade_begins_at_once_and_ends_in_time) {
    for (unsigned i = 0; i < LONG; i++)
        in[i] = 1;
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    while (newest(&pump->readers)->stream->slot->engine == &engines[0])
        run_block(256, true);
    const unsigned begin = at - 256;
    run(FADE, 256);
    for (unsigned i = 0; i < FADE; i++)
        ck_assert_float_eq_tol(out[begin + i], 0.5f - 0.25f * (float)(i + 1) / FADE, 1e-6f);
    ck_assert(out[begin - 1] == 0.5f && out[begin + FADE - 1] == 0.25f && out[begin + FADE] == 0.25f);
}
END_TEST

START_TEST(an_engine_that_never_catches_up_takes_over_anyway) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    atomic_store(&engines[1].nan, true); /* none of its hops is ever done */
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    run(FED_MAX - 2 * HOP, 256);
    ck_assert(stats().swapping);
    run(PUMP_RATE / 2, 256);
    ck_assert(!stats().swapping && engines[0].released);
    expect(at - 4096, at, 768, 1);
}
END_TEST

START_TEST(the_delay_does_not_shrink_within_a_fade) {
    open_pump(&refused, 768, 0.5f, 1);
    run_block(2048, true);
    do
        run_block(256, true);
    while (pump->input.end - pump->blocks.since < STABLE);
    const unsigned delay = stats().delay;
    ck_assert_uint_eq(delay, 768 + 2048);
    ck_assert(readers_add(&pump->readers, newest(&pump->readers)->stream, newest(&pump->readers)->at));
    run_block(256, true);
    ck_assert_uint_eq(stats().delay, delay);
    run(4 * 256, 256);
    ck_assert_uint_eq(stats().delay, 1024);
}
END_TEST

/* No hop is due of a stream that the worker has not started yet, whatever it did long ago. */
START_TEST(a_watchdog_ignores_a_stream_that_has_not_started) {
    open_pump(&refused, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    ck_assert(pump_alive(pump));
    stall(&engines[0], true);
    run_block(256, false);
    fill(&engines[1], HOP, 768, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    run_block(256, false);
    ck_assert(pump->state == FEEDING);
    ck_assert(pump_alive(pump));
    stall(&engines[0], false);
    settle();
}
END_TEST

/* The new engine fails after the last block before a pause. */
START_TEST(a_pause_does_not_switch_to_a_lost_engine) {
    open_pump(&granted, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    atomic_store(&engines[1].fail_at, 5);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    while (engines[1].n_hops < 5)
        run_block(256, true);
    ck_assert(pump->state == FEEDING);
    pump_restart(pump);
    const unsigned pause = at;
    run(PUMP_RATE, 256);
    ck_assert(!stats().engine_lost && engines[1].released && !engines[0].released);
    expect(pause + 768 + FADE, at, 768, 0.5f);
}
END_TEST

/* Until the frames that contain the bad hop have left the overlap-add: twice the hops of a window. */
START_TEST(dry_plays_until_a_gap_has_left_frames_and_overlap) {
    const unsigned delays[] = {256, 768, 1000};
    open_pump(&granted, delays[_i], 0.5f, 1);
    run(PUMP_RATE, 256);
    atomic_store(&engines[0].nan_at, engines[0].n_hops + 1);
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(stats().late_hops, 2 * ((delays[_i] + HOP - 1) / HOP));
}
END_TEST

/* ---- several pumps ----------------------------------------------------------------------------------------------- */

/* The other pumps: use(i) makes one of them `pump`, with its own sound and position. */
static struct other {
    struct pump *pump;
    float *in, *out;
    unsigned at;
} others[WORKER_PUMPS];
static unsigned used;

static void use(unsigned i) {
    others[used] = (struct other){pump, in, out, at};
    pump = others[i].pump;
    in = others[i].in;
    out = others[i].out;
    at = others[i].at;
    used = i;
}

/* Pumps 0 to n - 1, each with noise of its own. */
static void open_pumps(const struct rt *rt, unsigned n, unsigned p99_us) {
    open_pump(rt, 768, 0.5f, p99_us);
    for (unsigned i = 1; i < n; i++) {
        const uint32_t kept = seed;
        use(i);
        setup();
        seed = kept + i;
        for (unsigned k = 0; k < LONG; k++)
            in[k] = (float)draw(1u << 24) / (1 << 23) - 1;
        at = 0;
        ck_assert_int_eq(pump_open(&pump, worker), 0);
    }
    use(0);
}

static void teardown_pumps(void) {
    for (unsigned i = 1; i < WORKER_PUMPS; i++) {
        use(i);
        pump_close(pump);
        free(in);
        free(out);
    }
    use(0);
    teardown();
    memset(others, 0, sizeof others);
}

/* Each pump processes a block of n and the clock advances by one block, so their hops are due together. */
static void run_together(unsigned n_pumps, unsigned n_samples, unsigned n) {
    for (unsigned done = 0; done < n_samples; done += n) {
        for (unsigned i = 0; i < n_pumps; i++) {
            use(i);
            pump_process(pump, in + at, n, out + at, n);
            at += n;
        }
        settle();
        atomic_fetch_add(&clock_ns, n * 1000000000ull / PUMP_RATE);
        for (unsigned i = 0; i < n_pumps; i++) {
            use(i);
            pump_dispatch(pump);
        }
    }
    use(0);
}

/* Passes one block to each of three pumps while the engine is stalled; it then processes them together. */
static void run_stalled(void) {
    stall(&engines[0], true);
    for (unsigned i = 0; i < 3; i++) {
        use(i);
        run_block(256, false);
    }
    stall(&engines[0], false);
    settle();
}

START_TEST(hops_that_are_due_together_are_one_batch) {
    together = true;
    open_pumps(&refused, 3, 1);
    run_together(3, 4096, 256);
    const unsigned calls = engines[0].n_hops, largest = engines[0].n_batches[2] + engines[0].n_batches[3];
    unsigned n_rounds = 0;
    for (; n_rounds < 100; n_rounds++) {
        run_stalled();
    }
    /* Where the worker was quick the first hop went alone, and the two that came meanwhile together. */
    ck_assert_uint_le(engines[0].n_hops - calls, 2 * n_rounds);
    ck_assert_uint_ge(engines[0].n_batches[2] + engines[0].n_batches[3] - largest, n_rounds);
    ck_assert_uint_ge(engines[0].n_batches[3], 1); /* the first waits a moment for the others, which it expects */
    ck_assert_uint_eq(engines[0].n_batches[4], 0);
    for (unsigned i = 0; i < 3; i++) {
        use(i);
        ck_assert_uint_eq(stats().hops, at / HOP);
        ck_assert_uint_eq(stats().late_hops, 0);
        expect(0, at, 1024, 0.5f);
    }
}
END_TEST

/* While the worker computes a hop of pump 0, pump 1 posts long blocks and pump 2 a short one. */
START_TEST(the_earliest_deadline_runs_first) {
    open_pumps(&refused, 3, 1);
    run_together(3, 4096, 256);
    const unsigned n_hops = engines[0].n_hops;
    const unsigned blocks[] = {256, 2048, 256};
    stall(&engines[0], true);
    for (unsigned i = 0; i < 3; i++) {
        use(i);
        pump_process(pump, in + at, blocks[i], out + at, blocks[i]);
        at += blocks[i];
    }
    const unsigned urgent = pump->cur->number;
    stall(&engines[0], false);
    settle();
    use(0);
    ck_assert_uint_eq(engines[0].n_hops, n_hops + 10);
    const unsigned second = engines[0].order[(n_hops + 2) % 64];
    ck_assert(engines[0].order[(n_hops + 1) % 64] == urgent || second == urgent);
}
END_TEST

/* The newest engine is lost, but not yet released. */
START_TEST(a_pump_that_opens_gets_no_lost_engine) {
    open_pumps(&refused, 1, 1);
    run(PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    atomic_store(&engines[1].fail_at, 5);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    while (engines[1].n_hops < 5)
        run_block(256, true);
    use(1);
    setup();
    at = 0;
    ck_assert_int_eq(pump_open(&pump, worker), 0);
    ck_assert(!stats().engine_lost);
    run(PUMP_RATE, 256);
    expect(0, at, 1024, 0.5f);
    use(0);
}
END_TEST

/* Engines that batches do not speed up get none, so that each stream gets its hop as early as possible. */
START_TEST(hops_run_one_by_one_where_batches_are_no_faster) {
    open_pumps(&refused, 3, 1);
    for (unsigned rounds = 0; rounds < 100; rounds++) {
        run_stalled();
    }
    ck_assert_uint_eq(engines[0].n_batches[1], 300);
    ck_assert_uint_eq(engines[0].n_hops, 300);
}
END_TEST

/* One by one, two hops of 900 us take 0.34 of the block and two of 1200 us 0.45. In batches, a block may have to wait
 * for a batch that has already started: three times 600 us take 0.34, three times 1000 us 0.56. */
START_TEST(waiting_counts_the_hops_of_other_pumps) {
    const unsigned p99_us[] = {900, 1200, 600, 1000};
    const bool fits = _i % 2 == 0;
    together = _i >= 2;
    open_pumps(&granted, 2, p99_us[_i]);
    atomic_store(&engines[0].cost_us, p99_us[_i]);
    run(PUMP_RATE, 256);
    ck_assert(stats().waits);
    run_together(2, PUMP_RATE, 256);
    for (unsigned i = 0; i < 2; i++) {
        use(i);
        ck_assert_int_eq(stats().waits, fits);
        ck_assert_uint_eq(stats().delay, fits ? 768 : 1024);
        ck_assert_uint_eq(stats().late_hops, 0);
        expect(at - PUMP_RATE / 4, at, stats().delay, 0.5f);
    }
    use(0);
    run(PUMP_RATE / 2, 256);
    ck_assert_int_eq(stats().waits, fits);
    run(2 * PUMP_RATE, 300); /* another quantum, and the other pump stands: it may be tried again */
    ck_assert(stats().waits);
    ck_assert_uint_eq(stats().late_hops, 0);
}
END_TEST

/* At most four pumps open, and each gets its own output. */
START_TEST(four_pumps_and_no_more) {
    struct pump *fifth = NULL;
    open_pumps(&refused, 4, 1);
    ck_assert_int_eq(pump_open(&fifth, worker), -ENOSPC);
    ck_assert_ptr_null(fifth);
    run_together(4, PUMP_RATE, 480);
    for (unsigned i = 0; i < 4; i++) {
        use(i);
        expect(0, at, stats().delay, 0.5f);
        ck_assert_uint_eq(stats().late_hops, 0);
    }
}
END_TEST

/* An engine has only as many streams as are needed. */
START_TEST(streams_of_an_engine_run_out) {
    struct pump *third = NULL;
    open_pumps(&refused, 3, 1);
    run_together(3, PUMP_RATE / 2, 256);
    use(1);
    pump_close(pump);
    pump = NULL;
    fill(&engines[1], HOP, 768, 0.25f);
    fill(&engines[2], HOP, 768, 0.125f);
    engines[1].n_streams = PUMP_STREAMS; /* for one: they are two */
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), -ENOSPC);
    engines[1].n_streams = 2 * PUMP_STREAMS;
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    ck_assert_int_eq(pump_open(&third, worker), -ENOSPC);
    for (unsigned turn = 0; turn < 2; turn++) { /* the second time with an engine for three */
        for (unsigned i = 0; i < 3; i += i || turn ? 1 : 2) {
            use(i);
            if (!pump) {
                ck_assert_int_eq(pump_open(&pump, worker), 0);
                at = 0;
            }
            run(PUMP_RATE, 256);
            expect(at - 4096, at, stats().delay, turn ? 0.125f : 0.25f);
            ck_assert_uint_eq(stats().late_hops, 0);
        }
        ck_assert(engines[turn].released);
        if (turn == 0)
            ck_assert_int_eq(worker_engine(worker, &engines[2], 1), 0);
    }
}
END_TEST

/* Clocks that drift apart: one pump runs in blocks of 256, one in a resampler's blocks, each at its own time. */
START_TEST(pumps_with_separate_clocks) {
    open_pumps(_i ? &refused : &granted, 2, 1);
    const double ns[] = {256e9 / PUMP_RATE, 278.6395e9 / PUMP_RATE * 1.0003};
    double next_ns[] = {0, 1e6};
    const uint64_t start_ns = atomic_load(&clock_ns);
    unsigned n_in = 0;
    for (unsigned i = 0; next_ns[0] < 4e9;) {
        const unsigned which = next_ns[1] < next_ns[0];
        atomic_store(&clock_ns, start_ns + (uint64_t)next_ns[which]);
        use(which);
        if (which) {
            i++;
            const unsigned a = (unsigned)(i * 278.6395) - n_in, b = (unsigned)(i * 278.6395 + 0.7) - at;
            pump_process(pump, in + n_in, a, out + at, b);
            n_in += a;
            at += b;
        } else {
            pump_process(pump, in + at, 256, out + at, 256);
            at += 256;
        }
        settle();
        next_ns[which] += ns[which];
    }
    use(0);
    ck_assert_uint_eq(stats().late_hops, 0);
    ck_assert_uint_eq(stats().delay, _i ? 1024 : 768);
    expect(PUMP_RATE, at, stats().delay, 0.5f);
    use(1);
    ck_assert_uint_eq(stats().late_hops, 0);
    ck_assert_uint_eq(stats().delay, 768 + HOP - 1 + DELAY_SLACK + (_i ? 279 : 0));
}
END_TEST

/* A pump whose audio thread has stopped, with or without pending hops, does not delay the others; nor does one whose
 * blocks release many hops at once. */
START_TEST(a_stopped_pump_beside_one_with_long_blocks) {
    open_pumps(&refused, 3, 1);
    use(1);
    run(PUMP_RATE / 2, 100);
    for (unsigned i = 0; i < 400; i++) {
        if (i % 32 == 0) {
            use(2);
            pump_process(pump, in + at, 8192, out + at, 8192);
            at += 8192;
        }
        use(0);
        run_block(256, true);
    }
    ck_assert_uint_eq(stats().late_hops, 0);
    ck_assert_uint_eq(stats().hops, at / HOP);
    expect(0, at, 1024, 0.5f);
    use(2);
    ck_assert_uint_eq(stats().late_hops, 0);
    ck_assert_uint_eq(stats().hops, at / HOP);
    expect(0, at, 768 + 8192, 0.5f);
    use(1);
    const unsigned stood = at;
    run(PUMP_RATE, 100);
    ck_assert_uint_eq(stats().late_hops, 0);
    expect(stood, at, stats().delay, 0.5f);
}
END_TEST

/* Each pump takes the new engine when it can; the old one is released when no pump uses it any more. */
START_TEST(an_engine_is_swapped_for_all) {
    open_pumps(_i ? &refused : &granted, 3, 1);
    run_together(3, PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    use(0);
    run(PUMP_RATE / 2, 256); /* the others stand, but not for long enough to be left out */
    ck_assert(!stats().swapping);
    ck_assert_uint_eq(n_released, 0);
    use(1);
    run(PUMP_RATE / 2, 256);
    ck_assert(!stats().swapping);
    ck_assert_uint_eq(n_released, 0);
    use(2);
    ck_assert(stats().swapping);
    atomic_fetch_add(&clock_ns, 2000000000);
    pump_dispatch(pump);
    settle();
    pump_dispatch(pump);
    ck_assert_uint_eq(n_released, 1);
    ck_assert(engines[0].released);
    run_together(3, PUMP_RATE, 256);
    for (unsigned i = 0; i < 3; i++) {
        use(i);
        expect(at - PUMP_RATE / 2, at, stats().delay, 0.25f);
        ck_assert_uint_eq(stats().late_hops, 0);
    }
}
END_TEST

/* An engine fails while pumps change to it: those that use it output dry until the next engine; one that does not yet
 * keeps the old one. */
START_TEST(an_engine_fails_for_some_pumps) {
    open_pumps(&refused, 2, 1);
    run_together(2, PUMP_RATE, 256);
    fill(&engines[1], HOP, 768, 0.25f);
    ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
    run(PUMP_RATE / 2, 256);
    ck_assert(!stats().swapping);
    atomic_store(&engines[1].fail_at, engines[1].n_hops + 10);
    run_together(2, PUMP_RATE, 256);
    ck_assert(stats().engine_lost);
    expect(at - PUMP_RATE / 4, at, 1024, 1);
    use(1);
    ck_assert(!stats().engine_lost && !stats().swapping);
    expect(at - PUMP_RATE / 4, at, 1024, 0.5f);
    ck_assert_uint_eq(n_released, 0);
    fill(&engines[2], HOP, 768, 0.125f);
    ck_assert_int_eq(worker_engine(worker, &engines[2], 1), 0);
    run_together(2, PUMP_RATE, 256);
    ck_assert(engines[0].released && engines[1].released);
    for (unsigned i = 0; i < 2; i++) {
        use(i);
        expect(at - PUMP_RATE / 4, at, 1024, 0.125f);
    }
}
END_TEST

struct runner {
    struct pump *pump;
    const float *in;
    float *out;
    _Atomic unsigned at;
    _Atomic bool end;
};

static void *run_on(void *arg) {
    struct runner *const r = arg;
    while (!r->end && r->at + 256 <= LONG) {
        rt_guard_enter();
        pump_process(r->pump, r->in + r->at, 256, r->out + r->at, 256);
        rt_guard_leave();
        r->at += 256;
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return NULL;
}

/* Pumps open, run, swap engines and close while another pump's audio thread runs. */
START_TEST(pumps_open_and_close) {
    open_pumps(&refused, 1, 1);
    engines[0].gain = 1; /* a hop may be late here: dry is the same then */
    struct runner runner = {.pump = pump, .in = in, .out = out};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_on, &runner), 0);
    use(1);
    setup();
    for (unsigned i = 0; i < 40 || (runner.at < PUMP_RATE && i < 100000); i++) {
        ck_assert_int_eq(pump_open(&pump, worker), 0);
        at = 0;
        for (unsigned k = 0; k < 20; k++) {
            pump_process(pump, in + at, 256, out + at, 256);
            at += 256;
        }
        if (i == 20) {
            fill(&engines[1], HOP, 768, 1);
            ck_assert_int_eq(worker_engine(worker, &engines[1], 1), 0);
        }
        pump_close(pump);
        pump = NULL;
    }
    runner.end = true;
    pthread_join(thread, NULL);
    use(0);
    at = runner.at;
    ck_assert_uint_ge(at, PUMP_RATE);
    for (unsigned i = 1024 + FADE; i < at; i++)
        ck_assert_msg(fabsf(out[i] - in[i - 1024]) < 1e-6f, "sample %u: %g, not %g", i, out[i], in[i - 1024]);
}
END_TEST

int main(void) {
    first_seed = seed_of_run(1);
    Suite *const s = suite_create("pump");
    TCase *const c = tcase_create("pump");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, delay_is_exact_where_it_waits, 0, n_quanta);
    tcase_add_loop_test(c, delay_is_exact_where_it_does_not_wait, 0, n_quanta);
    tcase_add_test(c, the_needed_delay);
    tcase_add_test(c, blocks_of_one_quantum);
    tcase_add_test(c, states_of_waiting);
    tcase_add_test(c, waits_only_if_the_hops_fit);
    tcase_add_test(c, waits_while_it_has_priority);
    tcase_add_test(c, a_late_hop_outputs_dry_without_a_click);
    tcase_add_loop_test(c, any_split_gives_the_same_samples, 0, 4);
    tcase_add_loop_test(c, the_delay_follows_the_quantum, 0, 8);
    tcase_add_loop_test(c, blocks_of_a_resampler, 0, 2);
    tcase_add_test(c, cycles_missed_by_one_side_add_no_delay);
    tcase_add_test(c, waiting_ends_at_the_deadline);
    tcase_add_test(c, waiting_ends_if_the_engine_is_lost);
    tcase_add_test(c, trimming_memory_keeps_the_buffers_locked);
    tcase_add_test(c, waiting_ends_if_hops_take_too_long);
    tcase_add_test(c, a_busy_moment_ends_waiting_for_seconds);
    tcase_add_test(c, hops_without_the_network_do_not_count);
    tcase_add_test(c, a_worker_far_behind_skips_hops);
    tcase_add_test(c, a_watchdog_detects_only_hops_that_stay_due);
    tcase_add_loop_test(c, an_engine_is_swapped, 0, 6);
    tcase_add_loop_test(c, an_engine_of_another_hop_takes_over, 0, 4 * n_some_quanta);
    tcase_add_test(c, a_queued_engine_is_replaced);
    tcase_add_loop_test(c, a_lost_engine_outputs_dry_until_the_next_takes_over, 0, 8);
    tcase_add_test(c, a_new_engine_that_fails_is_given_back);
    tcase_add_test(c, non_finite_output_is_replaced);
    tcase_add_test(c, a_pause_discards_earlier_sound);
    tcase_add_test(c, a_late_first_hop_replays_nothing_from_before_the_pause);
    tcase_add_test(c, an_engine_is_swapped_during_a_pause);
    tcase_add_loop_test(c, an_engine_is_swapped_while_nobody_listens, 0, 2);
    tcase_add_loop_test(c, levels_match_the_output, 0, 4);
    tcase_add_test(c, the_reduction_of_noise_is_measured);
    tcase_add_test(c, clipping_is_reported);
    tcase_add_test(c, the_microphone_disappears_and_returns);
    tcase_add_loop_test(c, sound_never_turns_into_zeros, 0, 16);
    tcase_add_test(c, an_overloaded_worker_is_not_killed);
    tcase_add_loop_test(c, memory_is_locked_where_the_limit_allows_it, 0, 3);
    suite_add_tcase(s, c);
    TCase *const edges = tcase_create("edges");
    tcase_add_checked_fixture(edges, setup, teardown);
    tcase_set_timeout(edges, 60);
    tcase_add_test(edges, a_fade_begins_at_once_and_ends_in_time);
    tcase_add_test(edges, an_engine_that_never_catches_up_takes_over_anyway);
    tcase_add_test(edges, the_delay_does_not_shrink_within_a_fade);
    tcase_add_test(edges, a_watchdog_ignores_a_stream_that_has_not_started);
    tcase_add_test(edges, a_pause_does_not_switch_to_a_lost_engine);
    tcase_add_loop_test(edges, dry_plays_until_a_gap_has_left_frames_and_overlap, 0, 3);
    tcase_add_loop_test(edges, the_level_follows_the_output, 0, 3);
    tcase_add_test(edges, a_busy_worker_pauses_regularly);
    TCase *const several = tcase_create("several");
    tcase_add_checked_fixture(several, setup, teardown_pumps);
    tcase_set_timeout(several, 60);
    tcase_add_test(several, hops_that_are_due_together_are_one_batch);
    tcase_add_test(several, hops_run_one_by_one_where_batches_are_no_faster);
    tcase_add_loop_test(several, waiting_counts_the_hops_of_other_pumps, 0, 4);
    tcase_add_test(several, four_pumps_and_no_more);
    tcase_add_test(several, streams_of_an_engine_run_out);
    tcase_add_loop_test(several, pumps_with_separate_clocks, 0, 2);
    tcase_add_test(several, a_stopped_pump_beside_one_with_long_blocks);
    tcase_add_loop_test(several, an_engine_is_swapped_for_all, 0, 2);
    tcase_add_test(several, an_engine_fails_for_some_pumps);
    tcase_add_test(several, pumps_open_and_close);
    tcase_add_test(several, the_earliest_deadline_runs_first);
    tcase_add_test(several, a_pump_that_opens_gets_no_lost_engine);
    suite_add_tcase(s, edges);
    suite_add_tcase(s, several);
    return run_suite(s, CK_FORK);
}
