/* bench-streams MODEL [ENGINE]: the cost of several live streams on one worker, a line of JSON per case. First the
 * engine alone, with batches of 1, 2 and 3 hops; then pumps in real time for 15 s each: one stream; three whose blocks
 * coincide; three whose clocks differ by 300 ppm. */
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"
#include "live/pump.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { N_STREAMS = 3, BLOCK = 256, SECONDS = 15, N_HOPS = 2000, N_WARM = 200, PRIORITY = 20 };

static _Atomic unsigned n_batches[WORKER_PUMPS + 1]; /* by their hops */

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
                jobs[j] = (struct engine_job){
                    .stream = PUMP_STREAMS * j, .n_hops = 1, .in = sound[j], .out = sound[j]};
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
    for (unsigned i = 0; i < WORKER_PUMPS + 1; i++)
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
    struct err err;
    struct model *m = NULL;
    struct engine *e = NULL;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "Usage: bench-streams MODEL [ENGINE]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct engine_options options = {
        .name = argc > 2 ? argv[2] : "cpu", .n_streams = WORKER_STREAMS, .max_hops = 1};
    if (model_load(&m, argv[1], &err) < 0 || engine_open(&e, &options, m, &err) < 0) {
        fprintf(stderr, "bench-streams: %s\n", err.text);
        model_free(m);
        return 1;
    }
    double one = 0;
    int failed = measure_batches(e) || run(e, 1, 0, "one", &one) ||
                 run(e, N_STREAMS, 0, "three, coinciding", &one) || run(e, N_STREAMS, 3e-4, "three, drifting", &one);
    if (failed)
        fprintf(stderr, "bench-streams: the engine or the worker failed\n");
    engine_close(e);
    model_free(m);
    return failed;
}
