/* Tiles of ROWS positions by PANELS panels of outputs stay in registers while the inputs are walked through; the rows
 * are shared out so that the tiles differ by at most one row. */
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

#if LANES == 16 /* 32 registers: 28 sums, 2 weights */
enum { ROWS = 14, PANELS = 2 };
#elif LANES == 8 /* 16 registers: 12 sums, 2 weights, an input */
enum { ROWS = 6, PANELS = 1 };
#else /* 16 registers: 12 sums, a product, an input */
enum { ROWS = 3, PANELS = 1 };
#endif

enum { PANEL_VECTORS = LINEAR_PANEL / LANES };

static inline __attribute__((always_inline)) void linear_tile(const struct linear *a, unsigned row, unsigned panel,
                                                              const unsigned rows, const unsigned panels) {
    const unsigned n = panels * PANEL_VECTORS;
    const float *x = a->x + row * a->x_stride, *w = a->weight + (size_t)panel * a->n_in * LINEAR_PANEL;
    const size_t next_panel = (size_t)a->n_in * LINEAR_PANEL;
    const unsigned out = panel * LINEAR_PANEL;
    vf sum[ROWS][PANELS * PANEL_VECTORS];
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = load(a->bias + out + v * LANES);
    for (unsigned i = 0; i < a->n_in; i++, w += LINEAR_PANEL) {
        vf weight[PANELS * PANEL_VECTORS];
        UNROLL
        for (unsigned v = 0; v < n; v++)
            weight[v] = load(w + (v / PANEL_VECTORS) * next_panel + v % PANEL_VECTORS * LANES);
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            vf in = splat(x[r * a->x_stride + i]);
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] += in * weight[v];
        }
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

static inline __attribute__((always_inline)) void linear_rows(const struct linear *a, unsigned row, unsigned rows,
                                                              unsigned panel, const unsigned panels) {
    switch (rows) {
#if LANES == 16
    case 14: linear_tile(a, row, panel, 14, panels); break;
    case 13: linear_tile(a, row, panel, 13, panels); break;
    case 12: linear_tile(a, row, panel, 12, panels); break;
    case 11: linear_tile(a, row, panel, 11, panels); break;
    case 10: linear_tile(a, row, panel, 10, panels); break;
    case 9: linear_tile(a, row, panel, 9, panels); break;
    case 8: linear_tile(a, row, panel, 8, panels); break;
    case 7: linear_tile(a, row, panel, 7, panels); break;
#endif
#if LANES >= 8
    case 6: linear_tile(a, row, panel, 6, panels); break;
    case 5: linear_tile(a, row, panel, 5, panels); break;
    case 4: linear_tile(a, row, panel, 4, panels); break;
#endif
    case 3: linear_tile(a, row, panel, 3, panels); break;
    case 2: linear_tile(a, row, panel, 2, panels); break;
    default: linear_tile(a, row, panel, 1, panels);
    }
}

static void linear_cpu(const struct linear *a) {
    unsigned n_panels = linear_padded(a->n_out) / LINEAR_PANEL, n_tiles = (a->n_rows + ROWS - 1) / ROWS;
    for (unsigned panel = 0; panel < n_panels; panel += PANELS)
        for (unsigned t = 0; t < n_tiles; t++) {
            unsigned row = a->n_rows * t / n_tiles, rows = a->n_rows * (t + 1) / n_tiles - row;
            if (PANELS == 1 || panel + PANELS > n_panels)
                linear_rows(a, row, rows, panel, 1);
            else
                linear_rows(a, row, rows, panel, PANELS);
        }
}
