/* The pump with an engine of the test's own and a clock that stands unless the test moves it: every run is the same.
 * The pump's source is part of this program, so that a test can wait until its worker has nothing left to do. */
#include "pump.c"

#include "rt_guard.h"

#include <check.h>
#include <stdio.h>

#define HOP 256u
#define LONG (12 * PUMP_RATE)

/* ---- clock, engine and worker of the tests ------------------------------------------------------------------------ */

static _Atomic uint64_t clock_ns;

int clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    const uint64_t ns = atomic_load(&clock_ns);
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

/* Gives gain times the delayed input, or a recursive filter of it, whose output depends on all that it was ever given. */
struct engine {
    unsigned hop, delay;
    float gain, pole;
    _Atomic bool stall;        /* process waits */
    _Atomic unsigned cost_us;  /* by the tests' clock */
    _Atomic unsigned fail_at;  /* the hop, counted from 1, that fails; 0: none */
    _Atomic unsigned nan_at;   /* ... whose output is not finite */
    _Atomic unsigned n_hops, n_resets;
    float past[PUMP_STREAMS][4096], filter[PUMP_STREAMS];
    float fade[4096];
    bool released;
};

unsigned engine_hop(const struct engine *e) {
    return e->hop;
}

unsigned engine_delay(const struct engine *e) {
    return e->delay;
}

const float *engine_fade(const struct engine *e) {
    return e->fade;
}

void engine_reset(struct engine *e, unsigned stream) {
    memset(e->past[stream], 0, sizeof e->past[stream]);
    e->filter[stream] = 0;
    atomic_fetch_add(&e->n_resets, 1);
}

int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    while (atomic_load(&e->stall))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    atomic_fetch_add(&clock_ns, atomic_load(&e->cost_us) * 1000ull);
    const unsigned n = atomic_fetch_add(&e->n_hops, 1) + 1;
    if (n == atomic_load(&e->fail_at))
        return -EIO;
    for (unsigned j = 0; j < n_jobs; j++) {
        float *const past = e->past[jobs[j].stream];
        memcpy(past + e->delay, jobs[j].in, e->hop * sizeof *past);
        for (unsigned i = 0; i < e->hop; i++) {
            float *const y = &e->filter[jobs[j].stream];
            *y = e->pole * *y + e->gain * past[i];
            jobs[j].out[i] = n == atomic_load(&e->nan_at) ? NAN : *y;
        }
        memmove(past, past + e->hop, e->delay * sizeof *past);
    }
    return 0;
}

void engine_tail(const struct engine *e, unsigned stream, float *tail) {
    for (unsigned i = 0; i < e->delay; i++)
        tail[i] = e->gain * e->fade[i] * e->past[stream][i];
}

static _Atomic float strength_seen;

void engine_control(struct engine *e, unsigned stream, float strength, float floor) {
    (void)e, (void)stream, (void)floor;
    atomic_store(&strength_seen, strength);
}

static void fill(struct engine *e, unsigned hop, unsigned delay, float gain) {
    *e = (struct engine){.hop = hop, .delay = delay, .gain = gain};
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

/* The clock stands while the audio thread waits, so here every worker is as good as a real-time one. */
static int raise_granted(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return 0;
}

static int raise_refused(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return -EPERM;
}

static void join_plain(void *data, pthread_t thread) {
    (void)data;
    pthread_join(thread, NULL);
}

static const struct rt granted = {.start = start_plain, .raise = raise_granted, .join = join_plain};
static const struct rt refused = {.start = start_plain, .raise = raise_refused, .join = join_plain};

/* ---- a pump under test ---------------------------------------------------------------------------------------------- */

static struct engine engines[3];
static struct pump *pump;
static unsigned n_released;
static float *in, *out; /* [LONG] */
static unsigned at;     /* samples run so far */
static uint32_t seed;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * n) >> 32);
}

static void open_pump(const struct rt *rt, unsigned delay, float gain, unsigned p99_us) {
    fill(&engines[0], HOP, delay, gain);
    const struct pump_options o = {
        .rt = rt, .engine = &engines[0], .hop_p99_us = p99_us, .release = release, .data = &n_released};
    n_released = 0;
    ck_assert_int_eq(pump_open(&pump, &o), 0);
    at = 0;
}

static void setup(void) {
    in = malloc(LONG * sizeof *in);
    out = malloc(LONG * sizeof *out);
    seed = 1;
    for (unsigned i = 0; i < LONG; i++)
        in[i] = (float)draw(1u << 24) / (1 << 23) - 1;
}

static void teardown(void) {
    pump_close(pump);
    pump = NULL;
    free(in);
    free(out);
}

static void sine(double frequency) {
    for (unsigned i = 0; i < LONG; i++)
        in[i] = (float)(0.5 * sin(2 * M_PI * frequency * i / PUMP_RATE));
}

/* Waits until the worker has nothing left to do. */
static void settle(void) {
    for (;;) {
        bool due = !atomic_load(&pump->sleeping) || atomic_load(&pump->retiring);
        for (unsigned i = 0; i < 2; i++) {
            const struct lane *const l = atomic_load(&pump->active[i]);
            due |= l && !atomic_load(&l->unit->lost) &&
                   (atomic_load(&l->next) + l->unit->hop <= atomic_load(&pump->written) || l->begun != atomic_load(&l->base));
        }
        if (!due)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 5000}, NULL);
    }
}

/* One block of real time. The worker is done with it before the next one, unless it is stalled. */
static void run_block(unsigned n, bool settled) {
    ck_assert_uint_le(at + n, LONG);
    rt_guard_enter();
    pump_process(pump, in + at, n, out + at, n);
    rt_guard_leave();
    at += n;
    atomic_fetch_add(&clock_ns, n * 1000000000ull / PUMP_RATE);
    if (settled)
        settle();
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

/* Outside fades: out[i] = gain * in[i - delay], to the bit. */
static void expect(unsigned from, unsigned to, unsigned delay, float gain) {
    for (unsigned i = from > delay + FADE ? from : delay + FADE; i < to; i++)
        ck_assert_msg(out[i] == gain * in[i - delay], "sample %u: %g, not %g (delay %u)", i, out[i], gain * in[i - delay], delay);
}

static const unsigned quanta[] = {32, 64, 128, 256, 480, 1024, 2048, 8192, 1, 300, 441, 8917};
enum { n_quanta = sizeof quanta / sizeof *quanta };

/* ---- tests ---------------------------------------------------------------------------------------------------------- */

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

START_TEST(waits_only_where_the_hops_fit) {
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

START_TEST(a_late_hop_gives_dry_without_a_click) {
    sine(200);
    open_pump(&refused, 768, 0.5f, 1);
    run(PUMP_RATE, 256);
    const unsigned delay = stats().delay, begin = at;
    atomic_store(&engines[0].stall, true);
    run_block(256, false);
    run_block(256, false);
    run_block(256, false);
    atomic_store(&engines[0].stall, false);
    settle();
    run(PUMP_RATE, 256);
    ck_assert_uint_eq(stats().late_hops, 2); /* the third was computed before its time */
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

int main(void) {
    Suite *const s = suite_create("pump");
    TCase *const c = tcase_create("pump");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, delay_is_exact_where_it_waits, 0, n_quanta);
    tcase_add_loop_test(c, delay_is_exact_where_it_does_not_wait, 0, n_quanta);
    tcase_add_test(c, waits_only_where_the_hops_fit);
    tcase_add_test(c, a_late_hop_gives_dry_without_a_click);
    suite_add_tcase(s, c);
    SRunner *const r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    const int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
