#include "model/model_type.h"

#include "base/beside.h"
#include "model/safetensors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- metadata ---- */

static int read_geometry(struct safetensors *f, struct model_config *c) {
    int code;
    unsigned n_edges = 0;
    if ((code = metadata_integer(f, &c->rate, "rate", 8000, 192000)) || (code = metadata_window(f, &c->window, 4096)) ||
        (code = metadata_integer(f, &c->synthesis, "synthesis", 32, c->window)) ||
        (code = metadata_integer(f, &c->hop, "hop", 16, c->synthesis / 2)))
        return code;
    if (c->synthesis % c->hop)
        return metadata_wrong(f, "hop", "does not divide the synthesis window");
    c->n_bins = c->window / 2 + 1;
    if ((code = metadata_integer(f, &c->n_linear, "linear_bins", 1, c->n_bins)) ||
        (code = metadata_list(f, c->band_edges, &n_edges, "band_edges", MODEL_MAX_BANDS + 1, c->n_linear, c->n_bins)))
        return code;
    if (n_edges ? n_edges < 3 || c->band_edges[0] != c->n_linear || c->band_edges[n_edges - 1] != c->n_bins
                : c->n_linear != c->n_bins)
        return metadata_wrong(f, "band_edges",
                              "must run from the last linear bin to the last bin in at least two bands");
    c->n_bands = n_edges ? n_edges - 1 : 0;
    c->n_positions = c->n_linear + c->n_bands;
    if (c->n_positions % 2 == 0 || c->n_positions < 3)
        return metadata_wrong(f, "band_edges", "linear bins plus bands must be an odd number of at least 3");
    c->n_half = (c->n_positions - 1) / 2;
    return 0;
}

static int read_constants(struct safetensors *f, struct model_config *c) {
    int code;
    const char *text;
    if ((code = metadata_number(f, &c->scale, "scale", 1e-3, 1e6)) ||
        (code = metadata_number(f, &c->compression, "compression", .1, 1)) ||
        (code = metadata_number(f, &c->mask_ceiling, "mask_ceiling", 1, 8)) ||
        (code = metadata_number(f, &c->mask_minimum, "mask_minimum", 0, 1)) ||
        (code = metadata_number(f, &c->rotation_epsilon, "rotation_epsilon", 1e-12, 1e-2)) ||
        (code = metadata_number(f, &c->magnitude_minimum, "magnitude_minimum", 1e-12, 1e-2)) ||
        (code = metadata_number(f, &c->power_minimum, "power_minimum", 1e-24, 1e-4)) ||
        (code = metadata_number(f, &c->norm_epsilon, "norm_epsilon", 1e-12, 1e-1)) ||
        (code = metadata_text(f, &text, "band_gain_maximum")))
        return code;
    c->band_gain_maximum = INFINITY;
    return strcmp(text, "none") ? metadata_number(f, &c->band_gain_maximum, "band_gain_maximum", 0, 1e3) : 0;
}

static int read_mixer(struct safetensors *f, struct model_config *c) {
    static const char *const words[] = {"mamba", "mamba2", "gru", "lstm"};
    const unsigned n_words = sizeof words / sizeof *words;
    const char *mixer;
    unsigned word = 0, expand;
    int code = metadata_text(f, &mixer, "mixer");
    if (code)
        return code;
    while (word < n_words && strcmp(mixer, words[word]))
        word++;
    if (word == n_words)
        return metadata_wrong(f, "mixer", "must be 'mamba', 'mamba2', 'gru' or 'lstm'");
    c->mixer = (enum model_mixer)word;
    c->d_inner = c->channels;
    if (c->mixer != MODEL_MAMBA && c->mixer != MODEL_MAMBA2)
        return 0;
    if ((code = metadata_integer(f, &c->d_state, "d_state", 16, 64)) ||
        (code = metadata_integer(f, &c->d_conv, "d_conv", 2, 8)) ||
        (code = metadata_integer(f, &expand, "expand", 1, 4)))
        return code;
    if (c->d_state % 16)
        return metadata_wrong(f, "d_state", "not a multiple of 16");
    c->d_inner = expand * c->channels;
    if (c->mixer == MODEL_MAMBA)
        return metadata_integer(f, &c->step_rank, "step_rank", 1, 64);
    if ((code = metadata_integer(f, &c->head_dim, "head", 16, c->d_inner)))
        return code;
    if (c->head_dim % 16 || c->d_inner % c->head_dim)
        return metadata_wrong(f, "head", "not a multiple of 16 that divides expand times channels");
    return 0;
}

static int read_shape(struct safetensors *f, struct model_config *c) {
    int code;
    if ((code = metadata_channels(f, &c->channels)) ||
        (code = metadata_integer(f, &c->depth, "depth", 1, MODEL_MAX_DEPTH)) ||
        (code = metadata_integer(f, &c->n_blocks, "blocks", 1, MODEL_MAX_BLOCKS)) ||
        (code = metadata_integer(f, &c->n_time, "time_layers", 1, MODEL_MAX_LAYERS)) ||
        (code = metadata_integer(f, &c->n_freq, "frequency_layers", 1, MODEL_MAX_LAYERS)) ||
        (code = metadata_list(f, c->kernels, &c->n_kernels, "kernels", MODEL_MAX_KERNELS, 1, 63)))
        return code;
    if (!c->n_kernels)
        return metadata_wrong(f, "kernels", "empty");
    for (unsigned i = 0; i < c->n_kernels; i++)
        if (c->kernels[i] % 2 == 0)
            return metadata_wrong(f, "kernels", "not odd");
    return read_mixer(f, c);
}

static int read_voice(struct safetensors *f, struct model *m) {
    const char *encoder;
    int code;
    if (!metadata_has(f, "voice_size") && !metadata_has(f, "voice_encoder"))
        return 0;
    if ((code = metadata_integer(f, &m->config.voice_size, "voice_size", 1, MODEL_MAX_VOICE)) ||
        (code = metadata_text(f, &encoder, "voice_encoder")))
        return code;
    m->voice_encoder = strdup(encoder);
    return m->voice_encoder ? 0 : err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
}

static int read_config(struct safetensors *f, struct model_config *c) {
    int code;
    c->share = 1;
    if ((code = read_geometry(f, c)) || (code = read_constants(f, c)) ||
        (metadata_has(f, "share") && (code = metadata_number(f, &c->share, "share", 1e-3, 1))))
        return code;
    return read_shape(f, c);
}

static bool same_frames(const struct model_config *a, const struct model_config *b) {
    return a->rate == b->rate && a->window == b->window && a->synthesis == b->synthesis && a->hop == b->hop;
}

/* Says which network the functions of safetensors.h read. */
static void set_network(struct safetensors *f, unsigned network) {
    f->prefix[0] = '\0';
    if (network > 1)
        snprintf(f->prefix, sizeof f->prefix, "%u.", network);
}

/* Reads the configurations of the networks after the first one. */
static int read_further(struct safetensors *f, struct model *first) {
    unsigned n = 1;
    int code = metadata_has(f, "networks") ? metadata_integer(f, &n, "networks", 1, MODEL_MAX_NETWORKS) : 0;
    struct model *last = first;
    for (unsigned i = 2; i <= n && !code; i++) {
        if (!(last->next = calloc(1, sizeof *last)) || !(last->next->name = strdup(first->name)))
            return err_set(f->err, -ENOMEM, "%s: out of memory", f->path);
        last = last->next;
        set_network(f, i);
        if (!(code = read_config(f, &last->config)) && !same_frames(&first->config, &last->config))
            code = err_set(f->err, -EINVAL, "%s: network %u: rate, windows or hop are not those of the first one",
                           f->path, i);
        last->config.voice_size = first->config.voice_size;
    }
    return code;
}

static int read_metadata(struct safetensors *f, struct model *m) {
    int code;
    if ((code = metadata_begin(f, "primeknet-1", &m->name)) || (code = read_config(f, &m->config)) ||
        (code = read_voice(f, m)))
        return code;
    code = read_further(f, m);
    set_network(f, 1);
    return code;
}

/* ---- tensors ---- */

struct wanted {
    struct tensors *tensors;
    const char *prefix; /* of the network's names */
};

static void want(void *data, const char *name, const size_t shape[TENSOR_MAX_DIMS + 1], const float **field) {
    const struct wanted *w = data;
    char full[TENSOR_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", w->prefix, name);
    tensors_want(w->tensors, full, shape, field);
}

static int read_tensors(struct safetensors *f, struct model *first) {
    unsigned network = 1;
    for (struct model *m = first; m; m = m->next) {
        set_network(f, network++);
        schema_walk(&m->config, &m->weights, want, &(struct wanted){&first->tensors, f->prefix});
    }
    set_network(f, 1);
    return tensors_read(&first->tensors, f);
}

/* Synthesis must undo analysis: at each position in a hop, the products of the windows of all frames that cover it add
 * up to 1. */
static int check_windows(struct safetensors *f, const struct model *m) {
    const struct model_config *g = &m->config;
    const float *analysis = m->weights.analysis_window + g->window - g->synthesis;
    const float *synthesis = m->weights.synthesis_window;
    for (unsigned i = 0; i < g->hop; i++) {
        double sum = 0;
        for (unsigned j = i; j < g->synthesis; j += g->hop)
            sum += (double)analysis[j] * synthesis[j];
        if (!(fabs(sum - 1) < 1e-4))
            return tensor_wrong(f, "window.synthesis",
                                "does not undo window.analysis: their overlapped product is not 1");
    }
    return 0;
}

/* A scan with a positive decay rate would diverge. */
static int check_decays(struct safetensors *f, const struct model *m) {
    const struct model_config *g = &m->config;
    size_t n = 0;
    if (g->mixer == MODEL_MAMBA)
        n = (size_t)g->d_inner * g->d_state;
    else if (g->mixer == MODEL_MAMBA2)
        n = g->d_inner / g->head_dim;
    for (unsigned b = 0; b < g->n_blocks; b++)
        for (unsigned i = 0; i < g->n_time; i++) {
            const struct time_weights *t = &m->weights.blocks[b].time[i];
            const float *decay = g->mixer == MODEL_MAMBA ? t->decay : t->head_decay;
            for (size_t j = 0; j < n; j++)
                if (decay[j] > 0)
                    return err_set(f->err, -EINVAL, "%s: tensor '%sblock.%u.time.%u.decay': holds a positive value",
                                   f->path, f->prefix, b, i);
        }
    return 0;
}

static int check_tensors(struct safetensors *f, const struct model *first) {
    int code = 0;
    unsigned network = 1;
    for (const struct model *m = first; m && !code; m = m->next) {
        set_network(f, network++);
        if (!(code = check_windows(f, m)))
            code = check_decays(f, m);
    }
    return code;
}

/* ---- the file ---- */

static int load(struct model **ret, const char *path, struct err *err) {
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    struct safetensors f;
    int code = safetensors_open(&f, path, err);
    if (!code && !(code = read_metadata(&f, m)) && !(code = read_tensors(&f, m)))
        code = check_tensors(&f, m);
    safetensors_close(&f);
    if (code)
        model_free(m);
    else
        *ret = m;
    return code;
}

/* ---- one voice ---- */

/* y = W (x (1 + scale) + shift) + b has the weights W (1 + scale) and the bias W shift + b. */
static void fold(const struct model_config *g, struct time_weights *t, const float *print) {
    float *const weight = (float *)t->in.weight, *const bias = (float *)t->in.bias; /* of m->tensors, which is ours */
    for (unsigned c = 0; c < g->channels; c++) {
        double scale = 0, shift = 0;
        for (unsigned i = 0; i < g->voice_size; i++) {
            scale += (double)t->voice.weight[(size_t)c * g->voice_size + i] * print[i];
            shift += (double)t->voice.weight[(size_t)(g->channels + c) * g->voice_size + i] * print[i];
        }
        for (unsigned o = 0; (scale != 0 || shift != 0) && o < t->in.n_out; o++) {
            float *w = weight + (size_t)o * g->channels + c;
            bias[o] += *w * (float)shift;
            *w *= 1 + (float)scale;
        }
    }
}

int model_keep_voice(struct model *m, const char *encoder, const float *print, unsigned size, struct err *err) {
    const struct model_config *g = &m->config;
    if (!g->voice_size)
        return err_set(err, -ENOTSUP, "model %s cannot tell voices apart", m->name);
    if (strcmp(encoder, m->voice_encoder))
        return err_set(err, -EINVAL, "model %s takes prints by %s, not by %s", m->name, m->voice_encoder, encoder);
    if (size != g->voice_size)
        return err_set(err, -EINVAL, "model %s takes prints of %u numbers, not of %u", m->name, g->voice_size, size);
    for (; m; m = m->next)
        for (unsigned b = 0; b < m->config.n_blocks; b++)
            for (unsigned i = 0; i < m->config.n_time; i++)
                fold(&m->config, &m->weights.blocks[b].time[i], print);
    return 0;
}

/* ---- shipped models ---- */

static bool is_file(char path[PATH_MAX], const char *dir, const char *name) {
    int n = snprintf(path, PATH_MAX, "%s/%s.safetensors", dir, name);
    return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

static bool beside_program(char path[PATH_MAX], const char *name) {
    char file[NAME_MAX];
    const int n = snprintf(file, sizeof file, "models/%s.safetensors", name);
    return n < (int)sizeof file && beside_find(path, file);
}

int model_load(struct model **ret, const char *name_or_path, struct err *err) {
    const char *dot = strrchr(name_or_path, '.'), *chosen = getenv("PRIMEKNET_MODELS");
    if (strchr(name_or_path, '/') || (dot && !strcmp(dot, ".safetensors")))
        return load(ret, name_or_path, err);
    char path[PATH_MAX];
    if (chosen ? is_file(path, chosen, name_or_path)
               : beside_program(path, name_or_path) || is_file(path, MODELDIR, name_or_path))
        return load(ret, path, err);
    return err_set(err, -ENOENT, "%s: no model of that name in %s", name_or_path, chosen ? chosen : MODELDIR);
}

void model_free(struct model *m) {
    if (!m)
        return;
    model_free(m->next);
    tensors_done(&m->tensors);
    free(m->name);
    free(m->voice_encoder);
    free(m);
}
