/* engine_cpu.c - runs the network on the calling thread, or several threads, with the best kernels that the processor
 * supports. */
#include "engine/engine_type.h"

#include "base/fpu.h"
#include "engine/team.h"
#include "kernels/kernels.h"
#include "net/net.h"
#include "net/spectrum.h"
#include "net/stft.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stream {
    struct pool pool; /* owns stft's arrays */
    struct stft_state stft;
    struct net_state net;
};

/* A thread's own net, STFT and buffers. */
struct worker {
    struct stft *stft;
    struct net *net;                   /* the first worker's owns the weights of all */
    struct pool pool;                  /* owns the arrays below */
    float *in;                         /* [hop] */
    float complex *spectrum;           /* [n_bins] */
    float *features, *mask, *rotation; /* [n_positions] times 3, 1, 2 */
};

struct engine_net {
    struct engine common;
    char name[32];
    struct kernels kernels;
    struct stream *streams;
    struct worker first, *others;
    unsigned n_others;
    struct team *team;             /* NULL without others */
    const struct engine_job *jobs; /* of the current call, for the team */
};

static void worker_done(struct worker *w) {
    pool_done(&w->pool);
    net_free(w->net);
    stft_free(w->stft);
}

/* of: the worker whose weights it shares, or NULL. */
static int worker_init(struct worker *w, const struct engine_net *c, const struct worker *of) {
    const struct model *model = c->common.model;
    const struct model_config *g = model_config(model);
    int code = stft_new(&w->stft, model, &c->kernels);
    if (code == 0)
        code = of ? net_share(&w->net, of->net) : net_new(&w->net, model, &c->kernels);
    w->in = pool_floats(&w->pool, g->hop);
    w->spectrum = (float complex *)pool_floats(&w->pool, 2 * (size_t)g->n_bins);
    w->features = pool_floats(&w->pool, 3 * (size_t)g->n_positions);
    w->mask = pool_floats(&w->pool, g->n_positions);
    w->rotation = pool_floats(&w->pool, 2 * (size_t)g->n_positions);
    return code ? code : pool_ok(&w->pool) ? 0 : -ENOMEM;
}

static void stop_others(struct engine_net *c) {
    team_free(c->team);
    c->team = NULL;
    for (unsigned i = 0; i < c->n_others; i++)
        worker_done(&c->others[i]);
    free(c->others);
    c->others = NULL;
    c->n_others = 0;
}

static void cpu_close(struct engine *e) {
    struct engine_net *c = (struct engine_net *)e;
    stop_others(c);
    for (unsigned i = 0; c->streams && i < e->n_streams; i++) {
        pool_done(&c->streams[i].pool);
        net_state_done(&c->streams[i].net);
    }
    free(c->streams);
    worker_done(&c->first);
    free(c);
}

static int allocate(struct engine_net *c) {
    int code = worker_init(&c->first, c, NULL);
    if (code)
        return code;
    if (!(c->streams = calloc(c->common.n_streams, sizeof *c->streams)))
        return -ENOMEM;
    for (unsigned i = 0; i < c->common.n_streams; i++) {
        stft_state_init(c->first.stft, &c->streams[i].stft, &c->streams[i].pool);
        if (!pool_ok(&c->streams[i].pool) || (code = net_state_init(c->first.net, &c->streams[i].net)))
            return -ENOMEM;
    }
    return 0;
}

static const struct kernels *kernels_wanted(const struct engine_options *options) {
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++)
        if (!options->isa || !strcmp(options->isa, k->name))
            break;
    return k;
}

static int cpu_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                    struct err *err) {
    const struct kernels *kernels = kernels_wanted(options);
    if (!kernels)
        return err_set(err, -EINVAL, "engine cpu: this processor does not support '%s'", options->isa);
    struct engine_net *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, -ENOMEM, "engine cpu: out of memory");
    c->common = *common;
    snprintf(c->name, sizeof c->name, "cpu (%s)", kernels->name);
    c->common.name = c->name;
    c->kernels = options->exact ? kernels_in_float(kernels) : *kernels;
    int code = allocate(c);
    if (code) {
        cpu_close(&c->common);
        return err_set(err, code, "engine cpu: out of memory");
    }
    *ret = &c->common;
    return 0;
}

static void process_hop(struct engine_net *c, struct worker *w, unsigned stream, const float *in, float *out) {
    const struct model_config *g = model_config(c->common.model);
    const struct engine_control *control = &c->common.controls[stream];
    struct stream *s = &c->streams[stream];
    for (unsigned i = 0; i < g->hop; i++)
        w->in[i] = isfinite(in[i]) ? fmaxf(-ENGINE_LOUDEST, fminf(in[i], ENGINE_LOUDEST)) : 0;
    stft_analyse(w->stft, &s->stft, w->in, w->spectrum);
    spectrum_features(g, &c->kernels, w->spectrum, w->features);
    net_run(w->net, &s->net, w->features, w->mask, w->rotation);
    spectrum_apply(g, &c->kernels, w->mask, w->rotation, control->strength, control->floor, w->spectrum);
    spectrum_cut(g, control->low_cut, w->spectrum);
    stft_synthesise(w->stft, &s->stft, w->spectrum, out);
}

static void process_job(void *context, unsigned thread, unsigned job) {
    struct engine_net *c = context;
    const struct engine_job *j = &c->jobs[job];
    const unsigned hop = engine_hop(&c->common), saved = fpu_flush_denormals();
    assert(j->stream < c->common.n_streams);
    for (unsigned i = 0; i < j->n_hops; i++)
        process_hop(c, thread ? &c->others[thread - 1] : &c->first, j->stream, j->in + (size_t)i * hop,
                    j->out + (size_t)i * hop);
    fpu_restore(saved);
}

static int cpu_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    struct engine_net *c = (struct engine_net *)e;
    c->jobs = jobs;
    if (c->team)
        team_run(c->team, n_jobs);
    for (unsigned j = 0; !c->team && j < n_jobs; j++)
        process_job(c, 0, j);
    return 0;
}

/* Limits n to the number of streams: more threads would idle. */
static int cpu_threads(struct engine *e, unsigned n) {
    struct engine_net *c = (struct engine_net *)e;
    const unsigned n_others = (n < e->n_streams ? n : e->n_streams) - 1;
    stop_others(c);
    if (n_others == 0)
        return 0;
    if (!(c->others = calloc(n_others, sizeof *c->others)))
        return -ENOMEM;
    int code = 0;
    while (code == 0 && c->n_others < n_others)
        code = worker_init(&c->others[c->n_others++], c, &c->first);
    if (code == 0)
        code = team_new(&c->team, n_others, process_job, c);
    if (code)
        stop_others(c);
    return code;
}

static void cpu_reset(struct engine *e, unsigned stream, bool forgets) {
    struct stream *s = &((struct engine_net *)e)->streams[stream];
    pool_zero(&s->pool);
    if (forgets)
        net_state_reset(&s->net);
}

static void cpu_tail(const struct engine *e, unsigned stream, float *tail) {
    const struct engine_net *c = (const struct engine_net *)e;
    stft_tail(c->first.stft, &c->streams[stream].stft, tail);
}

const struct engine_type engine_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .process = cpu_process,
    .threads = cpu_threads,
    .reset = cpu_reset,
    .tail = cpu_tail,
};
