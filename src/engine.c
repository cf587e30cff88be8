#include "engine_type.h"

#include "stft.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Best first: "auto" takes the first that opens. The null engine opens by its name only. */
static const struct engine_type *const types[] = {&engine_cuda, &engine_cpu};

static int open_type(struct engine **ret, const struct engine_type *type, const struct engine_options *options,
                     const struct model *model, struct err *err) {
    const unsigned n_streams = options->n_streams;
    struct engine *e, head = {.type = type, .name = type->name, .model = model, .n_streams = n_streams};
    head.fade = calloc(model_delay(model), sizeof *head.fade);
    head.controls = calloc(n_streams, sizeof *head.controls);
    int code = head.fade && head.controls ? 0 : err_set(err, -ENOMEM, "engine %s: out of memory", type->name);
    if (!code) {
        stft_fade(model, head.fade);
        for (unsigned i = 0; i < n_streams; i++)
            head.controls[i].strength = 1;
        code = type->open(&e, &head, options, err);
    }
    if (code) {
        free(head.fade);
        free(head.controls);
        return code;
    }
    *ret = e;
    return 0;
}

int engine_open(struct engine **ret, const struct engine_options *options, const struct model *model, struct err *err) {
    const char *name = options->name;
    int code = -EINVAL;
    if (!strcmp(name, engine_null.name))
        return open_type(ret, &engine_null, options, model, err);
    err_set(err, code, "no engine is called '%s'", name);
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, "auto") || !strcmp(name, types[i]->name))
            if (!(code = open_type(ret, types[i], options, model, err)))
                return 0;
    return code;
}

void engine_close(struct engine *e) {
    if (!e)
        return;
    free(e->fade);
    free(e->controls);
    e->type->close(e);
}

const char *engine_name(const struct engine *e) {
    return e->name;
}

const char *engine_kind(const struct engine *e) {
    return e->type->name;
}

void engine_rest(void) {
    engine_cuda_rest();
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

int engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    return e->type->process(e, jobs, n_jobs);
}

void engine_reset(struct engine *e, unsigned stream) {
    assert(stream < e->n_streams);
    e->type->reset(e, stream);
}

void engine_tail(const struct engine *e, unsigned stream, float *tail) {
    assert(stream < e->n_streams);
    e->type->tail(e, stream, tail);
}

const float *engine_fade(const struct engine *e) {
    return e->fade;
}

void engine_control(struct engine *e, unsigned stream, float strength, float floor) {
    assert(stream < e->n_streams);
    e->controls[stream].strength = strength;
    e->controls[stream].floor = floor;
}
