#include "config.h"

#include "probe.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's macros and inline functions use GNU C */
#include <pipewire/pipewire.h>
#include <pipewire/filter.h>

#define COMPARED 1024 /* samples */

struct probe {
    struct pw_thread_loop *loop;
    struct pw_filter *player, *recorder;
    void *out, *in[2];
    float peak;
    void (*cycle)(unsigned n, unsigned rate);
    float *recorded[2];  /* [PROBE_LENGTH], a ring by the index */
    uint64_t next;       /* the player's */
    _Atomic bool missed; /* the player has missed a cycle */
    /* the recorder's data thread */
    bool begun;
    uint32_t driver;
    uint64_t base;
    _Atomic uint64_t start; /* = base, for the player */
    _Atomic unsigned length, whole, rate;
    _Atomic uint64_t samples;
    _Atomic float loudest;
};

/* Returns a sample of white noise in [-1,1) that depends only on the position. */
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
    if (position->clock.position != p->next)
        atomic_store(&p->missed, true);
    p->next = position->clock.position + n;
    for (unsigned i = 0; to && i < n; i++)
        to[i] = p->peak * noise(position->clock.position + i);
}

static void keep(struct probe *p, unsigned which, unsigned index, const float *from, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        p->recorded[which][(index + i) % PROBE_LENGTH] = from ? from[i] : NAN;
}

static void record(void *data, struct spa_io_position *position) {
    struct probe *const p = data;
    const unsigned n = (unsigned)position->clock.duration;
    if (!p->begun || position->clock.id != p->driver) { /* another driver's clock: start again */
        p->begun = true;
        p->driver = position->clock.id;
        p->base = position->clock.position;
        atomic_store(&p->start, p->base);
        atomic_store(&p->length, 0);
        atomic_store(&p->whole, 0);
    }
    const unsigned at = (unsigned)(position->clock.position - p->base), length = atomic_load(&p->length);
    const unsigned n_new = at > length ? at - length : 0, n_missed = n_new < PROBE_LENGTH ? n_new : PROBE_LENGTH;
    atomic_store(&p->rate, position->clock.rate.denom);
    for (unsigned which = 0; which < 2; which++) {
        const float *const from = pw_filter_get_dsp_buffer(p->in[which], n);
        keep(p, which, at - n_missed, NULL, n_missed);
        keep(p, which, at, from, n);
        if (which == 1) {
            float loudest = atomic_load(&p->loudest);
            for (unsigned i = 0; from && i < n; i++)
                loudest = fmaxf(loudest, fabsf(from[i]));
            atomic_store(&p->loudest, loudest);
        }
    }
    const bool missed = atomic_exchange(&p->missed, false) || at != length;
    atomic_store(&p->whole, missed ? n : atomic_load(&p->whole) + n);
    atomic_store(&p->length, at + n);
    atomic_fetch_add(&p->samples, n);
    if (p->cycle)
        p->cycle(n, position->clock.rate.denom);
}

static const struct pw_filter_events player_events = {PW_VERSION_FILTER_EVENTS, .process = play};
static const struct pw_filter_events recorder_events = {PW_VERSION_FILTER_EVENTS, .process = record};

static struct pw_filter *filter(struct probe *p, const char *name, const char *class,
                                const struct pw_filter_events *events) {
    return pw_filter_new_simple(pw_thread_loop_get_loop(p->loop), name,
                                pw_properties_new(PW_KEY_NODE_NAME, name, PW_KEY_MEDIA_CLASS, class,
                                                  PW_KEY_NODE_AUTOCONNECT, "false", PW_KEY_CONFIG_NAME,
                                                  "client-rt.conf", NULL),
                                events, p);
}

static void *port(struct pw_filter *f, enum pw_direction direction, const char *name) {
    return pw_filter_add_port(
        f, direction, PW_FILTER_PORT_FLAG_MAP_BUFFERS, sizeof(void *),
        pw_properties_new(PW_KEY_FORMAT_DSP, "32 bit float mono audio", PW_KEY_PORT_NAME, name, NULL), NULL, 0);
}

struct probe *probe_open(float peak, void (*cycle)(unsigned n, unsigned rate)) {
    pw_init(NULL, NULL);
    struct probe *const p = calloc(1, sizeof *p);
    for (unsigned which = 0; which < 2; which++) {
        p->recorded[which] = malloc(PROBE_LENGTH * sizeof(float));
        keep(p, which, 0, NULL, PROBE_LENGTH);
    }
    p->peak = peak;
    p->cycle = cycle;
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
    port(p->recorder, PW_DIRECTION_INPUT, "after");
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

unsigned probe_length(const struct probe *p) {
    return atomic_load(&p->length);
}

unsigned probe_whole(const struct probe *p) {
    return atomic_load(&p->whole);
}

float probe_recorded(const struct probe *p, unsigned which, unsigned index) {
    return p->recorded[which][index % PROBE_LENGTH];
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
    const uint64_t start = atomic_load(&p->start);
    for (int delay = 0; delay < 40000; delay++) {
        double error = 0, power = 0;
        unsigned i;
        for (i = 0; i < COMPARED; i++) {
            const double x = factor * p->peak * noise(start + index + i - (unsigned)delay);
            const double y = probe_recorded(p, which, index + i);
            error += (y - x) * (y - x);
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
