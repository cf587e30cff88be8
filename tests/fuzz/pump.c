/* Pumps and their worker: blocks of any size in and out, engines that are late, fail, output NaN or are exchanged,
 * pauses and mutes, a second pump that is opened and closed. The output is always earlier input, and in the end the
 * signal has the reported delay.
 *
 * A byte: which allocation fails when the worker (4 bits) and the pump (4 bits) are opened. A byte: real-time priority
 * refused, position checked at the end, first engine (6 bits). The rest are turns, see act(). */
#include "config.h"

#include "fuzz.h"

#include "live/pump.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

enum { N_ENGINES = 6, MOST_SAMPLES = 1 << 15, MOST_BLOCK = 17000, LONG = MOST_SAMPLES + MOST_BLOCK + 5 * PUMP_RATE };

/* ---- clock and worker -------------------------------------------------------------------------------------------- */

/* The worker is a coroutine of the only thread. It runs while the audio thread waits for it and in settle(), until it
 * sleeps or an engine stalls. Only move_clock advances the clock. So the same input always gives the same run, and a
 * wait that nothing can end any more ends at its deadline. */
static uint64_t clock_ns;
static ucontext_t audio, worker;
static void *(*worker_run)(void *);
static void *worker_arg;
static bool in_worker, worker_sleeps, worker_stalls, worker_ended, audio_woken;

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
long __wrap_syscall(long number, _Atomic uint32_t *word, long operation, long value, const struct timespec *timeout);

static void move_clock(uint64_t ns) {
    clock_ns += ns;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    *t = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000u), .tv_nsec = (long)(clock_ns % 1000000000u)};
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest) {
    (void)rest;
    move_clock((uint64_t)t->tv_nsec);
    return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    (void)how, (void)set, (void)old;
    return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name) {
    (void)thread, (void)name;
    return 0;
}

static void to_audio(void) {
    in_worker = false;
    swapcontext(&worker, &audio);
}

/* Runs the worker until it has nothing left to do, or stalls. */
static void settle(void) {
    while (!worker_sleeps && !worker_stalls && !worker_ended) {
        in_worker = true;
        swapcontext(&audio, &worker);
    }
}

long __wrap_syscall(long number, _Atomic uint32_t *word, long operation, long value, const struct timespec *timeout) {
    fuzz_check(number == SYS_futex);
    fuzz_check(operation == FUTEX_WAIT_PRIVATE || operation == FUTEX_WAKE_PRIVATE);
    if (operation == FUTEX_WAKE_PRIVATE) {
        *(in_worker ? &audio_woken : &worker_sleeps) = in_worker;
        return 0;
    }
    if (atomic_load(word) != value)
        return 0;
    if (in_worker) {
        worker_sleeps = true;
        to_audio();
        return 0;
    }
    audio_woken = false;
    settle();
    if (audio_woken || atomic_load(word) != value)
        return 0;
    fuzz_check(timeout); /* or it would wait for ever */
    move_clock((uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec);
    errno = ETIMEDOUT;
    return -1;
}

static void run_worker(void) {
    worker_run(worker_arg);
    worker_ended = true;
    to_audio();
}

static int start(void *data, pthread_t *ret, void *(*run)(void *), void *arg) {
    static char stack[1 << 18];
    (void)data;
    fuzz_check(getcontext(&worker) == 0);
    worker.uc_stack.ss_sp = stack;
    worker.uc_stack.ss_size = sizeof stack;
    worker_run = run;
    worker_arg = arg;
    makecontext(&worker, run_worker, 0);
    *ret = pthread_self();
    return 0;
}

static void join(void *data, pthread_t thread) {
    (void)data, (void)thread;
    settle();
    fuzz_check(worker_ended);
}

/* ---- engines: a share of the delayed input ----------------------------------------------------------------------- */

struct engine {
    unsigned hop, delay;
    float gain;
    bool stall, together;
    unsigned failing, not_finite; /* hops from now on; 0: none */
    unsigned cost_us;
    float past[WORKER_STREAMS][4096];
    float *fade;
    bool taken, released;
};

#include "tests/support/fake_engine.h"

static struct engine engines[N_ENGINES];
static unsigned n_engines;

unsigned engine_streams(const struct engine *e) {
    (void)e;
    return WORKER_STREAMS;
}

void engine_reset(struct engine *e, unsigned stream) {
    memset(e->past[stream], 0, sizeof e->past[stream]);
}

void engine_pause(struct engine *e, unsigned stream) {
    engine_reset(e, stream);
}

bool engine_ran(const struct engine *e, unsigned stream) {
    (void)e;
    (void)stream;
    return true;
}

static bool counts_down(unsigned *left) {
    return *left && !--*left;
}

int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    fuzz_check(!e->released);
    while (e->stall) {
        worker_stalls = true;
        to_audio();
    }
    move_clock(e->cost_us * 1000ull);
    if (counts_down(&e->failing))
        return -EIO;
    const bool bad = counts_down(&e->not_finite);
    for (unsigned j = 0; j < n_jobs; j++) {
        float *past = e->past[jobs[j].stream];
        memcpy(past + e->delay, jobs[j].in, e->hop * sizeof *past);
        for (unsigned i = 0; i < e->hop; i++)
            jobs[j].out[i] = bad ? NAN : e->gain * past[i];
        memmove(past, past + e->hop, e->delay * sizeof *past);
    }
    return 0;
}

void engine_control(struct engine *e, unsigned stream, struct engine_controls controls) {
    fuzz_check(!e->released && stream < WORKER_STREAMS && controls.strength >= 0 && controls.floor >= 0);
}

float engine_strength(const struct engine *e, unsigned stream) {
    fuzz_check(!e->released && stream < WORKER_STREAMS);
    return (float)(stream % 2);
}

static struct engine *make_engine(unsigned what) {
    static const unsigned hops[] = {256, 64, 128, 480}, delays[] = {3, 1, 2, 7}; /* in hops */
    struct engine *e = &engines[n_engines++];
    *e = (struct engine){.hop = hops[what % 4], .gain = 0.5f + 0.125f * (float)(what / 16 % 4)};
    e->delay = delays[what / 4 % 4] * e->hop;
    e->together = what / 64 % 2;
    e->fade = malloc(e->delay * sizeof *e->fade);
    for (unsigned i = 0; i < e->delay; i++)
        e->fade[i] = 1 - (float)(i + 1) / (float)(e->delay + 1);
    return e;
}

static void release(void *data, struct engine *e) {
    fuzz_check(data == engines && e->taken && !e->released);
    e->released = true;
}

/* ---- two pumps --------------------------------------------------------------------------------------------------- */

static struct worker *live;
static float *in; /* [LONG] by position */

struct stream {
    struct pump *pump; /* NULL: closed */
    unsigned at, quantum;
    float *out; /* [LONG] */
};

static struct stream streams[2];

static struct pump_stats stats(const struct stream *s) {
    struct pump_stats stats;
    pump_stats(s->pump, &stats);
    return stats;
}

static void block(struct stream *s, bool microphone, unsigned n, unsigned n_out) {
    static float other[MOST_BLOCK + 4];
    float *out = n_out == n ? s->out + s->at : other;
    pump_process(s->pump, microphone ? in + s->at : NULL, n, out, n_out);
    for (unsigned i = 0; i < n_out; i++)
        fuzz_check(fabsf(out[i]) <= 1.00001f); /* and so is finite */
    s->at += n;
    settle();
    move_clock(n * 1000000000ull / PUMP_RATE);
    pump_dispatch(s->pump);
    const struct pump_stats now = stats(s);
    fuzz_check(now.delay <= PUMP_DELAY_MAX && now.hop_p50_us <= now.hop_p99_us + now.hop_max_us);
    fuzz_check(isfinite(now.in_rms) && isfinite(now.out_rms));
}

static void let_go(void) {
    for (unsigned i = 0; i < n_engines; i++)
        engines[i].stall = false;
    worker_stalls = false;
    settle();
}

static void open_stream(struct stream *s, unsigned fail) {
    fuzz_fail_allocation(fail);
    const int code = pump_open(&s->pump, live);
    fuzz_fail_allocation(0);
    fuzz_check(code == 0 || (fail && code == -ENOMEM));
    s->at = 0;
    s->quantum = 256;
}

static void close_stream(struct stream *s) {
    let_go();
    pump_close(s->pump);
    s->pump = NULL;
}

static void act(struct fuzz_input *input, struct stream **now) {
    static const unsigned quanta[] = {256, 32,  64,  128,  480,   1024,  2048, 8192,
                                      1,   300, 441, 8917, 16384, 16999, 100,  5000};
    const unsigned what = fuzz_byte(input), n = what / 16;
    struct stream *s = *now;
    struct engine *e = &engines[n % n_engines];
    switch (what % 16) {
    case 0:
    case 1: /* blocks as they are */
        for (unsigned i = 0; i <= n && s->at < MOST_SAMPLES; i++)
            block(s, true, s->quantum, s->quantum);
        break;
    case 2: s->quantum = quanta[n]; break;
    case 3: /* the other stream */
        *now = &streams[s == &streams[0]];
        if (n == 1)
            close_stream(s);
        if (!(*now)->pump)
            open_stream(*now, n == 2 ? fuzz_byte(input) : 0);
        if (!(*now)->pump)
            *now = s;
        break;
    case 4: block(s, true, s->quantum, s->quantum + n % 3); break; /* a resampler's, or missed on a side */
    case 5: block(s, true, s->quantum, n % 2 ? 0 : s->quantum / 2); break;
    case 6: block(s, true, 0, s->quantum); break;
    case 7: block(s, false, s->quantum, s->quantum); break;
    case 8: pump_mute(s->pump, n % 2); break;
    case 9:
        move_clock(n % 4 * 700000000ull);
        pump_restart(s->pump);
        break;
    case 10:
        if (n_engines < N_ENGINES) {
            e = make_engine(fuzz_byte(input));
            fuzz_fail_allocation(n < 8 ? n : 0);
            e->taken = true; /* it may be released at once */
            if (worker_engine(live, e, n * 100) < 0)
                e->taken = false;
            fuzz_fail_allocation(0);
        }
        break;
    case 11: e->failing = fuzz_byte(input); break;
    case 12: e->not_finite = fuzz_byte(input); break;
    case 13: e->stall = true; break;
    case 14: let_go(); break;
    case 15:
        e->cost_us = fuzz_byte(input) * 40;
        pump_control(s->pump, (struct engine_controls){.strength = (float)n / 15});
        pump_alive(s->pump);
        break;
    }
}

/* Whatever happened before, the output is the input at the reported delay: through the audible engine or, if that has
 * failed, unchanged. */
static void check_position(struct stream *s) {
    const unsigned settled = s->at + 4 * PUMP_RATE;
    unsigned delay_now = 0, since = 0; /* it may change until the last: the slow hops are forgotten one by one */
    while (s->at < settled || s->at - since < 8192) {
        fuzz_check(s->at <= LONG - 1024);
        block(s, true, 1024, 1024);
        if (stats(s).delay != delay_now)
            since = s->at;
        delay_now = stats(s).delay;
    }
    const struct pump_stats now = stats(s);
    fuzz_check(!now.swapping);
    bool right = false;
    for (unsigned i = 0; i <= n_engines && !right; i++) {
        const float gain = i < n_engines ? engines[i].gain : 1;
        /* After blocks as a resampler's are the reader may be 2 samples off. */
        for (unsigned delay = now.delay - 2; delay <= now.delay + 2 && !right; delay++) {
            right = now.engine_lost == (i == n_engines);
            for (unsigned t = s->at - 4096; t < s->at && right; t++)
                right = s->out[t] == gain * in[t - delay];
        }
    }
    fuzz_check(right);
}

static void set_up(void) {
    in = malloc(LONG * sizeof *in);
    streams[0].out = malloc(LONG * sizeof *in);
    streams[1].out = malloc(LONG * sizeof *in);
    uint32_t x = 1;
    for (unsigned i = 0; i < LONG; i++) {
        x = x * 1664525u + 1013904223u;
        in[i] = (float)(x >> 8) / (1 << 23) - 1;
    }
    in[20000] = NAN;
    in[20001] = INFINITY;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    if (!in)
        set_up();
    n_engines = 0;
    clock_ns = 1000000000;
    in_worker = worker_sleeps = worker_stalls = worker_ended = false;

    const unsigned fail = fuzz_byte(&input), how = fuzz_byte(&input);
    const struct rt rt = {.start = start,
                          .raise = how & 1 ? raise_refused : raise_granted,
                          .raised = how & 1 ? raised_false : raised_true,
                          .join = join};
    struct engine *const first = make_engine(how >> 2);
    const struct worker_options o = {.rt = &rt, .engine = first, .hop_p99_us = 1, .release = release, .data = engines};
    fuzz_fail_allocation(fail % 16);
    const int code = worker_open(&live, &o);
    fuzz_fail_allocation(0);
    fuzz_check(code == 0 || (fail && code == -ENOMEM));
    first->taken = !code;
    if (!code) {
        settle();
        struct stream *now = &streams[0];
        open_stream(now, fail / 16);
        while (now->pump && input.size && now->at < MOST_SAMPLES)
            act(&input, &now);
        let_go();
        for (unsigned i = 0; i < n_engines; i++)
            engines[i].cost_us = engines[i].failing = engines[i].not_finite = 0;
        for (unsigned i = 0; i < 2; i++) {
            if (streams[i].pump && how & 2) {
                pump_mute(streams[i].pump, false);
                check_position(&streams[i]);
            }
            close_stream(&streams[i]);
        }
        worker_close(live);
    }
    for (unsigned i = 0; i < n_engines; i++) {
        fuzz_check(engines[i].taken == engines[i].released);
        free(engines[i].fade);
    }
    return 0;
}
