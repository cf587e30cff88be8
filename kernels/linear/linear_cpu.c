/* Tiles of ROWS positions by PANELS panels of outputs stay in registers while the inputs are walked through; the rows
 * are shared out so that the tiles differ by at most one row. With bfloat16 products a step of the walk is two inputs,
 * rounded a tile of rows at a time. */
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

#include <stdbool.h>

#if LANES == 16 /* 32 registers: 28 sums, 2 weights */
enum { ROWS = 14, PANELS = 2 };
#elif LANES == 8 /* 16 registers: 12 sums, 2 weights, an input */
enum { ROWS = 6, PANELS = 1 };
#elif defined __aarch64__ /* 32 registers: 24 sums, 4 weights, an input */
enum { ROWS = 6, PANELS = 1 };
#else /* 16 registers: 12 sums, a product, an input */
enum { ROWS = 3, PANELS = 1 };
#endif

enum { PANEL_VECTORS = LINEAR_PANEL / LANES };

/* The inputs of a tile's rows: floats, or pairs of bfloat16, which are as wide. */
struct linear_inputs {
    const float *x;
    size_t stride;
    unsigned n_steps;
};

static inline vf linear_product(vf sum, vf weight, const float *in, const bool pairs) {
#ifdef __AVX512BF16__
    if (pairs)
        return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(*(const int_alias *)in), (__m512bh)weight);
#endif
    (void)pairs;
    return sum + splat(*in) * weight;
}

static inline __attribute__((always_inline)) void linear_tile(const struct linear *a, struct linear_inputs from, unsigned row,
                                                              unsigned panel, const unsigned rows, const unsigned panels,
                                                              const bool pairs) {
    const unsigned n = panels * PANEL_VECTORS;
    const size_t next_panel = (size_t)from.n_steps * LINEAR_PANEL;
    const float *x = from.x, *w = a->weight + panel * next_panel;
    const unsigned out = panel * LINEAR_PANEL;
    vf sum[ROWS][PANELS * PANEL_VECTORS];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = load(a->bias + out + v * LANES);
    for (unsigned i = 0; i < from.n_steps; i++, w += LINEAR_PANEL) {
        vf weight[PANELS * PANEL_VECTORS];
        UNROLL
        for (unsigned v = 0; v < n; v++)
            weight[v] = load(w + (v / PANEL_VECTORS) * next_panel + v % PANEL_VECTORS * LANES);
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] = linear_product(sum[r][v], weight[v], x + r * from.stride + i, pairs);
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++) {
            vf y = sum[r][v];
            if (a->prelu)
                y = maximum(y, splat(0)) + load(a->prelu + out + v * LANES) * minimum(y, splat(0));
            if (a->add)
                y += load(a->add + (row + r) * a->add_stride + out + v * LANES);
            store(a->y + (row + r) * a->y_stride + out + v * LANES, y);
        }
}

static inline __attribute__((always_inline)) void linear_rows(const struct linear *a, struct linear_inputs from, unsigned row,
                                                              unsigned rows, unsigned panel, const unsigned panels,
                                                              const bool pairs) {
    switch (rows) {
#if LANES == 16
    case 14: linear_tile(a, from, row, panel, 14, panels, pairs); break;
    case 13: linear_tile(a, from, row, panel, 13, panels, pairs); break;
    case 12: linear_tile(a, from, row, panel, 12, panels, pairs); break;
    case 11: linear_tile(a, from, row, panel, 11, panels, pairs); break;
    case 10: linear_tile(a, from, row, panel, 10, panels, pairs); break;
    case 9: linear_tile(a, from, row, panel, 9, panels, pairs); break;
    case 8: linear_tile(a, from, row, panel, 8, panels, pairs); break;
    case 7: linear_tile(a, from, row, panel, 7, panels, pairs); break;
#endif
#if LANES >= 8 || defined __aarch64__
    case 6: linear_tile(a, from, row, panel, 6, panels, pairs); break;
    case 5: linear_tile(a, from, row, panel, 5, panels, pairs); break;
    case 4: linear_tile(a, from, row, panel, 4, panels, pairs); break;
#endif
    case 3: linear_tile(a, from, row, panel, 3, panels, pairs); break;
    case 2: linear_tile(a, from, row, panel, 2, panels, pairs); break;
    default: linear_tile(a, from, row, panel, 1, panels, pairs);
    }
}

static void linear_cpu(const struct linear *a) {
    unsigned n_panels = linear_padded(a->n_out) / LINEAR_PANEL, n_tiles = (a->n_rows + ROWS - 1) / ROWS;
    for (unsigned panel = 0; panel < n_panels; panel += PANELS)
        for (unsigned t = 0; t < n_tiles; t++) {
            unsigned row = a->n_rows * t / n_tiles, rows = a->n_rows * (t + 1) / n_tiles - row;
            struct linear_inputs from = {a->x + row * a->x_stride, a->x_stride, a->n_in};
            if (PANELS == 1 || panel + PANELS > n_panels)
                linear_rows(a, from, row, rows, panel, 1, false);
            else
                linear_rows(a, from, row, rows, panel, PANELS, false);
        }
}

#ifdef __AVX512BF16__
static void linear_bf16_cpu(const struct linear *a) {
    float pairs[ROWS * LINEAR_BF16_MAX_IN / 2];
    unsigned n_panels = linear_padded(a->n_out) / LINEAR_PANEL, n_tiles = (a->n_rows + ROWS - 1) / ROWS;
    for (unsigned t = 0; t < n_tiles; t++) {
        unsigned row = a->n_rows * t / n_tiles, rows = a->n_rows * (t + 1) / n_tiles - row;
        struct linear_inputs from = {pairs, a->n_in / 2, a->n_in / 2};
        for (unsigned r = 0; r < rows; r++)
            for (unsigned i = 0; i < a->n_in; i += LANES)
                *(__m256i_u *)(pairs + r * from.stride + i / 2) =
                    (__m256i)_mm512_cvtneps_pbh((__m512)load(a->x + (row + r) * a->x_stride + i));
        unsigned panel = 0;
        for (; panel + PANELS <= n_panels; panel += PANELS)
            linear_rows(a, from, row, rows, panel, PANELS, true);
        if (panel < n_panels)
            linear_rows(a, from, row, rows, panel, 1, true);
    }
}
#endif
