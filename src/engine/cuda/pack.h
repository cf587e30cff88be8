/* pack.h - arrays of weights that both parts of the CUDA module lay out alike. */
#ifndef PRIMEKNET_PACK_H
#define PRIMEKNET_PACK_H

#include "engine/cuda/arena.h"
#include "model/model.h"

#include <math.h>

/* The place of a gate's output o of n: outputs of its two halves become neighbours. */
static inline unsigned gate_place(unsigned o, unsigned n) {
    return o % (n / 2) * 2 + o / (n / 2);
}

/* from [n_rows][n_columns] -> [n_columns][width], of which n_rows are used. */
static inline float *arena_transposed(struct arena *a, const float *from, unsigned n_rows, unsigned n_columns,
                                      unsigned width) {
    float *host, *to = arena_place(a, (size_t)n_columns * width, &host);
    for (unsigned r = 0; host && r < n_rows; r++)
        for (unsigned i = 0; i < n_columns; i++)
            host[(size_t)i * width + r] = from[(size_t)r * n_columns + i];
    return to;
}

/* from [n_channels][n_states] -> [n_states][n_channels], times log2 e, since the kernels compute powers of two. */
static inline float *arena_decay(struct arena *a, const float *from, unsigned n_channels, unsigned n_states) {
    float *host, *to = arena_place(a, (size_t)n_channels * n_states, &host);
    for (unsigned j = 0; host && j < n_channels * n_states; j++)
        host[(size_t)(j % n_states) * n_channels + j / n_states] = (float)(from[j] * M_LOG2E);
    return to;
}

/* The bands of the bins from n_linear on: edges [n_bands + 1], below [n_bins - n_linear] as in model_band_below, and
 * share, the weight of the next band. */
struct bands {
    const unsigned *edges, *below;
    const float *share;
};

static inline struct bands arena_bands(struct arena *a, const struct model_config *g) {
    const unsigned n = g->n_bins - g->n_linear;
    float *edges, *below, *share;
    const struct bands b = {.edges = (const unsigned *)(void *)arena_place(a, g->n_bands + 1, &edges),
                            .below = (const unsigned *)(void *)arena_place(a, n, &below),
                            .share = arena_place(a, n, &share)};
    if (share)
        memcpy(edges, g->band_edges, (g->n_bands + 1) * sizeof *g->band_edges);
    for (unsigned i = 0; share && i < n; i++)
        ((unsigned *)(void *)below)[i] = model_band_below(g, g->n_linear + i, &share[i]);
    return b;
}

#endif
