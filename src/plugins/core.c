#include "plugins/core.h"

#include "lib/primeknet.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <speex/speex_resampler.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In samples at the models' rate, if nothing else is said. HOP and DELAY are those of the library's own models. */
enum {
    RATE = 48000,
    HOP = 256,
    DELAY = 768,
    RING = 1 << 15,        /* kept of input and output */
    CHUNK = 2048,          /* of the host's block, processed at once */
    MID = 6 * CHUNK + 16,  /* a chunk resampled, from 8 kHz at least */
    HISTORY = 56 * HOP,    /* that a new model hears before it is heard */
    SPARE = 4,             /* host's samples by which resamplers' counts may differ */
    QUALITY = 8,           /* of speexdsp's resampler, 0 to 10 */
    FADE = 480,            /* host's samples of a cross-fade to or from bypass */
    RATE_MIN = 8000, RATE_MAX = 384000,
};

static const char *const models[] = {"auto", "small", "base", "large"};
enum { N_MODELS = sizeof models / sizeof *models };

struct channel {
    float in[RING], out[RING];
    float *dry;             /* [dry_size] ring at the host's rate */
    float ready[2 * CHUNK + SPARE]; /* resampled output, host's rate */
    float mid[MID];
    SpeexResamplerState *to_model, *to_host;
};

struct core {
    unsigned n_channels, rate, delay, dry_size;
    struct channel *channels;
    size_t n_ready;
    size_t dry_at;
    float wet; /* share of the enhanced signal, 0 in bypass */

    pthread_t thread;
    sem_t work;
    atomic_bool quits;
    _Atomic float strength, floor_db, low_cut_hz;
    atomic_uint model;     /* wanted */
    _Atomic uint64_t n_in; /* samples that came in so far */

    pthread_mutex_t lock;   /* of what follows, but for reading n_out */
    _Atomic uint64_t n_out; /* samples computed so far */
    struct primeknet *handle, *next, *old; /* next takes over; old is to be closed */
    unsigned loaded;                       /* the model of the newest handle; N_MODELS: none */
    float set[3];                          /* controls of `handle` */
};

static float clamp(float x, float low, float high) {
    return x > low ? x < high ? x : high : low;
}

/* ---- computing, with the lock held ----------------------------------------------------------------------------- */

static void set_controls(struct core *c, struct primeknet *p) {
    for (unsigned i = 0; i < c->n_channels; i++)
        primeknet_control(p, i, c->set[0], c->set[1], c->set[2]);
}

static void update_controls(struct core *c) {
    const float floor_db = c->floor_db, now[3] = {c->strength, floor_db > -60 ? floor_db : -INFINITY, c->low_cut_hz};
    if (memcmp(now, c->set, sizeof now) == 0)
        return;
    memcpy(c->set, now, sizeof now);
    if (c->handle)
        set_controls(c, c->handle);
    if (c->next)
        set_controls(c, c->next);
}

/* Passes the input, with the delay of a handle. */
static void pass(struct core *c, size_t at) {
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < HOP; k++)
            c->channels[i].out[at + k] = c->channels[i].in[(at + k + RING - DELAY) % RING];
}

static void compute_hop(struct core *c) {
    const size_t at = c->n_out % RING;
    const float *in[CORE_CHANNELS];
    float *out[CORE_CHANNELS], fresh[CORE_CHANNELS][HOP];
    for (unsigned i = 0; i < c->n_channels; i++) {
        in[i] = c->channels[i].in + at;
        out[i] = c->channels[i].out + at;
    }
    update_controls(c);
    if (!c->handle || primeknet_process(c->handle, in, out, HOP) < 0)
        pass(c, at);
    if (c->next) {
        float *to[CORE_CHANNELS] = {fresh[0], fresh[1]};
        primeknet_process(c->next, in, to, HOP);
        for (unsigned i = 0; i < c->n_channels; i++)
            for (unsigned k = 0; k < HOP; k++)
                out[i][k] += (fresh[i][k] - out[i][k]) * (float)(k + 1) / HOP;
        c->old = c->handle;
        c->handle = c->next;
        c->next = NULL;
    }
    c->n_out += HOP;
}

/* ---- the core's own thread ------------------------------------------------------------------------------------- */

static struct primeknet *load(const struct core *c, unsigned model) {
    char error[PRIMEKNET_ERROR];
    struct primeknet *p = primeknet_open(models[model], "cpu", c->n_channels, HOP, error);
    if (p && (primeknet_rate(p) != RATE || primeknet_hop(p) != HOP || primeknet_delay(p) != DELAY)) {
        snprintf(error, sizeof error, "%s: the plugins take models at %d Hz with hops of %d samples", models[model],
                 RATE, HOP);
        primeknet_close(p);
        p = NULL;
    }
    if (!p)
        fprintf(stderr, "primeknet: %s\n", error);
    return p;
}

/* Copies the input from `from` to what is computed, with the lock held. */
static size_t copy_history(const struct core *c, uint64_t from, float *to[]) {
    const size_t n = c->n_out - from;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (size_t k = 0; k < n; k++)
            to[i][k] = c->channels[i].in[(from + k) % RING];
    return n;
}

/* Lets p hear what came last, until it is as far as the present handle, and hands it over. */
static void hand_over(struct core *c, struct primeknet *p, float *history[]) {
    pthread_mutex_lock(&c->lock);
    set_controls(c, p);
    uint64_t heard = c->n_out > HISTORY ? c->n_out - HISTORY : 0;
    size_t n;
    while ((n = copy_history(c, heard, history)) > 2 * HOP) {
        pthread_mutex_unlock(&c->lock);
        primeknet_process(p, (const float *const *)history, history, n);
        heard += n;
        pthread_mutex_lock(&c->lock);
        if (c->n_out - heard > HISTORY)
            heard = c->n_out - HISTORY;
    }
    primeknet_process(p, (const float *const *)history, history, n);
    c->next = p;
    pthread_mutex_unlock(&c->lock);
}

static void change_model(struct core *c, unsigned model) {
    float *history[CORE_CHANNELS] = {malloc(HISTORY * sizeof(float)), malloc(HISTORY * sizeof(float))};
    struct primeknet *p = history[0] && history[1] ? load(c, model) : NULL;
    if (p)
        hand_over(c, p, history);
    free(history[0]);
    free(history[1]);
}

static void *run(void *data) {
    struct core *c = data;
    for (;;) {
        sem_wait(&c->work);
        if (c->quits)
            return NULL;
        bool more = true;
        while (more) {
            pthread_mutex_lock(&c->lock);
            if (c->n_in - c->n_out >= HOP)
                compute_hop(c);
            more = c->n_in - c->n_out >= HOP;
            struct primeknet *old = c->old;
            c->old = NULL;
            const unsigned model = c->model;
            const bool changes = model != c->loaded && !c->next;
            if (changes)
                c->loaded = model; /* not tried again where it fails */
            pthread_mutex_unlock(&c->lock);
            primeknet_close(old);
            if (changes)
                change_model(c, model);
        }
    }
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

/* The delay of both resamplers, samples at the host's rate. */
static double resamplers_delay(const struct core *c) {
    const struct channel *h = c->channels;
    return h->to_model ? speex_resampler_get_input_latency(h->to_model) +
                             speex_resampler_get_input_latency(h->to_host) * (double)c->rate / RATE + SPARE
                       : 0;
}

static bool open_channel(struct core *c, struct channel *h) {
    int code = 0, other = 0;
    if (c->rate != RATE) {
        h->to_model = speex_resampler_init(1, c->rate, RATE, QUALITY, &code);
        h->to_host = speex_resampler_init(1, RATE, c->rate, QUALITY, &other);
        if (!h->to_model || !h->to_host)
            return false;
    }
    c->delay = (unsigned)lround((DELAY + HOP) * (double)c->rate / RATE + resamplers_delay(c));
    c->dry_size = c->delay + CHUNK;
    h->dry = calloc(c->dry_size, sizeof *h->dry);
    return h->dry;
}

static bool open_lock(struct core *c) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    const int code = pthread_mutex_init(&c->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return code == 0;
}

static void free_channels(struct core *c) {
    for (unsigned i = 0; c->channels && i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        free(h->dry);
        if (h->to_model)
            speex_resampler_destroy(h->to_model);
        if (h->to_host)
            speex_resampler_destroy(h->to_host);
    }
    free(c->channels);
    free(c);
}

struct core *core_open(unsigned n_channels, double rate) {
    struct core *c = rate >= RATE_MIN && rate <= RATE_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->n_channels = n_channels;
    c->rate = (unsigned)lround(rate);
    c->loaded = N_MODELS;
    c->channels = calloc(n_channels, sizeof *c->channels);
    bool ok = c->channels;
    for (unsigned i = 0; ok && i < n_channels; i++)
        ok = open_channel(c, &c->channels[i]);
    if (!ok || !open_lock(c)) {
        free_channels(c);
        return NULL;
    }
    sem_init(&c->work, 0, 0);
    if (pthread_create(&c->thread, NULL, run, c) != 0) {
        sem_destroy(&c->work);
        pthread_mutex_destroy(&c->lock);
        free_channels(c);
        return NULL;
    }
    return c;
}

void core_close(struct core *c) {
    c->quits = true;
    sem_post(&c->work);
    pthread_join(c->thread, NULL);
    primeknet_close(c->handle);
    primeknet_close(c->next);
    primeknet_close(c->old);
    sem_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free_channels(c);
}

static void take_controls(struct core *c, const struct core_controls *controls) {
    c->strength = clamp(controls->strength, 0, 1);
    c->floor_db = clamp(controls->floor_db, -60, 0);
    c->low_cut_hz = clamp(controls->low_cut_hz, 0, 280);
    c->model = (unsigned)lroundf(clamp(controls->model, 0, N_MODELS - 1));
}

void core_activate(struct core *c, const struct core_controls *controls) {
    take_controls(c, controls);
    pthread_mutex_lock(&c->lock);
    if (c->loaded != c->model) {
        primeknet_close(c->next);
        primeknet_close(c->handle);
        c->next = NULL;
        c->loaded = c->model;
        c->handle = load(c, c->loaded);
        memset(c->set, 0xff, sizeof c->set); /* not numbers: they are set with the next hop */
    }
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (c->handle)
            primeknet_reset(c->handle, i);
        memset(h->in, 0, sizeof h->in);
        memset(h->out, 0, sizeof h->out);
        memset(h->dry, 0, c->dry_size * sizeof *h->dry);
        memset(h->ready, 0, sizeof h->ready);
        if (h->to_model) {
            speex_resampler_reset_mem(h->to_model);
            speex_resampler_reset_mem(h->to_host);
        }
    }
    c->n_ready = c->rate != RATE ? SPARE : 0;
    c->n_in = c->n_out = 0;
    c->wet = controls->bypass ? 0 : 1;
    pthread_mutex_unlock(&c->lock);
}

/* ---- the host's thread ----------------------------------------------------------------------------------------- */

/* n samples of each channel's `mid` in, and n in their place that are a hop and a handle's delay older. */
static void exchange(struct core *c, unsigned n) {
    const uint64_t before = c->n_in, now = before + n;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < n; k++)
            c->channels[i].in[(before + k) % RING] = c->channels[i].mid[k];
    c->n_in = now;
    if (c->n_out + HOP < now) { /* what is due; the rest is the other thread's */
        pthread_mutex_lock(&c->lock);
        while (c->n_out + HOP < now)
            compute_hop(c);
        pthread_mutex_unlock(&c->lock);
    }
    if (now / HOP > before / HOP)
        sem_post(&c->work);
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < n; k++)
            c->channels[i].mid[k] = before + k < HOP ? 0 : c->channels[i].out[(before + k - HOP) % RING];
}

static unsigned resample(SpeexResamplerState *s, const float *in, unsigned n, float *out, unsigned room) {
    speex_resampler_process_float(s, 0, in, &n, out, &room);
    return room;
}

/* One chunk: the enhanced signal to each channel's `ready`. */
static void enhance(struct core *c, const float *const in[], unsigned n) {
    unsigned n_mid = n, n_more = n;
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (h->to_model)
            n_mid = resample(h->to_model, in[i], n, h->mid, MID);
        else
            memcpy(h->mid, in[i], n * sizeof *h->mid);
    }
    exchange(c, n_mid);
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (h->to_host)
            n_more = resample(h->to_host, h->mid, n_mid, h->ready + c->n_ready, CHUNK + SPARE);
        else
            memcpy(h->ready + c->n_ready, h->mid, n * sizeof *h->mid);
    }
    c->n_ready += n_more;
}

/* Between the enhanced and the delayed signal. */
static void give(struct core *c, const float *const in[], float *const out[], unsigned n, bool bypass) {
    const float step = (bypass ? -1.f : 1.f) / FADE, begin = c->wet;
    const size_t at = c->dry_at;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < n; k++)
            c->channels[i].dry[(at + k) % c->dry_size] = in[i][k];
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        float wet = begin;
        for (unsigned k = 0; k < n; k++) {
            const float dry = h->dry[(at + k + c->dry_size - c->delay) % c->dry_size];
            out[i][k] = wet == 1 ? h->ready[k] : wet == 0 ? dry : dry + wet * (h->ready[k] - dry);
            c->wet = wet = clamp(wet + step, 0, 1);
        }
        memmove(h->ready, h->ready + n, (c->n_ready - n) * sizeof *h->ready);
    }
    c->n_ready -= n;
    c->dry_at = (at + n) % c->dry_size;
}

/* Some hosts set their controls only after they have activated the plugin. */
static bool begins_with_another_model(struct core *c) {
    if (c->n_in)
        return false;
    pthread_mutex_lock(&c->lock);
    const bool other = c->loaded != c->model;
    pthread_mutex_unlock(&c->lock);
    return other && sched_getscheduler(0) == SCHED_OTHER;
}

void core_run(struct core *c, const struct core_controls *controls, const float *const in[], float *const out[],
              unsigned n) {
    take_controls(c, controls);
    if (begins_with_another_model(c))
        core_activate(c, controls);
    for (unsigned done = 0, now; done < n; done += now) {
        const float *from[CORE_CHANNELS];
        float *to[CORE_CHANNELS];
        now = n - done < CHUNK ? n - done : CHUNK;
        for (unsigned i = 0; i < c->n_channels; i++) {
            from[i] = in[i] + done;
            to[i] = out[i] + done;
        }
        enhance(c, from, now);
        give(c, from, to, now, controls->bypass);
    }
}

unsigned core_delay(const struct core *c) {
    return c->delay;
}
