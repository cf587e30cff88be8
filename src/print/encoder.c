#include "print/encoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int read_metadata(struct safetensors *f, struct encoder *e) {
    struct encoder_config *c = &e->config;
    int code;
    if ((code = metadata_begin(f, "primeknet-voice-1", &e->name)) ||
        (code = metadata_integer(f, &c->rate, "rate", 8000, 48000)) ||
        (code = metadata_window(f, &c->window, ENCODER_MAX_WINDOW)) ||
        (code = metadata_integer(f, &c->hop, "hop", 16, c->window)) ||
        (code = metadata_integer(f, &c->n_bands, "bands", 1, ENCODER_MAX_BANDS)) ||
        (code = metadata_integer(f, &c->stack, "stack", 1, ENCODER_MAX_STACK)) ||
        (code = metadata_number(f, &c->floor, "floor", 1e-12, 1e3)) || (code = metadata_channels(f, &c->channels)) ||
        (code = metadata_integer(f, &c->n_layers, "layers", 1, ENCODER_MAX_LAYERS)) ||
        (code = metadata_integer(f, &c->size, "size", 1, ENCODER_MAX_SIZE)))
        return code;
    c->n_bins = c->window / 2 + 1;
    const unsigned shortest = c->window + (c->stack - 1) * c->hop; /* makes one step */
    if ((code = metadata_integer(f, &c->span, "span", shortest, ENCODER_MAX_SPAN * c->hop)) ||
        (code = metadata_integer(f, &c->step, "step", c->hop, c->span)) ||
        (code = metadata_integer(f, &c->least, "least", shortest, c->span)) ||
        (code = metadata_number(f, &c->silence, "silence", 1e-9, 1)))
        return code;
    return metadata_number(f, &c->quiet, "quiet", 0, .9);
}

static void want(struct tensors *t, const char *name, unsigned rows, unsigned columns, const float **field) {
    tensors_want(t, name, (const size_t[TENSOR_MAX_DIMS + 1]){rows, columns}, field);
}

static void want_linear(struct tensors *t, const char *name, unsigned n_out, unsigned n_in, struct linear_weights *l) {
    char full[TENSOR_MAX_NAME];
    l->n_out = n_out;
    l->n_in = n_in;
    snprintf(full, sizeof full, "%s.weight", name);
    want(t, full, n_out, n_in, &l->weight);
    snprintf(full, sizeof full, "%s.bias", name);
    want(t, full, n_out, 0, &l->bias);
}

static int read_tensors(struct safetensors *f, struct encoder *e) {
    const struct encoder_config *c = &e->config;
    struct encoder_weights *w = &e->weights;
    struct tensors *t = &e->tensors;
    want(t, "window", c->window, 0, &w->window);
    want(t, "bands", c->n_bands, c->n_bins, &w->bands);
    want_linear(t, "in", c->channels, c->stack * c->n_bands, &w->in);
    want(t, "in.prelu", c->channels, 0, &w->in_prelu);
    for (unsigned l = 0; l < c->n_layers; l++) {
        char name[TENSOR_MAX_NAME / 2];
        snprintf(name, sizeof name, "gru.%u.in", l);
        want_linear(t, name, 3 * c->channels, c->channels, &w->gru_in[l]);
        snprintf(name, sizeof name, "gru.%u.state", l);
        want_linear(t, name, 3 * c->channels, c->channels, &w->gru_state[l]);
    }
    want_linear(t, "pool", 1, c->channels, &w->pool);
    want_linear(t, "out", c->size, c->channels, &w->out);
    return tensors_read(t, f);
}

/* With these values no sound makes a result overflow. */
static int check_values(struct safetensors *f, const struct encoder *e) {
    const struct encoder_config *c = &e->config;
    for (unsigned i = 0; i < e->tensors.n; i++)
        for (size_t j = 0; j < e->tensors.all[i].n; j++)
            if (!(fabsf(e->tensors.all[i].data[j]) <= 1e6f))
                return tensor_wrong(f, e->tensors.all[i].name, "holds a value whose magnitude is above 1e6");
    for (size_t i = 0; i < (size_t)c->n_bands * c->n_bins; i++)
        if (e->weights.bands[i] < 0)
            return tensor_wrong(f, "bands", "holds a negative value");
    return 0;
}

int encoder_read(struct encoder *e, const char *path, struct err *err) {
    *e = (struct encoder){0};
    struct safetensors f;
    int code = safetensors_open(&f, path, err);
    if (!code && !(code = read_metadata(&f, e)) && !(code = read_tensors(&f, e)))
        code = check_values(&f, e);
    safetensors_close(&f);
    if (code)
        encoder_done(e);
    return code;
}

void encoder_done(struct encoder *e) {
    tensors_done(&e->tensors);
    free(e->name);
    *e = (struct encoder){0};
}
