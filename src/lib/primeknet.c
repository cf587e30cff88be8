#include "lib/primeknet.h"

#include "base/gcd.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/level.h"
#include "engine/voice.h"
#include "model/model.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 1024, MOST_BLOCK = 1 << 20 };

/* State shared by all handles that were opened like one another. */
struct shared {
    atomic_uint n_handles;
    struct model *model;
    char *gpu; /* as in struct primeknet_options */
};

struct stream {
    float *waiting; /* [room] input, less than a hop between calls */
    float *ready;   /* [room + hop] output */
    size_t n_waiting, n_ready;
    size_t n_done, n_taken; /* samples of the current call done so far; taken in the current round */
    struct voice voice;
    _Atomic float probability; /* a copy of voice.probability for other threads */
    struct level level;        /* used in the first stream of a sound, for all its channels */
};

struct primeknet {
    struct shared *shared;
    struct engine *engine;
    unsigned n_channels; /* of each sound */
    unsigned grain;      /* each call passes a multiple of this many samples */
    size_t room;         /* samples: the whole hops that one engine call may take */
    struct stream *streams;
    struct engine_job *jobs;        /* [n_streams] */
    struct level_channel *channels; /* [n_streams] */
    bool lost;
    char description[128];
};

/* Programs may leave padding uninitialised, so a structure that ends in padding could not grow. */
static_assert(sizeof(struct primeknet_options) == offsetof(struct primeknet_options, n_channels) + sizeof(unsigned),
              "no padding");
static_assert(sizeof(struct primeknet_controls) == offsetof(struct primeknet_controls, level_target) + sizeof(float),
              "no padding");

/* Copies a program's structure, whose first member is its size, to this version's. Returns 0, -EINVAL or -E2BIG. */
static int copy_sized(void *to, size_t size, const void *from) {
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < size)
        return -EINVAL;
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)from)[i])
            return -E2BIG;
    memcpy(to, from, size);
    return 0;
}

/* Copies the options and fills in the defaults. */
static int read_options(struct primeknet_options *o, const struct primeknet_options *given, struct err *err) {
    const struct primeknet_options none = {.size = sizeof none};
    const int code = copy_sized(o, sizeof *o, given ? given : &none);
    if (code < 0)
        return err_set(err, code, "options: %s",
                       code == -E2BIG ? "this version of libprimeknet has fewer of them"
                                      : "the size is not that of the structure");
    o->engine = o->engine ? o->engine : "auto";
    o->block = o->block ? o->block : 1;
    o->n_channels = o->n_channels ? o->n_channels : 1;
    o->n_streams = o->n_streams ? o->n_streams : o->n_channels;
    if (o->n_streams > MOST_STREAMS)
        return err_set(err, -EINVAL, "n_streams: %u is not from 1 to %d", o->n_streams, MOST_STREAMS);
    if (o->n_streams % o->n_channels)
        return err_set(err, -EINVAL, "n_channels: %u streams are not whole sounds of %u", o->n_streams, o->n_channels);
    if (o->block > MOST_BLOCK)
        return err_set(err, -EINVAL, "block: %zu is not from 1 to %d", o->block, MOST_BLOCK);
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

/* Takes ownership of the engine, also on failure. The handle counts as a user of `shared` only on success. */
static struct primeknet *make(struct shared *shared, struct engine *engine, const struct primeknet_options *options) {
    const unsigned hop = engine_hop(engine), n_streams = engine_streams(engine), block = (unsigned)options->block;
    struct primeknet *p = calloc(1, sizeof *p);
    if (!p) {
        engine_close(engine);
        return NULL;
    }
    p->engine = engine;
    p->n_channels = options->n_channels;
    p->grain = gcd(block, hop);
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
        if (ok)
            clear(p, s);
    }
    if (!ok) {
        primeknet_close(p);
        return NULL;
    }
    snprintf(p->description, sizeof p->description, "%.80s on %s", model_name(engine_model(engine)),
             engine_name(engine));
    p->shared = shared;
    atomic_fetch_add(&shared->n_handles, 1);
    return p;
}

static int open_engine(struct engine **ret, const struct shared *shared, const char *kind,
                       const struct primeknet_options *o, struct err *err) {
    const unsigned hop = model_hop(shared->model), block = (unsigned)o->block;
    const struct engine_options options = {
        .name = kind, .gpu = shared->gpu, .n_streams = o->n_streams, .max_hops = block > hop ? block / hop : 1};
    return engine_open(ret, &options, shared->model, err);
}

static void free_shared(struct shared *shared) {
    model_free(shared->model);
    free(shared->gpu);
    free(shared);
}

/* Returns the result of opening and, on failure, copies the message to `error` unless that is NULL. */
static int finish_opening(struct primeknet **ret, struct primeknet *p, int code, const struct err *err,
                          char error[PRIMEKNET_ERROR]) {
    *ret = p;
    if (p)
        return 0;
    if (error)
        snprintf(error, PRIMEKNET_ERROR, "%s", code < 0 ? err->text : "out of memory");
    return code < 0 ? code : -ENOMEM;
}

static int open_first(struct shared *shared, struct engine **e, const char *model, const struct primeknet_options *o,
                      struct err *err) {
    if (o->gpu && !(shared->gpu = strdup(o->gpu)))
        return err_set(err, -ENOMEM, "out of memory");
    const struct engine_options options = {
        .name = o->engine, .gpu = shared->gpu, .n_streams = o->n_streams, .max_hops = 1};
    const int code = choose_engine(&shared->model, e, model, &options, err);
    if (code < 0 || o->block <= engine_hop(*e))
        return code;
    const char *kind = engine_kind(*e); /* "auto" is resolved now: reopen it with room for a block */
    engine_close(*e);
    return open_engine(e, shared, kind, o, err);
}

int primeknet_open(struct primeknet **ret, const char *model, const struct primeknet_options *options,
                   char error[PRIMEKNET_ERROR]) {
    struct err err;
    struct primeknet_options o;
    struct engine *e = NULL;
    int code = model ? read_options(&o, options, &err) : err_set(&err, -EINVAL, "model: no name is given");
    struct shared *shared = code == 0 ? calloc(1, sizeof *shared) : NULL;
    if (shared)
        code = open_first(shared, &e, model, &o, &err);
    struct primeknet *p = shared && code == 0 ? make(shared, e, &o) : NULL;
    if (shared && !p)
        free_shared(shared);
    return finish_opening(ret, p, code, &err, error);
}

int primeknet_open_like(struct primeknet **ret, const struct primeknet *like, const struct primeknet_options *options,
                        char error[PRIMEKNET_ERROR]) {
    struct err err;
    struct primeknet_options o;
    struct engine *e;
    int code = like ? read_options(&o, options, &err) : err_set(&err, -EINVAL, "like: no handle is given");
    if (code == 0)
        code = open_engine(&e, like->shared, engine_kind(like->engine), &o, &err);
    return finish_opening(ret, code == 0 ? make(like->shared, e, &o) : NULL, code, &err, error);
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
    if (p->shared && atomic_fetch_sub(&p->shared->n_handles, 1) == 1)
        free_shared(p->shared);
    free(p);
}

unsigned primeknet_version(void) {
    return PRIMEKNET_VERSION;
}

unsigned primeknet_get_rate(const struct primeknet *p) {
    return model_rate(engine_model(p->engine));
}

unsigned primeknet_get_hop(const struct primeknet *p) {
    return engine_hop(p->engine);
}

unsigned primeknet_get_delay(const struct primeknet *p) {
    return engine_delay(p->engine) + engine_hop(p->engine) - p->grain;
}

const char *primeknet_get_engine(const struct primeknet *p) {
    return engine_kind(p->engine);
}

const char *primeknet_get_description(const struct primeknet *p) {
    return p->description;
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

/* Appends as many of the call's samples as fit to the stream's waiting input. */
static void take(struct primeknet *p, unsigned i, const float *in, size_t n) {
    struct stream *s = &p->streams[i];
    const size_t free_room = p->room - s->n_waiting, left = n - s->n_done;
    s->n_taken = left < free_room ? left : free_room;
    memcpy(s->waiting + s->n_waiting, in + s->n_done, s->n_taken * sizeof *in);
    s->n_waiting += s->n_taken;
}

/* Returns the probability that hop i of the job is speech. Samples that are not finite count as 0, as in the engine. */
static float listen(struct primeknet *p, const struct engine_job *job, unsigned i) {
    struct voice *v = &p->streams[job->stream].voice;
    const unsigned hop = engine_hop(p->engine);
    voice_hop(v, job->in + (size_t)i * hop, job->out + (size_t)i * hop, hop, engine_strength(p->engine, job->stream));
    atomic_store_explicit(&p->streams[job->stream].probability, v->probability, memory_order_relaxed);
    return v->probability;
}

/* Counts the jobs, from the first on, that belong to the same sound and have the same number of hops. */
static unsigned channels_of(const struct primeknet *p, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned sound = jobs->stream / p->n_channels;
    unsigned n = 1;
    while (n < n_jobs && jobs[n].stream / p->n_channels == sound && jobs[n].n_hops == jobs->n_hops)
        n++;
    return n;
}

/* Measures voice activity in the output of one sound's jobs, and applies the automatic level. */
static void finish(struct primeknet *p, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned hop = engine_hop(p->engine), first = jobs->stream, n = jobs[n_jobs - 1].stream - first + 1;
    struct level *level = &p->streams[first / p->n_channels * p->n_channels].level;
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

/* Outputs as many ready samples as take() took, and discards the input that has been computed. */
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

static bool valid(const struct primeknet *p, const struct primeknet_controls *c) {
    return c->strength >= 0 && c->strength <= 1 && c->floor_db <= 0 && c->low_cut_hz >= 0 &&
           c->low_cut_hz <= (float)primeknet_get_rate(p) / 2 &&
           (c->level_target == 0 ||
            (c->level_target >= PRIMEKNET_LEVEL_TARGET_MIN && c->level_target <= PRIMEKNET_LEVEL_TARGET_MAX));
}

int primeknet_set_controls(struct primeknet *p, unsigned stream, const struct primeknet_controls *controls) {
    struct primeknet_controls c;
    if (!p || !controls || stream >= engine_streams(p->engine))
        return -EINVAL;
    const int code = copy_sized(&c, sizeof c, controls);
    if (code < 0 || !valid(p, &c))
        return code < 0 ? code : -EINVAL;
    engine_control(p->engine, stream,
                   (struct engine_controls){.strength = c.strength,
                                            .floor = (float)pow(10, (double)c.floor_db / 20),
                                            .low_cut_hz = c.low_cut_hz});
    level_control(&p->streams[stream].level, c.level_target == 0 ? NAN : c.level_target);
    return 0;
}

int primeknet_set_threads(struct primeknet *p, unsigned n) {
    return p && n > 0 ? engine_threads(p->engine, n) : -EINVAL;
}

static int start_over(struct primeknet *p, unsigned stream, void (*how)(struct engine *e, unsigned stream)) {
    if (!p || stream >= engine_streams(p->engine))
        return -EINVAL;
    clear(p, &p->streams[stream]);
    if (!p->lost)
        how(p->engine, stream);
    return 0;
}

int primeknet_reset(struct primeknet *p, unsigned stream) {
    return start_over(p, stream, engine_reset);
}

int primeknet_pause(struct primeknet *p, unsigned stream) {
    return start_over(p, stream, engine_pause);
}

float primeknet_get_voice(const struct primeknet *p, unsigned stream) {
    return p && stream < engine_streams(p->engine)
               ? atomic_load_explicit(&p->streams[stream].probability, memory_order_relaxed)
               : NAN;
}
