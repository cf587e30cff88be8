#include "config.h"

#include "probe.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's macros and inline functions are GNU C */
#include <pipewire/pipewire.h>
#include <pipewire/filter.h>

#define COMPARED 1024 /* samples */

struct probe {
    struct pw_thread_loop *loop;
    struct pw_filter *player, *recorder;
    void *out, *in[2];
    float peak;
    float *recorded[2];
    /* the recorder's data thread */
    bool begun;
    uint64_t base;
    _Atomic uint64_t start;         /* = base, for the player */
    _Atomic unsigned length, rate;
    _Atomic uint64_t cycles, samples;
    _Atomic float loudest;
};

/* A sample of white noise in [-1,1), depending on the position alone. */
static float noise(uint64_t position) {
    uint64_t x = position * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return (float)(int32_t)(x >> 40) / (1 << 23) - 1;
}

static void play(void *data, struct spa_io_position *position) {
    struct probe *const p = data;
    const unsigned n = (unsigned)position->clock.duration;
    float *const to = pw_filter_get_dsp_buffer(p->out, n);
    for (unsigned i = 0; to && i < n; i++)
        to[i] = p->peak * noise(position->clock.position + i);
}

static void record(void *data, struct spa_io_position *position) {
    struct probe *const p = data;
    const unsigned n = (unsigned)position->clock.duration;
    if (!p->begun || position->clock.position < p->base) { /* another driver's clock: begin anew */
        p->begun = true;
        p->base = position->clock.position;
        atomic_store(&p->start, p->base);
        atomic_store(&p->length, 0);
    }
    const uint64_t at = position->clock.position - p->base;
    atomic_store(&p->rate, position->clock.rate.denom);
    for (unsigned which = 0; which < 2; which++) {
        const float *const from = pw_filter_get_dsp_buffer(p->in[which], n);
        if (from && at <= PROBE_LENGTH - n)
            memcpy(p->recorded[which] + at, from, n * sizeof *from);
        if (which == 1) {
            float loudest = atomic_load(&p->loudest);
            for (unsigned i = 0; from && i < n; i++)
                loudest = fmaxf(loudest, fabsf(from[i]));
            atomic_store(&p->loudest, loudest);
        }
    }
    if (at <= PROBE_LENGTH - n)
        atomic_store(&p->length, (unsigned)at + n);
    atomic_fetch_add(&p->samples, n);
    atomic_fetch_add(&p->cycles, 1);
}

static const struct pw_filter_events player_events = {PW_VERSION_FILTER_EVENTS, .process = play};
static const struct pw_filter_events recorder_events = {PW_VERSION_FILTER_EVENTS, .process = record};

static struct pw_filter *filter(struct probe *p, const char *name, const char *class,
        const struct pw_filter_events *events) {
    return pw_filter_new_simple(pw_thread_loop_get_loop(p->loop), name,
            pw_properties_new(PW_KEY_NODE_NAME, name, PW_KEY_MEDIA_CLASS, class, PW_KEY_NODE_AUTOCONNECT, "false",
                    PW_KEY_CONFIG_NAME, "client-rt.conf", NULL), events, p);
}

static void *port(struct pw_filter *f, enum pw_direction direction, const char *name) {
    return pw_filter_add_port(f, direction, PW_FILTER_PORT_FLAG_MAP_BUFFERS, sizeof(void *),
            pw_properties_new(PW_KEY_FORMAT_DSP, "32 bit float mono audio", PW_KEY_PORT_NAME, name, NULL), NULL, 0);
}

struct probe *probe_open(float peak) {
    pw_init(NULL, NULL);
    struct probe *const p = calloc(1, sizeof *p);
    for (unsigned which = 0; which < 2; which++) {
        p->recorded[which] = malloc(PROBE_LENGTH * sizeof(float));
        for (unsigned i = 0; i < PROBE_LENGTH; i++)
            p->recorded[which][i] = NAN;
    }
    p->peak = peak;
    p->loop = pw_thread_loop_new("probe", NULL);
    p->player = filter(p, "player", "Stream/Output/Audio", &player_events);
    p->recorder = filter(p, "recorder", "Stream/Input/Audio", &recorder_events);
    if (!p->player || !p->recorder) {
        probe_close(p);
        return NULL;
    }
    p->out = port(p->player, PW_DIRECTION_OUTPUT, "out");
    p->in[0] = port(p->recorder, PW_DIRECTION_INPUT, "first");
    p->in[1] = port(p->recorder, PW_DIRECTION_INPUT, "second");
    pw_filter_connect(p->player, PW_FILTER_FLAG_RT_PROCESS, NULL, 0);
    pw_filter_connect(p->recorder, PW_FILTER_FLAG_RT_PROCESS, NULL, 0);
    pw_thread_loop_start(p->loop);
    return p;
}

void probe_close(struct probe *p) {
    if (!p)
        return;
    pw_thread_loop_stop(p->loop);
    if (p->player)
        pw_filter_destroy(p->player);
    if (p->recorder)
        pw_filter_destroy(p->recorder);
    pw_thread_loop_destroy(p->loop);
    free(p->recorded[0]);
    free(p->recorded[1]);
    free(p);
    pw_deinit();
}

void probe_quantum(struct probe *p, unsigned quantum) {
    char text[16];
    snprintf(text, sizeof text, "%u", quantum);
    const struct spa_dict_item item = {PW_KEY_NODE_FORCE_QUANTUM, text};
    pw_thread_loop_lock(p->loop);
    pw_filter_update_properties(p->recorder, NULL, &SPA_DICT_INIT(&item, 1));
    pw_thread_loop_unlock(p->loop);
}

bool probe_link(const char *from, const char *to) {
    char command[256];
    snprintf(command, sizeof command, "pw-link %s %s 2> /dev/null", from, to);
    for (int i = 0; i < 100; i++) {
        if (system(command) == 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return false;
}

unsigned probe_length(const struct probe *p) {
    return atomic_load(&p->length);
}

const float *probe_recorded(const struct probe *p, unsigned which) {
    return p->recorded[which];
}

float probe_noise(const struct probe *p, int64_t index) {
    return p->peak * noise(atomic_load(&p->start) + (uint64_t)index);
}

uint64_t probe_cycles(const struct probe *p) {
    return atomic_load(&p->cycles);
}

uint64_t probe_samples(const struct probe *p) {
    return atomic_load(&p->samples);
}

unsigned probe_rate(const struct probe *p) {
    return atomic_load(&p->rate);
}

float probe_peak(struct probe *p) {
    return atomic_exchange(&p->loudest, 0);
}

int probe_delay(const struct probe *p, unsigned which, unsigned index, float factor, double *error_db) {
    const float *const y = p->recorded[which] + index;
    const uint64_t start = atomic_load(&p->start);
    for (int delay = 0; delay < 40000; delay++) {
        double error = 0, power = 0;
        unsigned i;
        for (i = 0; i < COMPARED; i++) {
            const double x = factor * p->peak * noise(start + index + i - (unsigned)delay);
            error += (y[i] - x) * (y[i] - x);
            power += x * x;
            if (!(i < 64 || error <= 1e-10 * power))
                break;
        }
        if (i == COMPARED) {
            if (error_db)
                *error_db = 10 * log10(error / power + 1e-30);
            return delay;
        }
    }
    return -1;
}
