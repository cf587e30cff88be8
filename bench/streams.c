/* bench-streams MODEL [ENGINE]: the cost of several live streams on one worker, a line of JSON per case. First the
 * engine alone, with batches of 1, 2 and 3 hops; then pumps in real time for 15 s each: one stream; three whose blocks
 * coincide; three whose clocks differ by 300 ppm.
 *
 * bench-streams MODEL ENGINE MOST [THREADS]: what a server of many calls asks of the engine, with 1, 2, 4 ... MOST
 * streams and one thread, or THREADS:
 * batches of all of them back to back; then in real time for 2 s each, with hops that become due all at once, and
 * spread over the time of a hop, where a batch is whatever is due. Times count from when a hop is due until its samples
 * are there; it is late when that takes longer than a hop lasts. Memory is the GPU's. */
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"
#include "live/pump.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { N_SOUNDS = 64, BATCH_SECONDS = 1, SERVE_SECONDS = 2, MOST_STREAMS = 4096 };
enum { N_STREAMS = 3, BLOCK = 256, SECONDS = 15, N_HOPS = 2000, N_WARM = 200, PRIORITY = 20 };

static _Atomic unsigned n_batches[MOST_STREAMS + 1]; /* by their hops */

int __real_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    n_batches[n_jobs]++;
    return __real_engine_process(e, jobs, n_jobs);
}

static int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fill(float *x, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        x[i] = .4f * (float)rand() / (float)RAND_MAX - .2f;
}

/* ---- the engine alone -------------------------------------------------------------------------------------------- */

/* The sizes take turns, so that all see the same load of the machine. */
static int measure_batches(struct engine *e) {
    static float sound[N_STREAMS][PUMP_DELAY_MAX], us[N_STREAMS][N_HOPS];
    for (unsigned i = 0; i < N_WARM + N_HOPS; i++) {
        for (unsigned n = 1; n <= N_STREAMS; n++) {
            struct engine_job jobs[N_STREAMS];
            for (unsigned j = 0; j < n; j++) {
                fill(sound[j], engine_hop(e));
                jobs[j] = (struct engine_job){.stream = PUMP_STREAMS * j, .n_hops = 1, .in = sound[j], .out = sound[j]};
            }
            int64_t start = now_ns(CLOCK_MONOTONIC);
            if (engine_process(e, jobs, n))
                return -1;
            if (i >= N_WARM)
                us[n - 1][i - N_WARM] = (float)(now_ns(CLOCK_MONOTONIC) - start) / 1000;
        }
    }
    float one = measure_percentile(us[0], N_HOPS, .5);
    for (unsigned n = 1; n <= N_STREAMS; n++) {
        float p50 = measure_percentile(us[n - 1], N_HOPS, .5);
        printf("{\"model\": \"%s\", \"engine\": \"%s\", \"batch\": %u, \"p50_us\": %.0f, \"of_one\": %.2f, \"p99_us\": "
               "%.0f}\n",
               model_name(engine_model(e)), engine_name(e), n, p50, p50 / one,
               measure_percentile(us[n - 1], N_HOPS, .99));
    }
    for (unsigned j = 0; j < N_STREAMS; j++)
        engine_reset(e, PUMP_STREAMS * j);
    return 0;
}

/* ---- many streams ------------------------------------------------------------------------------------------------ */

struct many {
    struct engine *e;
    unsigned n;
    int64_t hop_ns;
    float *sound, *out, *us; /* [N_SOUNDS][hop], [n][hop], [n_us] */
    unsigned n_us;
    struct engine_job *jobs; /* [n] */
    int64_t *due_ns;         /* [n]: when each stream's next hop is there */
};

/* Bytes of the GPU's memory that are free; 0 if no GPU is in use here. */
static size_t gpu_free(void) {
    size_t is_free = 0, all;
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);
    int (*info)(size_t *, size_t *) = NULL;
    if (cuda)
        *(void **)&info = dlsym(cuda, "cuMemGetInfo_v2");
    return info && !info(&is_free, &all) ? is_free : 0;
}

static void ask(struct many *m, unsigned at, unsigned stream, unsigned turn) {
    const size_t hop = engine_hop(m->e);
    m->jobs[at] = (struct engine_job){.stream = stream,
                                      .n_hops = 1,
                                      .out = m->out + stream * hop,
                                      .in = m->sound + (turn + 7 * stream) % N_SOUNDS * hop};
}

static int many_batches(struct many *m) {
    unsigned n_hops = 0;
    const int64_t begin_ns = now_ns(CLOCK_MONOTONIC), most_ns = BATCH_SECONDS * INT64_C(1000000000);
    int64_t start = begin_ns;
    for (unsigned i = 0; n_hops < m->n_us && (n_hops < 10 || start - begin_ns < most_ns); i++) {
        for (unsigned j = 0; j < m->n; j++)
            ask(m, j, j, i);
        start = now_ns(CLOCK_MONOTONIC);
        if (engine_process(m->e, m->jobs, m->n))
            return -1;
        if (i >= N_WARM || start - begin_ns > most_ns / 2)
            m->us[n_hops++] = (float)(now_ns(CLOCK_MONOTONIC) - start) / 1000;
    }
    const float p50 = measure_percentile(m->us, n_hops, .5), p99 = measure_percentile(m->us, n_hops, .99);
    printf("\"batch\": {\"p50_us\": %.0f, \"p99_us\": %.0f, \"p99_of_hop\": %.3f, \"times_real_time\": %.0f}", p50, p99,
           p99 * 1000 / (float)m->hop_ns, m->n * (float)m->hop_ns / 1000 / p50);
    return 0;
}

static int serve(struct many *m, const char *what, bool spread) {
    unsigned n_us = 0, n_late = 0, n_calls = 0;
    const int64_t start = now_ns(CLOCK_MONOTONIC) + 10000000, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned j = 0; j < m->n; j++)
        m->due_ns[j] = start + (spread ? (int64_t)(j * .6180339887 * (double)m->hop_ns) % m->hop_ns : 0);
    for (;;) {
        int64_t now = now_ns(CLOCK_MONOTONIC), next = INT64_MAX;
        unsigned n_due = 0;
        if (now > start + SERVE_SECONDS * INT64_C(1000000000))
            break;
        for (unsigned j = 0; j < m->n; j++) {
            if (m->due_ns[j] <= now)
                ask(m, n_due++, j, n_calls);
            next = m->due_ns[j] < next ? m->due_ns[j] : next;
        }
        if (!n_due) {
            struct timespec due = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
            continue;
        }
        if (engine_process(m->e, m->jobs, n_due))
            return -1;
        n_calls++;
        now = now_ns(CLOCK_MONOTONIC);
        for (unsigned i = 0; i < n_due; i++) {
            int64_t *due = &m->due_ns[m->jobs[i].stream];
            n_late += now - *due > m->hop_ns;
            if (n_us < m->n_us)
                m->us[n_us++] = (float)(now - *due) / 1000;
            *due += m->hop_ns;
        }
    }
    const double share = (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (SERVE_SECONDS * 1e9);
    const float p50 = measure_percentile(m->us, n_us, .5), p99 = measure_percentile(m->us, n_us, .99);
    printf(", \"%s\": {\"p50_us\": %.0f, \"p99_us\": %.0f, \"max_us\": %.0f, \"hops\": %u, \"late\": %u, "
           "\"hops_per_call\": %.1f, \"core_percent\": %.1f}",
           what, p50, p99, m->us[n_us - 1], n_us, n_late, (double)n_us / n_calls, 100 * share);
    return 0;
}

static int measure_many(const struct engine_options *with, const struct model *model, unsigned n, unsigned n_threads,
                        struct err *err) {
    struct engine_options options = *with;
    struct many m = {.n = n};
    options.n_streams = n;
    const size_t before = gpu_free();
    const int64_t start = now_ns(CLOCK_MONOTONIC);
    if (engine_open(&m.e, &options, model, err) < 0)
        return -1;
    const double open_ms = (double)(now_ns(CLOCK_MONOTONIC) - start) / 1e6,
                 mib = ((double)before - (double)gpu_free()) / 0x1p20;
    const unsigned hop = engine_hop(m.e);
    m.hop_ns = INT64_C(1000000000) * hop / model_rate(model);
    m.n_us = n * (unsigned)(SERVE_SECONDS * INT64_C(1000000000) / m.hop_ns + 2) + N_HOPS;
    m.sound = malloc(N_SOUNDS * (size_t)hop * sizeof *m.sound);
    m.out = malloc((size_t)n * hop * sizeof *m.out);
    m.us = malloc((size_t)m.n_us * sizeof *m.us);
    m.jobs = malloc(n * sizeof *m.jobs);
    m.due_ns = malloc(n * sizeof *m.due_ns);
    int failed = !m.sound || !m.out || !m.us || !m.jobs || !m.due_ns || engine_threads(m.e, n_threads) < 0;
    if (!failed) {
        fill(m.sound, N_SOUNDS * hop);
        printf("{\"model\": \"%s\", \"engine\": \"%s\", \"streams\": %u, \"threads\": %u, \"hop_us\": %.0f, "
               "\"open_ms\": %.0f, ",
               model_name(model), engine_name(m.e), n, n_threads, (double)m.hop_ns / 1000, open_ms);
        if (before)
            printf("\"mib\": %.1f, \"mib_per_stream\": %.2f, ", mib, mib / n);
        failed = many_batches(&m) || serve(&m, "at_once", false) || serve(&m, "spread", true);
        printf("}\n");
    }
    free(m.sound);
    free(m.out);
    free(m.us);
    free(m.jobs);
    free(m.due_ns);
    engine_close(m.e);
    return failed ? err_set(err, -1, "the engine failed") : 0;
}

static int curve(struct engine_options options, const struct model *model, unsigned most, unsigned n_threads,
                 struct err *err) {
    struct engine *e;
    options.n_streams = 1;
    if (engine_open(&e, &options, model, err) < 0) /* afterwards a GPU's context is there */
        return 1;
    engine_close(e);
    prctl(PR_SET_TIMERSLACK, 1);
    for (unsigned n = 1; n <= most; n *= 2)
        if (measure_many(&options, model, n, n_threads, err))
            return 1;
    return 0;
}

/* ---- in real time ------------------------------------------------------------------------------------------------ */

struct stream {
    struct pump *pump;
    pthread_t thread;
    int64_t start_ns;
    double block_ns;
    float in[BLOCK];
};

/* An audio thread: processes each block at its time. */
static void *play(void *data) {
    struct stream *s = data;
    float out[BLOCK];
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &(struct sched_param){.sched_priority = PRIORITY});
    for (unsigned i = 0; i * s->block_ns < SECONDS * 1e9; i++) {
        int64_t at = s->start_ns + (int64_t)(i * s->block_ns);
        struct timespec due = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        pump_process(s->pump, s->in, BLOCK, out, BLOCK);
    }
    return NULL;
}

static void keep(void *data, struct engine *e) {
    (void)data, (void)e; /* the next run has it */
}

static int run(struct engine *e, unsigned n, double drift, const char *what, double *one) {
    static struct stream streams[N_STREAMS];
    struct worker *worker;
    struct worker_options options = {.rt = &rt_posix, .engine = e, .hop_p99_us = 1, .release = keep};
    if (worker_open(&worker, &options))
        return -1;
    for (unsigned i = 0; i <= MOST_STREAMS; i++)
        n_batches[i] = 0;
    int64_t start = now_ns(CLOCK_MONOTONIC) + 20000000, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < n; i++) {
        struct stream *s = &streams[i];
        *s = (struct stream){.start_ns = start, .block_ns = BLOCK * 1e9 / PUMP_RATE * (1 + drift * i)};
        fill(s->in, BLOCK);
        if (pump_open(&s->pump, worker) || pthread_create(&s->thread, NULL, play, s))
            return -1;
    }
    struct pump_stats stats;
    uint64_t hops = 0, late = 0, waits = 0;
    for (unsigned i = 0; i < n; i++)
        pthread_join(streams[i].thread, NULL);
    double share = (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (SECONDS * 1e9);
    for (unsigned i = 0; i < n; i++) {
        pump_stats(streams[i].pump, &stats);
        hops += stats.hops;
        late += stats.late_hops;
        waits += stats.waits;
    }
    *one = *one > 0 ? *one : share;
    printf("{\"model\": \"%s\", \"engine\": \"%s\", \"live\": \"%s\", \"core_percent\": %.1f, \"of_one\": %.2f, "
           "\"p50_us\": %u, "
           "\"p99_us\": %u, \"hops\": %llu, \"late\": %llu, \"waiting\": %llu, \"batches\": [%u, %u, %u]}\n",
           model_name(engine_model(e)), engine_name(e), what, 100 * share, share / *one, stats.hop_p50_us,
           stats.hop_p99_us, (unsigned long long)hops, (unsigned long long)late, (unsigned long long)waits,
           n_batches[1], n_batches[2], n_batches[3]);
    for (unsigned i = 0; i < n; i++)
        pump_close(streams[i].pump);
    worker_close(worker);
    return 0;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct model *m = NULL;
    struct engine *e = NULL;
    const unsigned long most = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    const unsigned long threads = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    if (argc < 2 || argc > 5 || most > MOST_STREAMS || threads < 1 || threads > MOST_STREAMS) {
        fprintf(stderr, "Usage: bench-streams MODEL [ENGINE [MOST [THREADS]]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct engine_options options = {.name = argc > 2 ? argv[2] : "cpu", .n_streams = WORKER_STREAMS, .max_hops = 1};
    int failed = model_load(&m, argv[1], &err) < 0;
    if (!failed && most)
        failed = curve(options, m, (unsigned)most, (unsigned)threads, &err);
    else if (!failed && !(failed = engine_open(&e, &options, m, &err) < 0)) {
        double one = 0;
        failed = measure_batches(e) || run(e, 1, 0, "one", &one) || run(e, N_STREAMS, 0, "three, coinciding", &one) ||
                 run(e, N_STREAMS, 3e-4, "three, drifting", &one);
        if (failed)
            err_set(&err, -1, "the engine or the worker failed");
        engine_close(e);
    }
    if (failed)
        fprintf(stderr, "bench-streams: %s\n", err.text);
    model_free(m);
    return failed;
}
