/* engine_null.c - outputs the delayed input, as every engine does at strength 0 without a low cut. */
#include "engine/engine_type.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct engine_delay_line {
    struct engine common;
    float *past; /* [n_streams][delay + hop]: samples not yet output, oldest first, then room for a hop */
};

static float *past_of(const struct engine *e, unsigned stream) {
    return ((const struct engine_delay_line *)e)->past + (size_t)stream * (engine_delay(e) + engine_hop(e));
}

static void null_close(struct engine *e) {
    free(((struct engine_delay_line *)e)->past);
    free(e);
}

static int null_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                     struct err *err) {
    (void)options;
    struct engine_delay_line *d = calloc(1, sizeof *d);
    float *past = calloc(common->n_streams, (engine_delay(common) + engine_hop(common)) * sizeof *past);
    if (!d || !past) {
        free(d);
        free(past);
        return err_set(err, -ENOMEM, "engine null: out of memory");
    }
    *d = (struct engine_delay_line){*common, past};
    *ret = &d->common;
    return 0;
}

static int null_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    unsigned delay = engine_delay(e), hop = engine_hop(e);
    for (unsigned j = 0; j < n_jobs; j++) {
        assert(jobs[j].stream < e->n_streams);
        float *past = past_of(e, jobs[j].stream);
        for (unsigned i = 0; i < jobs[j].n_hops; i++) {
            const float *in = jobs[j].in + (size_t)i * hop;
            for (unsigned k = 0; k < hop; k++)
                past[delay + k] = isfinite(in[k]) ? in[k] : 0;
            memcpy(jobs[j].out + (size_t)i * hop, past, hop * sizeof *past);
            memmove(past, past + hop, delay * sizeof *past);
        }
    }
    return 0;
}

static void null_reset(struct engine *e, unsigned stream, bool forgets) {
    (void)forgets;
    memset(past_of(e, stream), 0, engine_delay(e) * sizeof(float));
}

static void null_tail(const struct engine *e, unsigned stream, float *tail) {
    const float *past = past_of(e, stream);
    for (unsigned i = 0; i < engine_delay(e); i++)
        tail[i] = e->fade[i] * past[i];
}

const struct engine_type engine_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .process = null_process,
    .reset = null_reset,
    .tail = null_tail,
};
