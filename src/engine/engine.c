#include "engine/engine_type.h"

#include "net/stft.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Best first: "auto" takes the first that opens. The null engine opens only by name. */
static const struct engine_type *const types[] = {&engine_cuda, &engine_cpu};

static void free_common(struct engine *e) {
    free(e->out);
    free(e->fade);
    free(e->controls);
    free(e->n_silent);
    free(e->jobs);
}

static int open_type(struct engine **ret, const struct engine_type *type, const struct engine_options *options,
                     const struct model *model, struct err *err) {
    const unsigned n_streams = options->n_streams;
    struct engine common = {.type = type, .name = type->name, .model = model, .n_streams = n_streams};
    common.fade = calloc(model_delay(model), sizeof *common.fade);
    common.controls = calloc(n_streams, sizeof *common.controls);
    common.n_silent = calloc(n_streams, sizeof *common.n_silent);
    common.jobs = calloc(n_streams, 2 * sizeof *common.jobs);
    int code;
    if (common.fade && common.controls && common.n_silent && common.jobs) {
        stft_fade(model, common.fade);
        for (unsigned i = 0; i < n_streams; i++)
            common.controls[i].strength = 1;
        code = type->open(ret, &common, options, err);
    } else {
        code = err_set(err, -ENOMEM, "engine %s: out of memory", type->name);
    }
    if (code)
        free_common(&common);
    return code;
}

/* Opens engines for the networks after the first one. */
static int open_further(struct engine *first, const struct engine_type *type, const struct engine_options *options,
                        struct err *err) {
    const struct model *model = first->model;
    first->max_hops = options->max_hops ? options->max_hops : 1;
    const size_t n_processed = (size_t)first->n_streams * first->max_hops * model_hop(model),
                 n_tail = model_delay(model);
    int code = 0;
    for (struct engine *last = first; (model = model_next(model)) && !code; last = last->next) {
        if ((code = open_type(&last->next, type, options, model, err)))
            return code;
        if (!(last->next->out = calloc(n_processed > n_tail ? n_processed : n_tail, sizeof *last->next->out)))
            code = err_set(err, -ENOMEM, "engine %s: out of memory", type->name);
    }
    return code;
}

/* Opens an engine for each network of the model. */
static int open_networks(struct engine **ret, const struct engine_type *type, const struct engine_options *options,
                         const struct model *model, struct err *err) {
    struct engine *e;
    int code = open_type(&e, type, options, model, err);
    if (code)
        return code;
    if ((code = open_further(e, type, options, err)))
        engine_close(e);
    else
        *ret = e;
    return code;
}

int engine_open(struct engine **ret, const struct engine_options *options, const struct model *model, struct err *err) {
    const char *name = options->name;
    int code = -EINVAL;
    if (!strcmp(name, engine_null.name))
        return open_networks(ret, &engine_null, options, model, err);
    err_set(err, code, "there is no engine '%s'", name);
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, "auto") || !strcmp(name, types[i]->name))
            if (!(code = open_networks(ret, types[i], options, model, err)))
                return 0;
    return code;
}

void engine_close(struct engine *e) {
    if (!e)
        return;
    engine_close(e->next);
    free_common(e);
    e->type->close(e);
}

const char *engine_name(const struct engine *e) {
    return e->name;
}

const char *engine_kind(const struct engine *e) {
    return e->type->name;
}

const struct model *engine_model(const struct engine *e) {
    return e->model;
}

unsigned engine_streams(const struct engine *e) {
    return e->n_streams;
}

unsigned engine_hop(const struct engine *e) {
    return model_hop(e->model);
}

unsigned engine_delay(const struct engine *e) {
    return model_delay(e->model);
}

bool engine_together(const struct engine *e) {
    return e->type->together;
}

/* Returns the number of silent samples after which all frames that overlap in the output are silent. */
static unsigned long_silence(const struct engine *e) {
    const struct model_config *g = model_config(e->model);
    return g->window + g->synthesis;
}

bool engine_ran(const struct engine *e, unsigned stream) {
    return e->n_silent[stream] < long_silence(e) + engine_hop(e);
}

/* Counts the hops, from the job's first on, that all need the network, or all do not. */
static unsigned hops_alike(struct engine *e, const struct engine_job *job) {
    const unsigned hop = engine_hop(e), most = long_silence(e) + hop;
    unsigned *n_silent = &e->n_silent[job->stream];
    bool runs = false;
    for (unsigned h = 0; h < job->n_hops; h++) {
        const float *x = job->in + (size_t)h * hop;
        unsigned i = 0;
        while (i < hop && x[i] == 0)
            i++;
        const unsigned n = i < hop ? 0 : *n_silent < most ? *n_silent + hop : most;
        if (h && (n < most) != runs)
            return h;
        runs = n < most;
        *n_silent = n;
    }
    return job->n_hops;
}

/* Adds the output of a further network to the mean of those before it. Equal samples stay exactly what they are. */
static void add_to_mean(float *mean, const float *x, size_t n, float part) {
    for (size_t i = 0; i < n; i++)
        mean[i] += (x[i] - mean[i]) * part;
}

/* Returns this network's part in the mean of those so far, and adds its share to theirs. */
static float part_of(const struct engine *e, float *shares) {
    const float own = model_config(e->model)->share;
    *shares += own;
    return own / *shares;
}

/* Runs jobs of at most max_hops in all networks. The first one comes last, as its output may replace the input. */
static int process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned hop = engine_hop(e);
    int code = 0;
    for (struct engine *other = e->next; other && !code; other = other->next) {
        for (unsigned i = 0; i < n_jobs; i++) {
            other->jobs[i] = jobs[i];
            other->jobs[i].out = other->out + (size_t)jobs[i].stream * e->max_hops * hop;
        }
        code = other->type->process(other, other->jobs, n_jobs);
    }
    if (code || (code = e->type->process(e, jobs, n_jobs)))
        return code;
    float shares = 0;
    part_of(e, &shares);
    for (struct engine *other = e->next; other; other = other->next) {
        const float part = part_of(other, &shares);
        for (unsigned i = 0; i < n_jobs; i++)
            add_to_mean(jobs[i].out, other->jobs[i].out, (size_t)jobs[i].n_hops * hop, part);
    }
    return 0;
}

int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    const unsigned hop = engine_hop(e);
    struct engine_job *rest = e->jobs, *part = e->jobs + e->n_streams;
    memcpy(rest, jobs, n_jobs * sizeof *jobs);
    while (n_jobs) {
        unsigned n_parts = 0, n_left = 0;
        for (unsigned i = 0; i < n_jobs; i++) {
            const struct engine_job job = rest[i];
            struct engine_job some = job;
            if (e->next && some.n_hops > e->max_hops)
                some.n_hops = e->max_hops;
            const unsigned n = hops_alike(e, &some);
            const size_t done = (size_t)n * hop;
            if (engine_ran(e, job.stream))
                part[n_parts++] = (struct engine_job){job.stream, n, job.in, job.out};
            else
                memset(job.out, 0, done * sizeof *job.out);
            if (n < job.n_hops)
                rest[n_left++] = (struct engine_job){job.stream, job.n_hops - n, job.in + done, job.out + done};
        }
        const int code = n_parts ? process(e, part, n_parts) : 0;
        if (code)
            return code;
        n_jobs = n_left;
    }
    return 0;
}

int engine_threads(struct engine *e, unsigned n) {
    assert(n > 0);
    int code = 0;
    for (struct engine *one = e; one && !code; one = one->next)
        code = one->type->threads ? one->type->threads(one, n) : 0;
    if (code && n > 1)
        engine_threads(e, 1);
    return code;
}

static void begin(struct engine *e, unsigned stream, bool forgets) {
    assert(stream < e->n_streams);
    e->n_silent[stream] = 0;
    for (; e; e = e->next)
        e->type->reset(e, stream, forgets);
}

void engine_reset(struct engine *e, unsigned stream) {
    begin(e, stream, true);
}

void engine_pause(struct engine *e, unsigned stream) {
    begin(e, stream, false);
}

void engine_tail(const struct engine *e, unsigned stream, float *tail) {
    assert(stream < e->n_streams);
    e->type->tail(e, stream, tail);
    float shares = 0;
    part_of(e, &shares);
    for (struct engine *other = e->next; other; other = other->next) {
        other->type->tail(other, stream, other->out);
        add_to_mean(tail, other->out, engine_delay(e), part_of(other, &shares));
    }
}

const float *engine_fade(const struct engine *e) {
    return e->fade;
}

void engine_control(struct engine *e, unsigned stream, struct engine_controls controls) {
    assert(stream < e->n_streams);
    const struct model_config *g = model_config(e->model);
    for (; e; e = e->next) {
        e->controls[stream].strength = controls.strength;
        e->controls[stream].floor = controls.floor;
        e->controls[stream].low_cut = controls.low_cut_hz * (float)g->window / (float)g->rate;
    }
}

float engine_strength(const struct engine *e, unsigned stream) {
    assert(stream < e->n_streams);
    return e->controls[stream].strength;
}
