/* The pump: blocks of any sizes in and out, engines that are late, fail, give what is no number or are exchanged, pauses and
 * mutes; what goes out is always sound that came in, and in the end the signal stands where the delay says.
 *
 * A byte: the allocation that fails when the pump is opened; then turns of a byte, see act(). Clock and futexes are the
 * test's own: the clock stands while anything runs, and a wait that nothing can end any more ends at its deadline. */
#include "config.h"

#include "fuzz.h"

#include "pump.h"

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

enum { N_ENGINES = 6, MOST_SAMPLES = 1 << 15, MOST_BLOCK = 17000, LONG = MOST_SAMPLES + MOST_BLOCK + 4 * PUMP_RATE };

/* ---- clock and worker -------------------------------------------------------------------------------------------- */

/* The worker is a coroutine of the only thread: it runs while the audio thread waits for it and in settle(), until it
 * sleeps, or an engine stalls, so the same input always gives the same run. */
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

/* Until the worker has nothing left to do, or is stalled. */
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
    static char *stack;
    enum { STACK = 1 << 18 };
    (void)data;
    if (!stack)
        stack = malloc(STACK);
    fuzz_check(stack && getcontext(&worker) == 0);
    worker.uc_stack.ss_sp = stack;
    worker.uc_stack.ss_size = STACK;
    worker_run = run;
    worker_arg = arg;
    makecontext(&worker, run_worker, 0);
    *ret = pthread_self();
    return 0;
}

static int grant(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return 0;
}

static int refuse(void *data, pthread_t thread) {
    (void)data, (void)thread;
    return -EPERM;
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
    bool stall;
    unsigned failing, not_finite; /* hops from now on; 0: none */
    unsigned cost_us;
    float past[PUMP_STREAMS][4096];
    float *fade;
    bool taken, released;
};

static struct engine engines[N_ENGINES];
static unsigned n_engines;

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

void engine_tail(const struct engine *e, unsigned stream, float *tail) {
    for (unsigned i = 0; i < e->delay; i++)
        tail[i] = e->gain * e->fade[i] * e->past[stream][i];
}

void engine_control(struct engine *e, unsigned stream, float strength, float floor) {
    fuzz_check(!e->released && stream < PUMP_STREAMS && strength >= 0 && floor >= 0);
}

static struct engine *make_engine(unsigned what) {
    static const unsigned hops[] = {256, 64, 128, 480}, delays[] = {3, 1, 2, 7}; /* in hops */
    struct engine *e = &engines[n_engines++];
    *e = (struct engine){.hop = hops[what % 4], .gain = 0.5f + 0.125f * (float)(what / 16 % 4)};
    e->delay = delays[what / 4 % 4] * e->hop;
    e->fade = malloc(e->delay * sizeof *e->fade);
    for (unsigned i = 0; i < e->delay; i++)
        e->fade[i] = 1 - (float)(i + 1) / (float)(e->delay + 1);
    return e;
}

static void release(void *data, struct engine *e) {
    fuzz_check(data == engines && e->taken && !e->released);
    e->released = true;
}

/* ---- the pump ---------------------------------------------------------------------------------------------------- */

static struct pump *pump;
static float *in, *out; /* [LONG] by position */
static unsigned at;

static struct pump_stats stats(void) {
    struct pump_stats s;
    pump_stats(pump, &s);
    return s;
}

static void check_sound(const float *from, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        fuzz_check(fabsf(from[i]) <= 1.00001f); /* and so is finite */
}

static void block(unsigned n, bool microphone, unsigned n_out) {
    static float sink[MOST_BLOCK + 4];
    pump_process(pump, microphone ? in + at : NULL, n, n_out == n ? out + at : sink, n_out);
    check_sound(n_out == n ? out + at : sink, n_out);
    at += n;
    settle();
    move_clock(n * 1000000000ull / PUMP_RATE);
    pump_dispatch(pump);
    const struct pump_stats s = stats();
    fuzz_check(s.delay <= PUMP_DELAY_MAX && s.skipped_hops <= s.late_hops + s.hops + s.skipped_hops);
    fuzz_check(isfinite(s.in_rms) && isfinite(s.out_rms) && s.hop_p50_us <= s.hop_p99_us + s.hop_max_us);
}

static void let_go(void) {
    for (unsigned i = 0; i < n_engines; i++)
        engines[i].stall = false;
    worker_stalls = false;
    settle();
}

static void act(struct fuzz_input *input, unsigned *quantum) {
    static const unsigned quanta[] = {256, 32, 64, 128, 480, 1024, 2048, 8192, 1, 300, 441, 8917, 16384, 16999};
    const unsigned what = fuzz_byte(input), n = what / 16;
    struct engine *e = &engines[n % n_engines];
    switch (what % 16) {
    case 0:
    case 1: /* blocks as they are */
        for (unsigned i = 0; i <= n && at < MOST_SAMPLES; i++)
            block(*quantum, true, *quantum);
        break;
    case 2: *quantum = quanta[n % 14]; break;
    case 3: *quantum = 1 + fuzz_short(input) % MOST_BLOCK; break;
    case 4: block(*quantum, true, *quantum + n % 3); break; /* a resampler's, or missed on a side */
    case 5: block(*quantum, true, n % 2 ? 0 : *quantum / 2); break;
    case 6: block(0, true, *quantum); break;
    case 7: block(*quantum, false, *quantum); break;
    case 8: pump_mute(pump, n % 2); break;
    case 9:
        move_clock(n % 4 * 700000000ull);
        pump_restart(pump);
        break;
    case 10:
        if (n_engines < N_ENGINES) {
            e = make_engine(fuzz_byte(input));
            fuzz_fail_allocation(n < 8 ? n : 0);
            e->taken = true; /* it may be released at once */
            if (pump_engine(pump, e, n * 100) < 0)
                e->taken = false;
            fuzz_fail_allocation(0);
            let_go();
        }
        break;
    case 11: e->failing = fuzz_byte(input); break;
    case 12: e->not_finite = fuzz_byte(input); break;
    case 13: e->stall = true; break;
    case 14: let_go(); break;
    case 15:
        e->cost_us = fuzz_byte(input) * 40;
        pump_control(pump, (float)n / 15, 0);
        pump_alive(pump);
        break;
    }
}

/* What all was, the signal comes back to where the delay says, of the engine that sounds or as it came in. */
static void check_position(void) {
    let_go();
    for (unsigned i = 0; i < n_engines; i++)
        engines[i].cost_us = engines[i].failing = engines[i].not_finite = 0;
    pump_mute(pump, false);
    while (at < LONG - 1024)
        block(1024, true, 1024);
    const struct pump_stats s = stats();
    fuzz_check(!s.swapping);
    bool right = false;
    for (unsigned i = 0; i <= n_engines && !right; i++) {
        const float gain = i < n_engines ? engines[i].gain : 1;
        right = s.engine_lost == (i == n_engines);
        for (unsigned t = at - 4096; t < at && right; t++)
            right = out[t] == gain * in[t - s.delay];
    }
    fuzz_check(right);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    if (!in) {
        in = malloc(LONG * sizeof *in);
        out = malloc(LONG * sizeof *out);
        uint32_t x = 1;
        for (unsigned i = 0; i < LONG; i++) {
            x = x * 1664525u + 1013904223u;
            in[i] = (float)(x >> 8) / (1 << 23) - 1;
        }
    }
    in[30000] = size % 2 ? NAN : 0.5f;
    in[30001] = size % 2 ? INFINITY : 0.25f;
    n_engines = at = 0;
    clock_ns = 1000000000;
    in_worker = worker_sleeps = worker_stalls = worker_ended = false;

    const unsigned fail = fuzz_byte(&input), how = fuzz_byte(&input);
    const struct rt rt = {.start = start, .raise = how & 1 ? refuse : grant, .join = join};
    struct engine *const first = make_engine(how >> 2);
    const struct pump_options o = {
        .rt = &rt, .engine = first, .hop_p99_us = 1, .release = release, .data = engines};
    fuzz_fail_allocation(fail % 32);
    const int code = pump_open(&pump, &o);
    fuzz_fail_allocation(0);
    fuzz_check(code == 0 || (fail && code == -ENOMEM));
    first->taken = !code;
    if (!code) {
        unsigned quantum = 256;
        settle();
        while (input.size && at < MOST_SAMPLES)
            act(&input, &quantum);
        if (how & 2)
            check_position();
        let_go();
        pump_close(pump);
        pump = NULL;
    }
    for (unsigned i = 0; i < n_engines; i++) {
        fuzz_check(engines[i].taken == engines[i].released);
        free(engines[i].fade);
    }
    return 0;
}
