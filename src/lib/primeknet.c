#include "lib/primeknet.h"

#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/level.h"
#include "engine/voice.h"
#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 1024, MOST_BLOCK = 1 << 20 };

/* What handles of one model share. */
struct shared {
    atomic_uint n_handles;
    struct model *model;
};

struct stream {
    float *waiting; /* [room] input, less than a hop between calls */
    float *ready;   /* [room + hop] output */
    size_t n_waiting, n_ready;
    size_t n_done, n_taken; /* samples of the present call: all, of this round */
    struct voice voice;
    _Atomic float probability; /* = voice.probability */
    atomic_uint sound;         /* the first stream of the sound that it is a channel of ... */
    struct level level;        /* ... whose level is that sound's */
};

struct primeknet {
    struct shared *shared;
    struct engine *engine;
    unsigned grain; /* every call's samples are a multiple of it */
    size_t room;    /* samples: whole hops that are computed together */
    struct stream *streams;
    struct engine_job *jobs; /* [n_streams] */
    struct level_channel *channels; /* [n_streams] */
    bool lost;
    char about[128];
};

static unsigned greatest_common_divisor(unsigned a, unsigned b) {
    while (b) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int check(const char *model, const char *engine, unsigned n_streams, unsigned block, struct err *err) {
    if (!model)
        return err_set(err, -EINVAL, "model: no name is given");
    if (!engine)
        return err_set(err, -EINVAL, "engine: no name is given");
    if (n_streams < 1 || n_streams > MOST_STREAMS)
        return err_set(err, -EINVAL, "n_streams: %u is not from 1 to %d", n_streams, MOST_STREAMS);
    if (block < 1 || block > MOST_BLOCK)
        return err_set(err, -EINVAL, "block: %u is not from 1 to %d", block, MOST_BLOCK);
    return 0;
}

static void clear(struct primeknet *p, struct stream *s) {
    s->n_waiting = 0;
    s->n_ready = engine_hop(p->engine) - p->grain;
    memset(s->ready, 0, s->n_ready * sizeof *s->ready);
    voice_restart(&s->voice);
    atomic_store_explicit(&s->probability, s->voice.probability, memory_order_relaxed);
    level_restart(&s->level);
    p->channels[s - p->streams] = (struct level_channel){0};
}

/* Takes the engine over; the handle counts as a user of the model only once it is there. */
static struct primeknet *make(struct shared *shared, struct engine *engine, unsigned block) {
    const unsigned hop = engine_hop(engine), n_streams = engine_streams(engine);
    struct primeknet *p = calloc(1, sizeof *p);
    if (!p) {
        engine_close(engine);
        return NULL;
    }
    p->engine = engine;
    p->grain = greatest_common_divisor(block, hop);
    p->room = block > hop ? block / hop * hop : hop;
    p->jobs = calloc(n_streams, sizeof *p->jobs);
    p->streams = calloc(n_streams, sizeof *p->streams);
    p->channels = calloc(n_streams, sizeof *p->channels);
    bool ok = p->jobs && p->streams && p->channels;
    for (unsigned i = 0; ok && i < n_streams; i++) {
        struct stream *s = &p->streams[i];
        s->waiting = malloc(p->room * sizeof *s->waiting);
        s->ready = malloc((p->room + hop) * sizeof *s->ready);
        ok = s->waiting && s->ready;
        voice_init(&s->voice, model_rate(engine_model(engine)), hop, engine_delay(engine));
        level_init(&s->level, model_rate(engine_model(engine)));
        s->sound = i;
        if (ok)
            clear(p, s);
    }
    if (!ok) {
        primeknet_close(p);
        return NULL;
    }
    snprintf(p->about, sizeof p->about, "%.80s on %s", model_name(engine_model(engine)), engine_name(engine));
    p->shared = shared;
    atomic_fetch_add(&shared->n_handles, 1);
    return p;
}

static int open_engine(struct engine **ret, const struct model *model, const char *kind, unsigned n_streams,
                       unsigned block, struct err *err) {
    const unsigned hop = model_hop(model);
    const struct engine_options options = {.name = kind, .n_streams = n_streams,
                                           .max_hops = block > hop ? block / hop : 1};
    return engine_open(ret, &options, model, err);
}

/* The line goes to the caller, who may not want it. */
static struct primeknet *fail(char error[PRIMEKNET_ERROR], const struct err *err) {
    if (error)
        snprintf(error, PRIMEKNET_ERROR, "%s", err->text);
    return NULL;
}

static struct primeknet *out_of_memory(char error[PRIMEKNET_ERROR]) {
    return fail(error, &(struct err){"out of memory"});
}

struct primeknet *primeknet_open(const char *model, const char *engine, unsigned n_streams, unsigned block,
                                 char error[PRIMEKNET_ERROR]) {
    struct err err;
    struct engine *e = NULL;
    if (check(model, engine, n_streams, block, &err) < 0)
        return fail(error, &err);
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return out_of_memory(error);
    const struct engine_options options = {.name = engine, .n_streams = n_streams, .max_hops = 1};
    int code = choose_engine(&shared->model, &e, model, &options, &err);
    if (code == 0 && block > engine_hop(e)) { /* the hop is known now, and so is which engine it is */
        const char *kind = engine_kind(e);
        engine_close(e);
        code = open_engine(&e, shared->model, kind, n_streams, block, &err);
    }
    struct primeknet *p = code == 0 ? make(shared, e, block) : NULL;
    if (p)
        return p;
    model_free(shared->model);
    free(shared);
    return code < 0 ? fail(error, &err) : out_of_memory(error);
}

struct primeknet *primeknet_open_like(const struct primeknet *like, unsigned n_streams, unsigned block,
                                      char error[PRIMEKNET_ERROR]) {
    struct err err;
    struct engine *e;
    if (!like)
        return fail(error, &(struct err){"no handle is given to open another like it"});
    const char *kind = engine_kind(like->engine);
    if (check("", kind, n_streams, block, &err) < 0 ||
        open_engine(&e, like->shared->model, kind, n_streams, block, &err) < 0)
        return fail(error, &err);
    struct primeknet *p = make(like->shared, e, block);
    return p ? p : out_of_memory(error);
}

void primeknet_close(struct primeknet *p) {
    if (!p)
        return;
    for (unsigned i = 0; p->streams && i < engine_streams(p->engine); i++) {
        free(p->streams[i].waiting);
        free(p->streams[i].ready);
    }
    free(p->streams);
    free(p->channels);
    free(p->jobs);
    engine_close(p->engine);
    if (p->shared && atomic_fetch_sub(&p->shared->n_handles, 1) == 1) {
        model_free(p->shared->model);
        free(p->shared);
    }
    free(p);
}

unsigned primeknet_rate(const struct primeknet *p) {
    return model_rate(engine_model(p->engine));
}

unsigned primeknet_hop(const struct primeknet *p) {
    return engine_hop(p->engine);
}

unsigned primeknet_delay(const struct primeknet *p) {
    return engine_delay(p->engine) + engine_hop(p->engine) - p->grain;
}

const char *primeknet_engine(const struct primeknet *p) {
    return engine_kind(p->engine);
}

const char *primeknet_about(const struct primeknet *p) {
    return p->about;
}

static bool complete(const struct primeknet *p, const float *const in[], float *const out[], size_t n) {
    if (!p || !in || !out || n % p->grain)
        return false;
    for (unsigned i = 0; i < engine_streams(p->engine); i++)
        if (in[i] && !out[i])
            return false;
    return true;
}

static void silence(const struct primeknet *p, const float *const in[], float *const out[], size_t n) {
    for (unsigned i = 0; i < engine_streams(p->engine); i++)
        if (in[i])
            memset(out[i], 0, n * sizeof *out[i]);
}

/* Moves samples of the call to those that wait, as many as there is room for. */
static void take(struct primeknet *p, unsigned i, const float *in, size_t n) {
    struct stream *s = &p->streams[i];
    const size_t free_room = p->room - s->n_waiting, left = n - s->n_done;
    s->n_taken = left < free_room ? left : free_room;
    memcpy(s->waiting + s->n_waiting, in + s->n_done, s->n_taken * sizeof *in);
    s->n_waiting += s->n_taken;
}

/* Whether a hop of the job is speech. What is not finite counts as silence, as in the engine. */
static float listen(struct primeknet *p, const struct engine_job *job, unsigned i) {
    struct voice *v = &p->streams[job->stream].voice;
    const unsigned hop = engine_hop(p->engine);
    voice_hop(v, job->in + (size_t)i * hop, job->out + (size_t)i * hop, hop, engine_strength(p->engine, job->stream));
    atomic_store_explicit(&p->streams[job->stream].probability, v->probability, memory_order_relaxed);
    return v->probability;
}

/* The jobs of one sound's channels, from the first on that have as many hops as that. */
static unsigned channels_of(const struct primeknet *p, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned sound = p->streams[jobs->stream].sound;
    unsigned n = 1;
    while (n < n_jobs && p->streams[jobs[n].stream].sound == sound && jobs[n].n_hops == jobs->n_hops)
        n++;
    return n;
}

/* Hears and levels what came out of the jobs of one sound. */
static void finish(struct primeknet *p, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned hop = engine_hop(p->engine), first = jobs->stream, n = jobs[n_jobs - 1].stream - first + 1;
    struct level *level = &p->streams[p->streams[first].sound].level;
    for (unsigned h = 0; h < jobs->n_hops; h++) {
        float probability = NAN;
        for (unsigned i = 0; i < n; i++)
            p->channels[first + i].x = NULL;
        for (unsigned j = 0; j < n_jobs; j++) {
            probability = fmaxf(probability, listen(p, &jobs[j], h));
            p->channels[jobs[j].stream].x = jobs[j].out + (size_t)h * hop;
        }
        level_process(level, p->channels + first, n, hop, probability);
    }
}

/* As many samples as were taken, of those that are ready. */
static void give(struct primeknet *p, unsigned i, float *out) {
    struct stream *s = &p->streams[i];
    const size_t hop = engine_hop(p->engine), n_computed = s->n_waiting / hop * hop;
    s->n_waiting -= n_computed;
    memmove(s->waiting, s->waiting + n_computed, s->n_waiting * sizeof *s->waiting);
    s->n_ready += n_computed - s->n_taken;
    memcpy(out + s->n_done, s->ready, s->n_taken * sizeof *out);
    memmove(s->ready, s->ready + s->n_taken, s->n_ready * sizeof *s->ready);
    s->n_done += s->n_taken;
}

int primeknet_process(struct primeknet *p, const float *const in[], float *const out[], size_t n) {
    if (!complete(p, in, out, n))
        return -EINVAL;
    const unsigned n_streams = engine_streams(p->engine), hop = engine_hop(p->engine);
    for (unsigned i = 0; i < n_streams; i++)
        p->streams[i].n_done = 0;
    for (bool more = n > 0; more && !p->lost;) {
        unsigned n_jobs = 0;
        for (unsigned i = 0; i < n_streams; i++) {
            const struct stream *s = &p->streams[i];
            if (in[i])
                take(p, i, in[i], n);
            if (in[i] && s->n_waiting >= hop)
                p->jobs[n_jobs++] = (struct engine_job){i, (unsigned)(s->n_waiting / hop), s->waiting,
                                                        s->ready + s->n_ready};
        }
        p->lost = n_jobs && engine_process(p->engine, p->jobs, n_jobs) < 0;
        for (unsigned i = 0, n_channels; i < n_jobs && !p->lost; i += n_channels) {
            n_channels = channels_of(p, p->jobs + i, n_jobs - i);
            finish(p, p->jobs + i, n_channels);
        }
        more = false;
        for (unsigned i = 0; i < n_streams; i++)
            if (in[i]) {
                give(p, i, out[i]);
                more = more || p->streams[i].n_done < n;
            }
    }
    if (!p->lost)
        return 0;
    silence(p, in, out, n);
    return -EIO;
}

int primeknet_control(struct primeknet *p, unsigned stream, float strength, float floor_db, float low_cut_hz) {
    if (!p || stream >= engine_streams(p->engine) || !(strength >= 0 && strength <= 1) || !(floor_db <= 0) ||
        !(low_cut_hz >= 0 && low_cut_hz <= (float)primeknet_rate(p) / 2))
        return -EINVAL;
    engine_control(p->engine, stream, (struct engine_controls){.strength = strength,
                                                               .floor = (float)pow(10, (double)floor_db / 20),
                                                               .low_cut_hz = low_cut_hz});
    return 0;
}

int primeknet_level(struct primeknet *p, unsigned stream, unsigned n_channels, float target) {
    const unsigned n_streams = p ? engine_streams(p->engine) : 0;
    if (stream >= n_streams || n_channels < 1 || n_channels > n_streams - stream ||
        !(isnan(target) || (target >= LEVEL_TARGET_LEAST && target <= LEVEL_TARGET_GREATEST)))
        return -EINVAL;
    for (unsigned i = 0; i < n_channels; i++)
        p->streams[stream + i].sound = stream;
    level_control(&p->streams[stream].level, target);
    return 0;
}

int primeknet_threads(struct primeknet *p, unsigned n) {
    return p && n > 0 ? engine_threads(p->engine, n) : -EINVAL;
}

int primeknet_reset(struct primeknet *p, unsigned stream) {
    if (!p || stream >= engine_streams(p->engine))
        return -EINVAL;
    clear(p, &p->streams[stream]);
    if (!p->lost)
        engine_reset(p->engine, stream);
    return 0;
}

float primeknet_voice(const struct primeknet *p, unsigned stream) {
    return p && stream < engine_streams(p->engine)
               ? atomic_load_explicit(&p->streams[stream].probability, memory_order_relaxed)
               : NAN;
}
