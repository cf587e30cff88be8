/* engine_cpu.c - the network on the calling thread, with the best kernels that the processor supports. */
#include "engine/engine_type.h"

#include "base/fpu.h"
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

struct engine_net {
    struct engine common;
    char name[32];
    struct kernels kernels;
    struct stft *stft;
    struct net *net;
    struct stream *streams;
    struct pool pool;               /* owns the arrays below */
    float *in;                      /* [hop] */
    float complex *spectrum;        /* [n_bins] */
    float *features, *mask, *rotation; /* [n_positions] times 3, 1, 2 */
};

static void cpu_close(struct engine *e) {
    struct engine_net *c = (struct engine_net *)e;
    for (unsigned i = 0; c->streams && i < e->n_streams; i++) {
        pool_done(&c->streams[i].pool);
        net_state_done(&c->streams[i].net);
    }
    free(c->streams);
    pool_done(&c->pool);
    net_free(c->net);
    stft_free(c->stft);
    free(c);
}

static int allocate(struct engine_net *c) {
    const struct model_config *g = model_config(c->common.model);
    int code;
    const struct model *model = c->common.model;
    if ((code = stft_new(&c->stft, model, &c->kernels)) || (code = net_new(&c->net, model, &c->kernels)))
        return code;
    if (!(c->streams = calloc(c->common.n_streams, sizeof *c->streams)))
        return -ENOMEM;
    for (unsigned i = 0; i < c->common.n_streams; i++) {
        stft_state_init(c->stft, &c->streams[i].stft, &c->streams[i].pool);
        if (!pool_ok(&c->streams[i].pool) || (code = net_state_init(c->net, &c->streams[i].net)))
            return -ENOMEM;
    }
    c->in = pool_floats(&c->pool, g->hop);
    c->spectrum = (float complex *)pool_floats(&c->pool, 2 * (size_t)g->n_bins);
    c->features = pool_floats(&c->pool, 3 * (size_t)g->n_positions);
    c->mask = pool_floats(&c->pool, g->n_positions);
    c->rotation = pool_floats(&c->pool, 2 * (size_t)g->n_positions);
    return pool_ok(&c->pool) ? 0 : -ENOMEM;
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

static void process_hop(struct engine_net *c, unsigned stream, const float *in, float *out) {
    const struct model_config *g = model_config(c->common.model);
    const struct engine_control *control = &c->common.controls[stream];
    struct stream *s = &c->streams[stream];
    for (unsigned i = 0; i < g->hop; i++)
        c->in[i] = isfinite(in[i]) ? fmaxf(-ENGINE_LOUDEST, fminf(in[i], ENGINE_LOUDEST)) : 0;
    stft_analyse(c->stft, &s->stft, c->in, c->spectrum);
    spectrum_features(g, &c->kernels, c->spectrum, c->features);
    net_run(c->net, &s->net, c->features, c->mask, c->rotation);
    spectrum_apply(g, &c->kernels, c->mask, c->rotation, control->strength, control->floor, c->spectrum);
    spectrum_cut(g, control->low_cut, c->spectrum);
    stft_synthesise(c->stft, &s->stft, c->spectrum, out);
}

static int cpu_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    unsigned hop = engine_hop(e), saved = fpu_flush_denormals();
    for (unsigned j = 0; j < n_jobs; j++) {
        assert(jobs[j].stream < e->n_streams);
        for (unsigned i = 0; i < jobs[j].n_hops; i++)
            process_hop((struct engine_net *)e, jobs[j].stream, jobs[j].in + (size_t)i * hop,
                        jobs[j].out + (size_t)i * hop);
    }
    fpu_restore(saved);
    return 0;
}

static void cpu_reset(struct engine *e, unsigned stream) {
    struct stream *s = &((struct engine_net *)e)->streams[stream];
    pool_zero(&s->pool);
    net_state_reset(&s->net);
}

static void cpu_tail(const struct engine *e, unsigned stream, float *tail) {
    const struct engine_net *c = (const struct engine_net *)e;
    stft_tail(c->stft, &c->streams[stream].stft, tail);
}

const struct engine_type engine_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .process = cpu_process,
    .reset = cpu_reset,
    .tail = cpu_tail,
};
