#include "model/schema.h"

#include "model/model.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct walk {
    const struct model_config *g;
    schema_visit *visit;
    void *data;
};

static void tensor(const struct walk *w, const float **field, const char *part, const char *name, const char *suffix,
                   const size_t shape[TENSOR_MAX_DIMS + 1]) {
    char full[TENSOR_MAX_NAME];
    snprintf(full, sizeof full, "%s%s%s%s%s", part, *part && *name ? "." : "", name, *suffix ? "." : "", suffix);
    w->visit(w->data, full, shape, field);
}

#define SHAPE(...) ((const size_t[TENSOR_MAX_DIMS + 1]){__VA_ARGS__})

static void linear(const struct walk *w, struct linear_weights *l, const char *part, const char *name, unsigned n_out,
                   unsigned n_in) {
    l->n_out = n_out;
    l->n_in = n_in;
    tensor(w, &l->weight, part, name, "weight", SHAPE(n_out, n_in));
}

enum {
    MAMBA = 1 << MODEL_MAMBA,
    MAMBA2 = 1 << MODEL_MAMBA2,
    GRU = 1 << MODEL_GRU,
    LSTM = 1 << MODEL_LSTM,
    CONVOLVED = MAMBA | MAMBA2,
    ANY = CONVOLVED | GRU | LSTM,
    VOICED = 0x10000,
};

static bool has(const struct model_config *g, unsigned mixers) {
    return mixers == VOICED ? g->voice_size > 0 : mixers >> g->mixer & 1;
}

#define T(field, name, when, ...) \
    if (has(g, when)) \
        tensor(w, &to->field, part, name, "", SHAPE(__VA_ARGS__));
#define M(field, name, when, n_out, n_in) \
    if (has(g, when)) \
        linear(w, &to->field, part, name, n_out, n_in);
#define L(field, name, when, n_out, n_in) \
    if (has(g, when)) { \
        linear(w, &to->field, part, name, n_out, n_in); \
        tensor(w, &to->field.bias, part, name, "bias", SHAPE(n_out)); \
    }
#define WALK(name, type, ROWS) \
    static void name(const struct walk *w, struct type *to, const char *part, unsigned n) { \
        const struct model_config *g = w->g; \
        (void)n; \
        ROWS(T, L, M) \
    }
WALK(network, weights, SCHEMA_NETWORK)
WALK(dense, dense_weights, SCHEMA_DENSE)
WALK(up, up_weights, SCHEMA_UP)
WALK(block, block_weights, SCHEMA_BLOCK)
WALK(time, time_weights, SCHEMA_TIME)
WALK(freq, freq_weights, SCHEMA_FREQ)
WALK(prime, prime_weights, SCHEMA_PRIME)

struct part {
    char name[TENSOR_MAX_NAME / 2];
};

__attribute__((format(printf, 1, 2))) static struct part part(const char *format, ...) {
    struct part p;
    va_list args;
    va_start(args, format);
    vsnprintf(p.name, sizeof p.name, format, args);
    va_end(args);
    return p;
}

void schema_walk(const struct model_config *g, struct weights *to, schema_visit *visit, void *data) {
    const struct walk w = {g, visit, data};
    network(&w, to, "", 0);
    for (unsigned i = 0; i < g->depth; i++) {
        dense(&w, &to->encoder[i], part("encoder.%u", i).name, i);
        dense(&w, &to->mask[i], part("mask.%u", i).name, i);
        dense(&w, &to->phase[i], part("phase.%u", i).name, i);
    }
    for (unsigned b = 0; b < g->n_blocks; b++) {
        struct block_weights *of = &to->blocks[b];
        for (unsigned i = 0; i < g->n_time; i++)
            time(&w, &of->time[i], part("block.%u.time.%u", b, i).name, 0);
        for (unsigned i = 0; i < g->n_freq; i++) {
            freq(&w, &of->freq[i], part("block.%u.freq.%u", b, i).name, 0);
            for (unsigned k = 0; k < g->n_kernels; k++)
                prime(&w, &of->freq[i].prime[k], part("block.%u.freq.%u.prime.%u", b, i, k).name, k);
        }
        block(&w, of, part("block.%u", b).name, 0);
    }
    up(&w, &to->mask_up, "mask.up", 1);
    up(&w, &to->phase_up, "phase.up", 2);
}
