#include "print/print.h"

#include "kernels/gru/gru.h"
#include "kernels/kernels.h"
#include "kernels/linear/linear.h"
#include "model/pool.h"
#include "print/encoder.h"
#include "print/features.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A linear layer, packed for the kernels. */
struct layer {
    unsigned n_in, n_out;
    float *weight, *bias, *prelu;
};

struct voice_print {
    struct encoder encoder; /* without its tensors */
    const struct kernels *k;
    struct pool pool; /* owns the arrays below, and those of layers and features */
    struct features features;
    struct layer in, gru_in[ENCODER_MAX_LAYERS], gru_state[ENCODER_MAX_LAYERS], pooling, out;
    float *steps;         /* [n_steps][stack * n_bands] */
    float *map;           /* [n_steps][channels]: each layer's input and output */
    float *gates, *state; /* [n_steps][3 * channels], [3 * channels]: products of a GRU's input and of its state */
    float *h, *y, *sum;   /* [channels], [padded size], [size] */
};

/* ---- opening ---- */

static void pack(struct layer *l, struct pool *pool, const struct linear_weights *from, const float *prelu) {
    const unsigned padded = linear_padded(from->n_out);
    *l = (struct layer){.n_in = from->n_in, .n_out = from->n_out};
    if ((l->weight = pool_floats(pool, (size_t)padded * from->n_in)))
        linear_pack(l->weight, from->weight, from->n_out, from->n_in);
    if ((l->bias = pool_floats(pool, padded)))
        memcpy(l->bias, from->bias, from->n_out * sizeof *l->bias);
    if (prelu && (l->prelu = pool_floats(pool, padded)))
        memcpy(l->prelu, prelu, from->n_out * sizeof *l->prelu);
}

static void prepare(struct voice_print *p) {
    const struct encoder_config *g = &p->encoder.config;
    const struct encoder_weights *w = &p->encoder.weights;
    features_init(&p->features, &p->encoder, p->k, &p->pool);
    pack(&p->in, &p->pool, &w->in, w->in_prelu);
    for (unsigned l = 0; l < g->n_layers; l++) {
        pack(&p->gru_in[l], &p->pool, &w->gru_in[l], NULL);
        pack(&p->gru_state[l], &p->pool, &w->gru_state[l], NULL);
    }
    pack(&p->pooling, &p->pool, &w->pool, NULL);
    pack(&p->out, &p->pool, &w->out, NULL);
    const size_t n_steps = features_n_steps(g, g->span), c = g->channels;
    p->steps = pool_floats(&p->pool, n_steps * g->stack * g->n_bands);
    p->map = pool_floats(&p->pool, n_steps * c);
    p->gates = pool_floats(&p->pool, n_steps * 3 * c);
    p->state = pool_floats(&p->pool, 3 * c);
    p->h = pool_floats(&p->pool, c);
    p->y = pool_floats(&p->pool, linear_padded(g->size));
    p->sum = pool_floats(&p->pool, g->size);
}

int voice_print_open(struct voice_print **ret, const char *path, const struct kernels *kernels, struct err *err) {
    struct voice_print *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    p->k = kernels;
    int code = encoder_read(&p->encoder, path, err);
    if (code == 0) {
        prepare(p);
        tensors_done(&p->encoder.tensors);
        if (!pool_ok(&p->pool))
            code = err_set(err, -ENOMEM, "%s: out of memory", path);
    }
    if (code)
        voice_print_close(p);
    else
        *ret = p;
    return code;
}

void voice_print_close(struct voice_print *p) {
    if (!p)
        return;
    pool_done(&p->pool);
    encoder_done(&p->encoder);
    free(p);
}

const char *voice_print_name(const struct voice_print *p) {
    return p->encoder.name;
}

unsigned voice_print_rate(const struct voice_print *p) {
    return p->encoder.config.rate;
}

unsigned voice_print_size(const struct voice_print *p) {
    return p->encoder.config.size;
}

/* ---- one window ---- */

/* x [n_rows][n_in] -> y [n_rows][y_stride]. */
static void run(const struct voice_print *p, const struct layer *l, unsigned n_rows, const float *x, float *y,
                size_t y_stride) {
    p->k->linear(&(struct linear){.n_rows = n_rows,
                                  .n_in = l->n_in,
                                  .n_out = l->n_out,
                                  .x = x,
                                  .x_stride = l->n_in,
                                  .weight = l->weight,
                                  .bias = l->bias,
                                  .prelu = l->prelu,
                                  .y = y,
                                  .y_stride = y_stride});
}

/* One layer over all steps of the map, in place. */
static void recur(struct voice_print *p, unsigned layer, unsigned n_steps) {
    const unsigned c = p->encoder.config.channels;
    run(p, &p->gru_in[layer], n_steps, p->map, p->gates, 3 * (size_t)c);
    memset(p->h, 0, c * sizeof *p->h);
    for (unsigned s = 0; s < n_steps; s++) {
        run(p, &p->gru_state[layer], 1, p->h, p->state, 3 * (size_t)c);
        p->k->gru(
            &(struct gru){.n_rows = 1, .n_channels = c, .a = p->gates + (size_t)s * 3 * c, .b = p->state, .h = p->h});
        memcpy(p->map + (size_t)s * c, p->h, c * sizeof *p->h);
    }
}

/* Replaces h by the mean of the map's steps, each weighted by the softmax of the pooling layer's output. */
static void pool_steps(struct voice_print *p, unsigned n_steps) {
    const unsigned c = p->encoder.config.channels;
    run(p, &p->pooling, n_steps, p->map, p->gates, LINEAR_PANEL);
    float most = -INFINITY, sum = 0;
    for (unsigned s = 0; s < n_steps; s++)
        most = fmaxf(most, p->gates[s * LINEAR_PANEL]);
    memset(p->h, 0, c * sizeof *p->h);
    for (unsigned s = 0; s < n_steps; s++) {
        const float weight = expf(p->gates[s * LINEAR_PANEL] - most);
        sum += weight;
        for (unsigned i = 0; i < c; i++)
            p->h[i] += weight * p->map[(size_t)s * c + i];
    }
    for (unsigned i = 0; i < c; i++)
        p->h[i] /= sum;
}

/* Divides v [n] by its length. */
static void normalise(float *v, unsigned n) {
    double square = 0;
    for (unsigned i = 0; i < n; i++)
        square += (double)v[i] * v[i];
    const double length = fmax(sqrt(square), 1e-12);
    for (unsigned i = 0; i < n; i++)
        v[i] = (float)(v[i] / length);
}

/* Adds the print of the window x [n] to the sum. */
static void add_window(struct voice_print *p, const float *x, size_t n, float gain) {
    const struct encoder_config *g = &p->encoder.config;
    const unsigned n_steps = features_n_steps(g, n);
    features_compute(&p->features, x, n, gain, p->steps);
    run(p, &p->in, n_steps, p->steps, p->map, g->channels);
    for (unsigned l = 0; l < g->n_layers; l++)
        recur(p, l, n_steps);
    pool_steps(p, n_steps);
    run(p, &p->out, 1, p->h, p->y, linear_padded(g->size));
    normalise(p->y, g->size);
    for (unsigned i = 0; i < g->size; i++)
        p->sum[i] += p->y[i];
}

/* ---- all windows ---- */

static double rms(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            sum += (double)x[i] * x[i];
    return sqrt(sum / (double)n);
}

int voice_print_compute(struct voice_print *p, const float *samples, size_t n, float *print) {
    const struct encoder_config *g = &p->encoder.config;
    if (n < g->least)
        return -ENODATA;
    const size_t span = n < g->span ? n : g->span, last = n - span, count = 1 + (last + g->step - 1) / g->step;
    double loudest = 0;
    for (size_t i = 0; i < count; i++)
        loudest = fmax(loudest, rms(samples + (i + 1 < count ? i * g->step : last), span));
    memset(p->sum, 0, g->size * sizeof *p->sum);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const float *window = samples + (i + 1 < count ? i * g->step : last);
        const double level = rms(window, span);
        if (level <= g->silence || level <= g->quiet * loudest)
            continue;
        any = true;
        add_window(p, window, span, (float)(1 / level));
    }
    if (!any)
        return -ENOMSG;
    normalise(p->sum, g->size);
    memcpy(print, p->sum, g->size * sizeof *print);
    return 0;
}

float voice_print_similarity(const float *a, const float *b, unsigned size) {
    double sum = 0;
    for (unsigned i = 0; i < size; i++)
        sum += (double)a[i] * b[i];
    return (float)sum;
}
