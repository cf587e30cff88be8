/* Tiles of at most ROWS positions by PANELS panels of outputs stay in registers while the inputs stream past. Inputs
 * that are not a map are computed first, for a block of positions that fits the first-level cache. Positions are
 * divided evenly among blocks and tiles. The bfloat16 form rounds inputs while it gathers them and takes two per
 * step. */
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

/* The inputs of some positions: floats, or pairs of bfloat16, which have the same width. */
struct linear_inputs {
    const float *v;
    size_t stride;
    unsigned n_steps;
};

/* ---- inputs of a block ---- */

static inline __attribute__((always_inline)) void linear_map(const struct linear *a, struct rows to, unsigned row,
                                                             unsigned rows) {
    const float *x = a->x + row * a->x_stride;
    for (unsigned r = 0; r < rows; r++, x += a->x_stride, to.v += to.stride)
        for (size_t i = 0; i < a->n_in; i += LANES)
            put(to, i, load(x + i));
}

/* Positions per tile of the norm: their sums and sums of squares fill one vector. */
enum { NORM_ROWS = LANES / 2 };

/* One pass: the variance is the mean of squares less the square of the mean. To avoid cancellation, both are taken of
 * the inputs' differences from the first input, which lies at most sqrt(n_in) standard deviations from the mean. */
static inline __attribute__((always_inline)) void linear_norm_tile(const struct linear *a, struct rows to, unsigned row,
                                                                   const unsigned rows) {
    const size_t n = a->n_in, stride = a->x_stride;
    const float *x = a->x + row * stride, share = 1.f / (float)n;
    float scales[LANES], shifts[LANES];
    vf sum[LANES]; /* and sums of squares, NORM_ROWS further on */
    UNROLL
    for (unsigned r = 0; r < NORM_ROWS; r++) {
        vf d = r < rows ? load(x + r * stride) - splat(x[r * stride]) : splat(0);
        sum[r] = d;
        sum[NORM_ROWS + r] = d * d;
    }
    for (size_t i = LANES; i < n; i += LANES) {
        const float *from = x;
        UNROLL
        for (unsigned r = 0; r < rows; r++, from += stride) {
            vf d = load(from + i) - splat(*from);
            sum[r] += d;
            sum[NORM_ROWS + r] += d * d;
        }
    }
    const vf mean = across_each(sum) * share;
    const vf scale = inverse_root(other_half(mean) - mean * mean + a->epsilon);
    store(scales, scale);
    store(shifts, mean * scale);
    for (size_t i = 0; i < n; i += LANES) {
        const float *from = x;
        struct rows y = to;
        UNROLL
        for (unsigned r = 0; r < rows; r++, from += stride, y.v += y.stride)
            put(y, i, (load(from + i) - splat(*from)) * splat(scales[r]) - splat(shifts[r]));
    }
}

/* The last tile moves back over positions already done, so that it is full. */
static inline __attribute__((always_inline)) void linear_norm(const struct linear *a, struct rows to, unsigned row,
                                                              unsigned rows) {
    if (rows >= NORM_ROWS)
        for (unsigned done = 0; done < rows; done += NORM_ROWS) {
            unsigned first = rows - done < NORM_ROWS ? rows - NORM_ROWS : done;
            linear_norm_tile(a, rows_from(to, first), row + first, NORM_ROWS);
        }
    else
        for (unsigned r = 0; r < rows; r++)
            linear_norm_tile(a, rows_from(to, r), row + r, 1);
}

static inline __attribute__((always_inline)) void linear_gate(const struct linear *a, struct rows to, unsigned row,
                                                              unsigned rows) {
    const float *x = a->x + row * a->x_stride;
    for (unsigned r = 0; r < rows; r++, x += a->x_stride, to.v += to.stride)
        for (size_t i = 0; i < a->n_in; i += LANES)
            put(to, i, load(x + i) * load(x + a->n_in + i));
}

static inline __attribute__((always_inline)) void linear_convs(const struct linear *a, struct rows to, unsigned row,
                                                               unsigned rows) {
    size_t column = 0;
    for (unsigned i = 0; i < a->n_convs; column += a->convs[i++].n_channels)
        depthwise_rows(a->convs + i, row, rows, to, column);
}

static inline __attribute__((always_inline)) void linear_gather(const struct linear *args, struct rows to, unsigned row,
                                                                unsigned rows) {
    const struct linear a = *args; /* a copy, because the compiler must assume that stores change *args */
    switch (a.of) {
    case LINEAR_OF_MAP: linear_map(&a, to, row, rows); break;
    case LINEAR_OF_NORM: linear_norm(&a, to, row, rows); break;
    case LINEAR_OF_GATE: linear_gate(&a, to, row, rows); break;
    case LINEAR_OF_CONVS: linear_convs(&a, to, row, rows); break;
    }
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

static inline __attribute__((always_inline)) void linear_tile(const struct linear *a, struct linear_inputs from,
                                                              unsigned row, unsigned panel, const unsigned rows,
                                                              const unsigned panels, const bool pairs) {
    enum { SHARED = 3 }; /* rows per pointer: addressing one or two strides further is free */
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
                sum[r][v] = maximum(sum[r][v], splat(0)) +
                            load(a->prelu + out + v * LANES) * minimum(sum[r][v], splat(0));
    if (a->add) {
        const float *add = a->add + row * a->add_stride + out;
        UNROLL
        for (unsigned r = 0; r < rows; r++, add += a->add_stride)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] += load(add + v * LANES);
    }
    if (a->skip) {
        const float *skip = a->skip + row * a->add_stride + out;
        UNROLL
        for (unsigned r = 0; r < rows; r++, skip += a->add_stride)
            UNROLL
            for (unsigned v = 0; v < n; v++)
                sum[r][v] += load(a->blend + out + v * LANES) * load(skip + v * LANES);
    }
    float *y = a->y + row * a->y_stride + out;
    UNROLL
    for (unsigned r = 0; r < rows; r++, y += a->y_stride)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            store(y + v * LANES, sum[r][v]);
}

static inline __attribute__((always_inline)) void linear_rows(const struct linear *a, struct linear_inputs from,
                                                              unsigned row, unsigned rows, unsigned panel,
                                                              const unsigned panels, const bool pairs) {
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

/* A last panel of few outputs: vectors run over inputs, so that nothing is computed for the padding. */
enum { NARROW_STEPS = 256 };

static inline bool linear_is_narrow(const struct linear *a, unsigned n_steps) {
    const unsigned left = a->n_out % LINEAR_PANEL;
    return left > 0 && left <= LINEAR_NARROW && n_steps % LANES == 0 && n_steps <= NARROW_STEPS && !a->prelu &&
           !a->add && !a->skip;
}

static inline vf linear_products(vf sum, vf weight, const float *in, const bool pairs) {
#ifdef __AVX512BF16__
    if (pairs)
        return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)load(in));
#endif
    (void)pairs;
    return sum + load(in) * weight;
}

static inline __attribute__((always_inline)) void linear_narrow_tile(const struct linear *a, struct linear_inputs from,
                                                                     const float *columns, unsigned row, size_t out,
                                                                     const unsigned rows, const bool pairs) {
    const unsigned n = a->n_out % LINEAR_PANEL;
    float *y = a->y + row * a->y_stride + out;
    for (unsigned r = 0; r < rows; r++)
        for (unsigned v = 0; v < LINEAR_PANEL; v += LANES)
            store(y + r * a->y_stride + v, load(a->bias + out + v));
    for (unsigned o = 0; o < n; o++, columns += from.n_steps) {
        float sums[LANES];
        vf sum[LANES];
        UNROLL
        for (unsigned r = 0; r < LANES; r++)
            sum[r] = splat(0);
        for (unsigned i = 0; i < from.n_steps; i += LANES) {
            const vf weight = load(columns + i);
            const float *in = from.v + i;
            UNROLL
            for (unsigned r = 0; r < rows; r++, in += from.stride)
                sum[r] = linear_products(sum[r], weight, in, pairs);
        }
        store(sums, across_each(sum) + a->bias[out + o]);
        for (unsigned r = 0; r < rows; r++)
            y[r * a->y_stride + o] = sums[r];
    }
}

/* The last tile moves back over positions already done, so that it is full. */
static inline __attribute__((always_inline)) void linear_narrow(const struct linear *a, struct linear_inputs from,
                                                                unsigned row, unsigned rows, const bool pairs) {
    const size_t out = a->n_out / LINEAR_PANEL * LINEAR_PANEL;
    const float *w = a->weight + out * from.n_steps;
    float columns[LINEAR_NARROW * NARROW_STEPS];
    for (unsigned o = 0; o < a->n_out % LINEAR_PANEL; o++)
        for (unsigned i = 0; i < from.n_steps; i++)
            columns[o * from.n_steps + i] = w[i * LINEAR_PANEL + o];
    for (unsigned done = 0; done < rows; done += rows < LANES ? 1 : LANES) {
        const unsigned first = rows >= LANES && rows - done < LANES ? rows - LANES : done;
        const struct linear_inputs tile = {from.v + first * from.stride, from.stride, from.n_steps};
        if (rows < LANES)
            linear_narrow_tile(a, tile, columns, row + first, out, 1, pairs);
        else
            linear_narrow_tile(a, tile, columns, row + first, out, LANES, pairs);
    }
}

/* The tiles of some positions, from `row` on. */
static inline __attribute__((always_inline)) void linear_tiles(const struct linear *args, struct linear_inputs from,
                                                               unsigned row, unsigned rows, const bool pairs) {
    const struct linear a = *args;
    const bool narrow = linear_is_narrow(&a, from.n_steps);
    const unsigned n_panels = linear_padded(a.n_out) / LINEAR_PANEL - narrow, n_tiles = (rows + ROWS - 1) / ROWS;
    for (unsigned panel = 0; panel < n_panels; panel += PANELS)
        for (unsigned t = 0; t < n_tiles; t++) {
            unsigned first = rows * t / n_tiles, n = rows * (t + 1) / n_tiles - first;
            struct linear_inputs tile = {from.v + first * from.stride, from.stride, from.n_steps};
            if (PANELS == 1 || panel + PANELS > n_panels)
                linear_rows(&a, tile, row + first, n, panel, 1, pairs);
            else
                linear_rows(&a, tile, row + first, n, panel, PANELS, pairs);
        }
    if (narrow)
        linear_narrow(&a, from, row, rows, pairs);
}

/* Separate functions, so that each has all registers. */
static __attribute__((noinline)) void linear_gather_floats(const struct linear *a, float *v, unsigned row,
                                                           unsigned rows) {
    linear_gather(a, (struct rows){v, a->n_in, false}, row, rows);
}

static __attribute__((noinline)) void linear_tiles_floats(const struct linear *a, const float *v, size_t stride,
                                                          unsigned row, unsigned rows) {
    linear_tiles(a, (struct linear_inputs){v, stride, a->n_in}, row, rows, false);
}

#ifdef __AVX512BF16__
static __attribute__((noinline)) void linear_gather_pairs(const struct linear *a, float *v, unsigned row,
                                                          unsigned rows) {
    linear_gather(a, (struct rows){v, a->n_in / 2, true}, row, rows);
}

static __attribute__((noinline)) void linear_tiles_pairs(const struct linear *a, const float *v, size_t stride,
                                                         unsigned row, unsigned rows) {
    linear_tiles(a, (struct linear_inputs){v, stride, a->n_in / 2}, row, rows, true);
}
#endif

static inline __attribute__((always_inline)) void
linear_blocks(const struct linear *a, unsigned n_steps,
              void (*gather)(const struct linear *a, float *v, unsigned row, unsigned rows),
              void (*tiles)(const struct linear *a, const float *v, size_t stride, unsigned row, unsigned rows)) {
    float v[LEAST_BLOCK * LINEAR_MAX_IN];
    const unsigned most = n_steps * LEAST_BLOCK > GATHERED ? LEAST_BLOCK : GATHERED / n_steps;
    const unsigned n_blocks = (a->n_rows + most - 1) / most;
    for (unsigned b = 0; b < n_blocks; b++) {
        unsigned row = a->n_rows * b / n_blocks, rows = a->n_rows * (b + 1) / n_blocks - row;
        gather(a, v, row, rows);
        tiles(a, v, n_steps, row, rows);
    }
}

static void linear_cpu(const struct linear *a) {
    if (a->of == LINEAR_OF_MAP)
        linear_tiles_floats(a, a->x, a->x_stride, 0, a->n_rows);
    else
        linear_blocks(a, a->n_in, linear_gather_floats, linear_tiles_floats);
}

#ifdef __AVX512BF16__
static void linear_bf16_cpu(const struct linear *a) {
    linear_blocks(a, a->n_in / 2, linear_gather_pairs, linear_tiles_pairs);
}
#endif
