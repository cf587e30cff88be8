#include "net/stft.h"

#include "kernels/fft/fft.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stft {
    unsigned window, synthesis, hop;
    const float *analysis_window, *synthesis_window;
    const struct kernels *k;
    struct pool pool; /* owns the arrays below */
    struct fft_plan forward, inverse;
    float *frame; /* [W] */
};

int stft_new(struct stft **ret, const struct model *model, const struct kernels *kernels) {
    const struct model_config *g = model_config(model);
    struct stft *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->window = g->window;
    t->synthesis = g->synthesis;
    t->hop = g->hop;
    t->analysis_window = model_weights(model)->analysis_window;
    t->synthesis_window = model_weights(model)->synthesis_window;
    t->k = kernels;
    const size_t n_plan = fft_plan_init(&t->forward, NULL, g->window, false);
    float *const forward = pool_floats(&t->pool, n_plan), *const inverse = pool_floats(&t->pool, n_plan);
    t->frame = pool_floats(&t->pool, g->window);
    fft_plan_init(&t->forward, forward, g->window, false);
    fft_plan_init(&t->inverse, inverse, g->window, true);
    if (!pool_ok(&t->pool)) {
        stft_free(t);
        return -ENOMEM;
    }
    *ret = t;
    return 0;
}

void stft_free(struct stft *t) {
    if (!t)
        return;
    pool_done(&t->pool);
    free(t);
}

void stft_state_init(const struct stft *t, struct stft_state *s, struct pool *pool) {
    s->past = pool_floats(pool, t->window - t->hop);
    s->overlap = pool_floats(pool, t->synthesis);
}

void stft_analyse(struct stft *t, struct stft_state *s, const float *in, float complex *spectrum) {
    unsigned n_past = t->window - t->hop;
    memcpy(t->frame, s->past, n_past * sizeof *t->frame);
    memcpy(t->frame + n_past, in, t->hop * sizeof *t->frame);
    memcpy(s->past, t->frame + t->hop, n_past * sizeof *t->frame);
    for (unsigned i = 0; i < t->window; i++)
        t->frame[i] *= t->analysis_window[i];
    t->k->fft(&(struct fft){.plan = &t->forward, .in = t->frame, .out = (float *)spectrum});
}

void stft_synthesise(struct stft *t, struct stft_state *s, const float complex *spectrum, float *out) {
    unsigned n_kept = t->synthesis - t->hop;
    t->k->fft(&(struct fft){.plan = &t->inverse, .in = (const float *)spectrum, .out = t->frame}); /* scaled by W */
    const float *frame = t->frame + t->window - t->synthesis;
    float scale = 1.f / (float)t->window;
    for (unsigned i = 0; i < t->synthesis; i++)
        s->overlap[i] += frame[i] * t->synthesis_window[i] * scale;
    memcpy(out, s->overlap, t->hop * sizeof *out);
    memmove(s->overlap, s->overlap + t->hop, n_kept * sizeof *s->overlap);
    memset(s->overlap + n_kept, 0, t->hop * sizeof *s->overlap);
}

void stft_tail(const struct stft *t, const struct stft_state *s, float *tail) {
    memcpy(tail, s->overlap, (t->synthesis - t->hop) * sizeof *tail);
}

void stft_fade(const struct model *model, float *fade) {
    const struct model_config *g = model_config(model);
    const float *analysis = model_weights(model)->analysis_window + g->window - g->synthesis;
    const float *synthesis = model_weights(model)->synthesis_window;
    for (unsigned i = 0; i + g->hop < g->synthesis; i++) {
        fade[i] = 0;
        for (unsigned j = i + g->hop; j < g->synthesis; j += g->hop)
            fade[i] += analysis[j] * synthesis[j];
    }
}
