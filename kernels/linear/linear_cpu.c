/* Tiles of at most ROWS positions by PANELS panels of outputs stay in registers while the inputs are walked through. Inputs
 * that do not lie ready in a map are gathered first, for a block of positions that the first-level cache has room for.
 * Positions are shared out so that blocks, and tiles, differ by at most one. With bfloat16 products inputs are rounded as they
 * are gathered, and a step of the walk is two of them. */
#include "kernels/depthwise/depthwise.h"
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

#if LANES == 16 /* 32 registers: 28 sums, 2 weights */
enum { ROWS = 14, PANELS = 2 };
#elif LANES == 8 /* 16 registers: 12 sums, 2 weights, an input */
enum { ROWS = 6, PANELS = 1 };
#elif defined __aarch64__ /* 32 registers: 24 sums, 4 weights, an input */
enum { ROWS = 6, PANELS = 1 };
#else /* 16 registers: 12 sums, a product, an input */
enum { ROWS = 3, PANELS = 1 };
#endif

enum { GATHERED = 8192 /* floats: 32 KiB */, LEAST_BLOCK = 14 };

enum { PANEL_VECTORS = LINEAR_PANEL / LANES };

/* The inputs of some positions: floats, or pairs of bfloat16, which are as wide. */
struct linear_inputs {
    const float *v;
    size_t stride;
    unsigned n_steps;
};

/* ---- inputs of a block ---- */

static inline __attribute__((always_inline)) void linear_map(const struct linear *a, struct rows to, unsigned row,
                                                             unsigned rows) {
    for (unsigned r = 0; r < rows; r++)
        for (size_t i = 0; i < a->n_in; i += LANES)
            put(to, r, i, load(a->x + (row + r) * a->x_stride + i));
}

/* LANES positions at a time, so that their means and scales are one vector each. */
static inline __attribute__((always_inline)) void linear_norm_tile(const struct linear *a, struct rows to, unsigned row,
                                                                   unsigned to_row, const unsigned rows) {
    const float share = 1.f / (float)a->n_in, *x = a->x + row * a->x_stride;
    const size_t stride = a->x_stride;
    vf sum[LANES], means, scales;
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = splat(0);
    for (size_t i = 0; i < a->n_in; i += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] += load(x + r * stride + i);
    }
    means = across_each(sum) * share;
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = splat(0);
    for (size_t i = 0; i < a->n_in; i += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++) {
            vf d = load(x + r * stride + i) - splat(means[r]);
            sum[r] += d * d;
        }
    }
    scales = inverse_root(across_each(sum) * share + a->epsilon);
    for (size_t i = 0; i < a->n_in; i += LANES) {
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            put(to, to_row + r, i, (load(x + r * stride + i) - splat(means[r])) * splat(scales[r]));
    }
}

/* The last tile moves back over positions already done rather than be short. */
static inline __attribute__((always_inline)) void linear_norm(const struct linear *a, struct rows to, unsigned row,
                                                              unsigned rows) {
    if (rows >= LANES)
        for (unsigned done = 0; done < rows; done += LANES) {
            unsigned first = rows - done < LANES ? rows - LANES : done;
            linear_norm_tile(a, to, row + first, first, LANES);
        }
    else
        for (unsigned r = 0; r < rows; r++)
            linear_norm_tile(a, to, row + r, r, 1);
}

static inline __attribute__((always_inline)) void linear_gate(const struct linear *a, struct rows to, unsigned row,
                                                              unsigned rows) {
    for (unsigned r = 0; r < rows; r++) {
        const float *x = a->x + (row + r) * a->x_stride;
        for (size_t i = 0; i < a->n_in; i += LANES)
            put(to, r, i, load(x + i) * load(x + a->n_in + i));
    }
}

static inline __attribute__((always_inline)) void linear_convs(const struct linear *a, struct rows to, unsigned row,
                                                               unsigned rows) {
    size_t column = 0;
    for (unsigned i = 0; i < a->n_convs; column += a->convs[i++].n_channels)
        depthwise_rows(a->convs + i, row, rows, to, column);
}

/* ---- products ---- */

static inline vf linear_product(vf sum, vf weight, const float *in, const bool pairs) {
#ifdef __AVX512BF16__
    if (pairs)
        return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)_mm512_set1_epi32(*(const int_alias *)in));
#endif
    (void)pairs;
    return sum + splat(*in) * weight;
}

static inline __attribute__((always_inline)) void linear_tile(const struct linear *a, struct linear_inputs from, unsigned row,
                                                              unsigned panel, const unsigned rows, const unsigned panels,
                                                              const bool pairs) {
    enum { SHARED = 3 }; /* rows for each pointer: one or two strides further costs an address nothing */
    const unsigned n = panels * PANEL_VECTORS;
    const size_t next_panel = (size_t)from.n_steps * LINEAR_PANEL, stride = from.stride;
    const float *in[(ROWS + SHARED - 1) / SHARED], *w = a->weight + panel * next_panel, *end = w + next_panel;
    const size_t out = panel * LINEAR_PANEL;
    vf sum[ROWS][PANELS * PANEL_VECTORS];
    UNROLL
    for (unsigned r = 0; r < rows; r += SHARED)
        in[r / SHARED] = from.v + r * stride;
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = load(a->bias + out + v * LANES);
    for (; w < end; w += LINEAR_PANEL) {
        vf weight[PANELS * PANEL_VECTORS];
        UNROLL
        for (unsigned v = 0; v < n; v++)
            weight[v] = load(w + (v / PANEL_VECTORS) * next_panel + v % PANEL_VECTORS * LANES);
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] = linear_product(sum[r][v], weight[v], in[r / SHARED] + r % SHARED * stride, pairs);
        UNROLL
        for (unsigned r = 0; r < rows; r += SHARED)
            in[r / SHARED]++;
    }
    if (a->prelu)
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] = maximum(sum[r][v], splat(0)) + load(a->prelu + out + v * LANES) * minimum(sum[r][v], splat(0));
    if (a->add) {
        const float *add = a->add + row * a->add_stride + out;
        UNROLL
        for (unsigned r = 0; r < rows; r++, add += a->add_stride)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] += load(add + v * LANES);
    }
    float *y = a->y + row * a->y_stride + out;
    UNROLL
    for (unsigned r = 0; r < rows; r++, y += a->y_stride)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            store(y + v * LANES, sum[r][v]);
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

/* The tiles of some positions; the first is `row`. */
static inline __attribute__((always_inline)) void linear_tiles(const struct linear *a, struct linear_inputs from, unsigned row,
                                                               unsigned rows, const bool pairs) {
    const unsigned n_panels = linear_padded(a->n_out) / LINEAR_PANEL, n_tiles = (rows + ROWS - 1) / ROWS;
    for (unsigned panel = 0; panel < n_panels; panel += PANELS)
        for (unsigned t = 0; t < n_tiles; t++) {
            unsigned first = rows * t / n_tiles, n = rows * (t + 1) / n_tiles - first;
            struct linear_inputs tile = {from.v + first * from.stride, from.stride, from.n_steps};
            if (PANELS == 1 || panel + PANELS > n_panels)
                linear_rows(a, tile, row + first, n, panel, 1, pairs);
            else
                linear_rows(a, tile, row + first, n, panel, PANELS, pairs);
        }
}

static inline __attribute__((always_inline)) void linear_blocks(const struct linear *a, const bool pairs) {
    float v[LEAST_BLOCK * LINEAR_MAX_IN];
    const unsigned n_steps = pairs ? a->n_in / 2 : a->n_in;
    const unsigned most = n_steps * LEAST_BLOCK > GATHERED ? LEAST_BLOCK : GATHERED / n_steps;
    const unsigned n_blocks = (a->n_rows + most - 1) / most;
    const struct rows to = {v, n_steps, pairs};
    for (unsigned b = 0; b < n_blocks; b++) {
        unsigned row = a->n_rows * b / n_blocks, rows = a->n_rows * (b + 1) / n_blocks - row;
        switch (a->of) {
        case LINEAR_OF_MAP: linear_map(a, to, row, rows); break;
        case LINEAR_OF_NORM: linear_norm(a, to, row, rows); break;
        case LINEAR_OF_GATE: linear_gate(a, to, row, rows); break;
        case LINEAR_OF_CONVS: linear_convs(a, to, row, rows); break;
        }
        linear_tiles(a, (struct linear_inputs){v, n_steps, n_steps}, row, rows, pairs);
    }
}

static void linear_cpu(const struct linear *args) {
    const struct linear a = *args; /* the stores might change *args, for all that the compiler knows */
    if (a.of == LINEAR_OF_MAP)
        linear_tiles(&a, (struct linear_inputs){a.x, a.x_stride, a.n_in}, 0, a.n_rows, false);
    else
        linear_blocks(&a, false);
}

#ifdef __AVX512BF16__
static void linear_bf16_cpu(const struct linear *args) {
    const struct linear a = *args;
    linear_blocks(&a, true);
}
#endif
