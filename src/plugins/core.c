#include "plugins/core.h"

#include "lib/primeknet.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <speex/speex_resampler.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In samples at the models' rate, unless stated otherwise. A handle's delay is its model's synthesis window less a hop,
 * and computing a hop takes up to one hop more. So DELAY, the synthesis window of the shipped models, is the delay of
 * each of them, whatever its hop. */
enum {
    RATE = 48000,
    DELAY = 1024,
    STEP = 256,           /* the hop without a model, and the interval at which the core's thread looks for work */
    RING = 1 << 15,       /* samples of input and output to keep */
    CHUNK = 2048,         /* samples of the host's block processed at once */
    HISTORY = 14 * DELAY, /* input that a new model receives before it sounds */
    QUALITY = 8,          /* the quality of speexdsp's resampler, 0 to 10 */
    FADE = 480,           /* length of the cross-fade to or from bypass, at the host's rate */
    RATE_MIN = 8000,
    RATE_MAX = 384000,
};

static const char *const models[CORE_MODELS] = {"auto", "small", "base", "large"};

struct channel {
    float in[RING], out[RING];
    float *dry;   /* [dry_size] ring at the host's rate */
    float *mid;   /* [mid_size] a chunk at the models' rate */
    float *ready; /* [ready_size] pending output at the host's rate */
    SpeexResamplerState *to_model, *to_host;
};

enum state { SETTLED, LOADING, READY, ABANDONED, ORPHANED }; /* core.h has the table */

struct core {
    unsigned n_channels, rate, delay, dry_size, mid_size, ready_size;
    struct channel *channels;
    size_t n_ready;
    size_t dry_at;
    float wet; /* share of the enhanced signal, 0 in bypass */

    pthread_t thread;
    sem_t work;
    atomic_bool quits;
    _Atomic float strength, floor_db, low_cut_hz;
    _Atomic float level_target; /* LUFS; 0: off */
    atomic_uint wanted;         /* a model */
    _Atomic uint64_t n_in;      /* input samples so far */

    pthread_mutex_t lock;   /* protects what follows; n_out and present may be read without it */
    _Atomic uint64_t n_out; /* the output is complete up to here: a multiple of the current hop */
    enum state state;
    struct primeknet *handle, *next, *old; /* the current one; in READY the next; one to close */
    atomic_uint present;                   /* the model for which `handle` was opened; CORE_MODELS: none yet */
    unsigned coming;                       /* in LOADING and READY: the model of the next one */
    uint64_t heard;                        /* next has processed the input up to here */
    struct primeknet_controls set;         /* controls of the handles */
};

static float clamp(float x, float low, float high) {
    return x > low ? x < high ? x : high : low;
}

/* ---- computing, with the lock held ----------------------------------------------------------------------------- */

static void set_controls(struct core *c, struct primeknet *p) {
    for (unsigned i = 0; i < c->n_channels; i++)
        primeknet_set_controls(p, i, &c->set);
}

static void update_controls(struct core *c) {
    const float floor_db = c->floor_db;
    const struct primeknet_controls now = {sizeof now, c->strength, floor_db > CORE_FLOOR_MIN_DB ? floor_db : -INFINITY,
                                           c->low_cut_hz, c->level_target};
    if (memcmp(&now, &c->set, sizeof now) == 0)
        return;
    c->set = now;
    if (c->handle)
        set_controls(c, c->handle);
    if (c->next)
        set_controls(c, c->next);
}

static unsigned hop_of(const struct primeknet *p) {
    return p ? primeknet_get_hop(p) : STEP;
}

/* Computes a handle's hop: from the input that ends at `at` to the output that begins there. Without a handle, outputs
 * the delayed input.
 */
static void compute(const struct core *c, struct primeknet *p, uint64_t at, float *const out[]) {
    const unsigned hop = hop_of(p);
    const float *in[CORE_CHANNELS];
    for (unsigned i = 0; i < c->n_channels; i++)
        in[i] = c->channels[i].in + (at - hop) % RING;
    if (p && primeknet_process(p, in, out, hop) == 0)
        return;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < hop; k++)
            out[i][k] = c->channels[i].in[(at + k + RING - DELAY) % RING];
}

/* Where a hop of the new handle ends together with one of the old handle, fades it in over the length of the shorter
 * one, and makes it current. */
static void take_over(struct core *c, float *const out[]) {
    float fresh[CORE_CHANNELS][DELAY];
    const unsigned hop = hop_of(c->next), fade = hop_of(c->handle) < hop ? hop_of(c->handle) : hop;
    for (; c->heard + hop <= c->n_out; c->heard += hop)
        compute(c, c->next, c->heard + hop, (float *[]){fresh[0], fresh[1]});
    if (c->heard < c->n_out)
        return;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < hop; k++)
            out[i][k] = k < fade ? out[i][k] + (fresh[i][k] - out[i][k]) * (float)(k + 1) / (float)fade : fresh[i][k];
    c->old = c->handle;
    c->handle = c->next;
    c->next = NULL;
    c->present = c->coming;
    c->state = SETTLED;
}

static void compute_hop(struct core *c) {
    float *out[CORE_CHANNELS];
    for (unsigned i = 0; i < c->n_channels; i++)
        out[i] = c->channels[i].out + c->n_out % RING;
    update_controls(c);
    compute(c, c->handle, c->n_out, out);
    if (c->state == READY)
        take_over(c, out);
    c->n_out += hop_of(c->handle);
}

/* ---- the core's own thread ------------------------------------------------------------------------------------- */

static struct primeknet *open_model(const struct core *c, const char *model, char error[PRIMEKNET_ERROR]) {
    const struct primeknet_options options = {
        .size = sizeof options, .engine = "cpu", .block = DELAY, .n_channels = c->n_channels};
    struct primeknet *p;
    if (primeknet_open(&p, model, &options, error) == 0 &&
        (primeknet_get_rate(p) != RATE || DELAY % primeknet_get_hop(p) ||
         primeknet_get_delay(p) + primeknet_get_hop(p) != DELAY)) {
        snprintf(error, PRIMEKNET_ERROR, "%s: the plugins take models at %d Hz with windows of %d samples", model, RATE,
                 DELAY);
        primeknet_close(p);
        p = NULL;
    }
    return p;
}

/* Opens the wanted model or, if it cannot be used, the first one that can. */
static struct primeknet *load(const struct core *c, unsigned model) {
    static const char *const others[] = {"base", "small", "large"};
    char error[PRIMEKNET_ERROR], ignored[PRIMEKNET_ERROR];
    struct primeknet *p = open_model(c, models[model], error);
    const bool wanted = p;
    for (unsigned i = 0; !p && i < sizeof others / sizeof *others; i++)
        p = open_model(c, others[i], ignored);
    if (!wanted)
        fprintf(stderr, "primeknet: %s; the plugin runs %s\n", error,
                p ? primeknet_get_description(p) : "without a model");
    return p;
}

/* Returns the end of the input that the current handle has processed, rounded down to whole hops of p. With the lock
 * held. */
static uint64_t heard_so_far(const struct core *c, const struct primeknet *p) {
    return (c->n_out - hop_of(c->handle)) / hop_of(p) * hop_of(p);
}

/* Copies the input between two positions, with the lock held. */
static size_t copy_history(const struct core *c, uint64_t from, uint64_t end, float *to[]) {
    const size_t n = end - from;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (size_t k = 0; k < n; k++)
            to[i][k] = c->channels[i].in[(from + k) % RING];
    return n;
}

/* Whether the model that the thread loads should still take over. With the lock held. */
static bool is_awaited(const struct core *c) {
    return c->state == LOADING && c->coming == c->wanted;
}

/* Feeds p the latest input until it has caught up with the current handle. Returns false if p is no longer wanted.
 * Called with the lock held, which it releases for most of the time. */
static bool hear(struct core *c, struct primeknet *p, float *history[]) {
    const unsigned hop = hop_of(p);
    set_controls(c, p);
    uint64_t end = heard_so_far(c, p), heard = end > HISTORY ? end - HISTORY : 0;
    while (end - heard > 2 * hop) {
        const size_t n = copy_history(c, heard, end, history);
        pthread_mutex_unlock(&c->lock);
        primeknet_process(p, (const float *const *)history, history, n);
        pthread_mutex_lock(&c->lock);
        if (!is_awaited(c))
            return false;
        heard = end;
        end = heard_so_far(c, p);
        if (end - heard > HISTORY)
            heard = end - HISTORY;
    }
    primeknet_process(p, (const float *const *)history, history, copy_history(c, heard, end, history));
    set_controls(c, p); /* they may have changed meanwhile */
    c->heard = end;
    return true;
}

/* To READY or SETTLED. If no model could be opened, the current one counts as the wanted one, so that it is not tried
 * again. */
static void end_loading(struct core *c, struct primeknet *p, bool awaited) {
    if (awaited && p) {
        c->next = p;
        c->state = READY;
        return;
    }
    if (awaited)
        c->present = c->coming;
    if (c->state != ORPHANED)
        c->state = SETTLED;
    c->old = p;
}

static void change_model(struct core *c) {
    float *history[CORE_CHANNELS] = {malloc(HISTORY * sizeof(float)), malloc(HISTORY * sizeof(float))};
    struct primeknet *p = history[0] && history[1] ? load(c, c->coming) : NULL;
    pthread_mutex_lock(&c->lock);
    end_loading(c, p, is_awaited(c) && (!p || hear(c, p, history)));
    pthread_mutex_unlock(&c->lock);
    free(history[0]);
    free(history[1]);
}

static void core_free(struct core *c);

static void *run(void *data) {
    struct core *c = data;
    sem_wait(&c->work);
    while (!c->quits) {
        pthread_mutex_lock(&c->lock);
        if (c->n_in >= c->n_out)
            compute_hop(c);
        const bool more = c->n_in >= c->n_out, changes = c->state == SETTLED && c->wanted != c->present;
        struct primeknet *old = c->old;
        c->old = NULL;
        if (changes) {
            c->state = LOADING;
            c->coming = c->wanted;
        }
        pthread_mutex_unlock(&c->lock);
        primeknet_close(old);
        if (changes)
            change_model(c);
        else if (!more)
            sem_wait(&c->work);
    }
    pthread_mutex_lock(&c->lock);
    const bool orphaned = c->state == ORPHANED;
    pthread_mutex_unlock(&c->lock);
    if (orphaned)
        core_free(c);
    return NULL;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

/* Returns the delay of both resamplers, in samples at the host's rate. */
static double resamplers_delay(const struct core *c) {
    const struct channel *h = c->channels;
    return h->to_model ? speex_resampler_get_input_latency(h->to_model) +
                             speex_resampler_get_input_latency(h->to_host) * (double)c->rate / RATE
                       : 0;
}

static unsigned divided_up(unsigned a, unsigned b) {
    return (a + b - 1) / b;
}

/* From n samples, speexdsp's resampler makes n * out / in, rounded up. So resampling to the models' rate and back
 * returns at least as many samples as arrived, and at most one sample of the models' rate more; these wait in `ready`.
 * A resampler whose output is full may leave input behind, so the buffers have room for one more sample than it
 * returns. */
static void set_sizes(struct core *c) {
    c->delay = (unsigned)lround(DELAY * (double)c->rate / RATE + resamplers_delay(c));
    c->dry_size = c->delay + CHUNK;
    c->mid_size = divided_up(CHUNK * RATE, c->rate) + 1;
    c->ready_size = CHUNK + divided_up(c->rate, RATE) + 1;
}

static bool open_channel(struct core *c, struct channel *h) {
    int code = 0, other = 0;
    if (c->rate != RATE) {
        h->to_model = speex_resampler_init(1, c->rate, RATE, QUALITY, &code);
        h->to_host = speex_resampler_init(1, RATE, c->rate, QUALITY, &other);
        if (!h->to_model || !h->to_host)
            return false;
    }
    set_sizes(c);
    h->dry = calloc(c->dry_size, sizeof *h->dry);
    h->mid = calloc(c->mid_size, sizeof *h->mid);
    h->ready = calloc(c->ready_size, sizeof *h->ready);
    return h->dry && h->mid && h->ready;
}

static bool open_lock(struct core *c) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    const int code = pthread_mutex_init(&c->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return code == 0;
}

static void core_free(struct core *c) {
    for (unsigned i = 0; c->channels && i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        free(h->dry);
        free(h->mid);
        free(h->ready);
        if (h->to_model)
            speex_resampler_destroy(h->to_model);
        if (h->to_host)
            speex_resampler_destroy(h->to_host);
    }
    free(c->channels);
    primeknet_close(c->handle);
    primeknet_close(c->next);
    primeknet_close(c->old);
    sem_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Blocks all signals: the host's own threads handle them. */
static bool start_thread(struct core *c) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

struct core *core_open(unsigned n_channels, double rate) {
    struct core *c = rate >= RATE_MIN && rate <= RATE_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || !open_lock(c)) {
        free(c);
        return NULL;
    }
    sem_init(&c->work, 0, 0);
    c->n_channels = n_channels;
    c->rate = (unsigned)lround(rate);
    c->present = CORE_MODELS;
    c->n_out = STEP;
    c->channels = calloc(n_channels, sizeof *c->channels);
    bool ok = c->channels;
    for (unsigned i = 0; ok && i < n_channels; i++)
        ok = open_channel(c, &c->channels[i]);
    if (!ok || !start_thread(c)) {
        core_free(c);
        return NULL;
    }
    return c;
}

/* Loading may take long, seconds if `auto` is measured: the host does not wait for it. */
void core_close(struct core *c) {
    pthread_mutex_lock(&c->lock);
    const bool loads = c->state == LOADING || c->state == ABANDONED;
    if (loads) {
        c->state = ORPHANED;
        pthread_detach(c->thread);
    }
    c->quits = true;
    sem_post(&c->work);
    const pthread_t thread = c->thread;
    pthread_mutex_unlock(&c->lock); /* from here on an orphan may be gone */
    if (loads)
        return;
    pthread_join(thread, NULL);
    core_free(c);
}

static unsigned model_of(const struct core_controls *controls) {
    return (unsigned)lroundf(clamp(controls->model, 0, CORE_MODELS - 1));
}

static void take_controls(struct core *c, const struct core_controls *controls) {
    c->strength = clamp(controls->strength, 0, 1);
    c->floor_db = clamp(controls->floor_db, CORE_FLOOR_MIN_DB, 0);
    c->low_cut_hz = clamp(controls->low_cut_hz, 0, CORE_LOW_CUT_MAX_HZ);
    c->level_target = controls->levels ? clamp(controls->target, PRIMEKNET_LEVEL_TARGET_MIN, PRIMEKNET_LEVEL_TARGET_MAX)
                                       : 0;
    c->wanted = model_of(controls);
}

/* Makes the wanted model the current one. With the lock held. */
static void settle(struct core *c) {
    if (c->state == READY && c->coming == c->wanted) {
        primeknet_close(c->handle);
        c->handle = c->next;
    } else {
        primeknet_close(c->next);
        if (c->present != c->wanted) {
            primeknet_close(c->handle);
            c->handle = load(c, c->wanted);
        }
    }
    c->next = NULL;
    c->present = c->wanted;
    c->state = c->state == LOADING || c->state == ABANDONED ? ABANDONED : SETTLED;
}

void core_activate(struct core *c, const struct core_controls *controls) {
    pthread_mutex_lock(&c->lock);
    take_controls(c, controls); /* with the lock held, or the thread would start to load the same model */
    settle(c);
    c->set.size = 0; /* they are set */
    update_controls(c);
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (c->handle)
            primeknet_reset(c->handle, i);
        memset(h->in, 0, sizeof h->in);
        memset(h->out, 0, sizeof h->out);
        memset(h->dry, 0, c->dry_size * sizeof *h->dry);
        if (h->to_model) {
            speex_resampler_reset_mem(h->to_model);
            speex_resampler_reset_mem(h->to_host);
        }
    }
    c->n_ready = 0;
    c->n_in = 0;
    c->n_out = hop_of(c->handle);
    c->wet = controls->bypass ? 0 : 1;
    pthread_mutex_unlock(&c->lock);
}

/* ---- the host's thread ----------------------------------------------------------------------------------------- */

/* Takes n samples from each channel's `mid`, and replaces them by the output, which is DELAY older. */
static void exchange(struct core *c, unsigned n) {
    const uint64_t before = c->n_in, now = before + n;
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < n; k++)
            c->channels[i].in[(before + k) % RING] = c->channels[i].mid[k];
    c->n_in = now;
    if (c->n_out < now) { /* only what is due; the other thread computes the rest */
        pthread_mutex_lock(&c->lock);
        while (c->n_out < now)
            compute_hop(c);
        pthread_mutex_unlock(&c->lock);
    }
    if (now / STEP > before / STEP)
        sem_post(&c->work);
    for (unsigned i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < n; k++)
            c->channels[i].mid[k] = c->channels[i].out[(before + k) % RING];
}

static unsigned resample(SpeexResamplerState *s, const float *in, unsigned n, float *out, unsigned room) {
    speex_resampler_process_float(s, 0, in, &n, out, &room);
    return room;
}

/* Enhances one chunk, and appends the result to each channel's `ready`. */
static void enhance(struct core *c, const float *const in[], unsigned n) {
    unsigned n_mid = n, n_more = n;
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (h->to_model)
            n_mid = resample(h->to_model, in[i], n, h->mid, c->mid_size);
        else
            memcpy(h->mid, in[i], n * sizeof *h->mid);
    }
    exchange(c, n_mid);
    for (unsigned i = 0; i < c->n_channels; i++) {
        struct channel *h = &c->channels[i];
        if (h->to_host)
            n_more = resample(h->to_host, h->mid, n_mid, h->ready + c->n_ready, c->ready_size - (unsigned)c->n_ready);
        else
            memcpy(h->ready + c->n_ready, h->mid, n * sizeof *h->mid);
    }
    c->n_ready += n_more;
}

/* Cross-fades between the enhanced and the delayed signal. */
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

/* Some hosts set the controls only after activating the plugin. */
static bool begins_with_another_model(const struct core *c, const struct core_controls *controls) {
    return !c->n_in && c->present != model_of(controls) && sched_getscheduler(0) == SCHED_OTHER;
}

void core_run(struct core *c, const struct core_controls *controls, const float *const in[], float *const out[],
              unsigned n) {
    if (begins_with_another_model(c, controls))
        core_activate(c, controls);
    else
        take_controls(c, controls);
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
