/* Keeps a tile of at most ROWS positions by PANELS panels of outputs in registers while it streams the inputs. Computes
 * inputs that are not a map first, for a block of positions that fits in the first-level cache. Divides positions
 * evenly among blocks and tiles. The version with pairs rounds each row of inputs in place and processes two per step:
 * bfloat16 if the processor multiplies it, else int16. */
#include "kernels/depthwise/depthwise.h"
#include "kernels/linear/linear.h"
#include "kernels/simd.h"

#include <math.h>

#if LANES == 16 /* 32 registers: 28 sums, 2 weights */
enum { ROWS = 14, PAIR_ROWS = 14, PANELS = 2 };
#elif LANES == 8 /* 16 registers: 12 sums, 2 weights, an input */
#ifdef __AVXVNNI__
enum { ROWS = 6, PAIR_ROWS = 6, PANELS = 1 };
#else
enum { ROWS = 6, PAIR_ROWS = 5, PANELS = 1 }; /* pairs need a register for their product */
#endif
#elif defined __aarch64__ /* 32 registers: 20 sums, 4 weights, 5 inputs, which compilers load together */
enum { ROWS = 5, PAIR_ROWS = 5, PANELS = 1 };
#else                     /* 16 registers: 12 sums, a product, an input */
enum { ROWS = 3, PAIR_ROWS = 3, PANELS = 1 };
#endif

#if defined __AVX512BF16__
#define PAIRS
typedef vf pair_sums;
#elif defined __SSE2__
#define PAIRS
#define INT16
typedef vi pair_sums;
#endif

enum { GATHERED = 8192 /* floats: 32 KiB */, LEAST_BLOCK = 14 };

enum { PANEL_VECTORS = LINEAR_PANEL / LANES, TILE_VECTORS = PANELS * PANEL_VECTORS };

/* The inputs of some positions: floats, or pairs, which have the same width. */
struct linear_inputs {
    const float *v;
    size_t stride; /* in floats */
    unsigned n_steps;
    const float *steps; /* each row's, of int16; LANES can be read from any on */
};

static inline struct linear_inputs linear_inputs_from(struct linear_inputs a, unsigned row) {
    a.v += row * a.stride;
    if (a.steps)
        a.steps += row;
    return a;
}

/* ---- inputs of a block ---- */

static inline __attribute__((always_inline)) void linear_map(const struct linear *a, struct rows to, unsigned row,
                                                             unsigned rows) {
    const float *x = a->x + row * a->x_stride;
    for (unsigned r = 0; r < rows; r++, x += a->x_stride, to.v += to.stride)
        for (size_t i = 0; i < a->n_in; i += LANES)
            put(to, i, load(x + i));
}

#ifdef INT16
/* Rounds 16 values, which fit, to int16. */
static inline void linear_put(float *to, size_t i, const vf x[PANEL_VECTORS]) {
#if LANES == 16
    *(__m256i_u *)(to + i / 2) = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32((__m512)x[0]));
#elif LANES == 8 /* packs the lower and the upper halves */
    const __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)x[0]), _mm256_cvtps_epi32((__m256)x[1]));
    *(__m256i_u *)(to + i / 2) = _mm256_permute4x64_epi64(both, 0xd8);
#else
    for (unsigned v = 0; v < PANEL_VECTORS; v += 2)
        *(__m128i_u *)(to + i / 2 + 2 * v) = _mm_packs_epi32(_mm_cvtps_epi32((__m128)x[v]),
                                                             _mm_cvtps_epi32((__m128)x[v + 1]));
#endif
}

/* Returns the greatest magnitude of a row. */
static inline __attribute__((always_inline)) float linear_largest(const float *x, size_t n) {
    vf most[PANEL_VECTORS];
    UNROLL
    for (unsigned v = 0; v < PANEL_VECTORS; v++)
        most[v] = splat(LINEAR_LEAST);
    for (size_t i = 0; i < n; i += LINEAR_PANEL)
        UNROLL
    for (unsigned v = 0; v < PANEL_VECTORS; v++)
        most[v] = maximum(most[v], magnitude(load(x + i + v * LANES)));
    UNROLL
    for (unsigned v = 1; v < PANEL_VECTORS; v++)
        most[0] = maximum(most[0], most[v]);
    return greatest(most[0]);
}

/* Rounds a row of x, which may be `to`, to int16. Returns the step. */
static inline __attribute__((always_inline)) float linear_round(float *to, const float *x, size_t n) {
    const float largest = linear_largest(x, n);
    const vf scale = splat(LINEAR_MOST / largest);
    for (size_t i = 0; i < n; i += LINEAR_PANEL) {
        vf scaled[PANEL_VECTORS];
        UNROLL
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            scaled[v] = load(x + i + v * LANES) * scale;
        linear_put(to, i, scaled);
    }
    return largest * (1.f / LINEAR_MOST);
}
#endif

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
    vf scale = inverse_root(other_half(mean) - mean * mean + a->epsilon);
#ifdef INT16
    if (to.pairs)
        scale *= LINEAR_MOST / sqrtf((float)n);
#endif
    store(scales, scale);
    store(shifts, mean * scale);
    for (size_t i = 0; i < n; i += LINEAR_PANEL) {
        const float *from = x;
        struct rows y = to;
        UNROLL
        for (unsigned r = 0; r < rows; r++, from += stride, y.v += y.stride) {
            vf normal[PANEL_VECTORS];
            UNROLL
            for (unsigned v = 0; v < PANEL_VECTORS; v++)
                normal[v] = (load(from + i + v * LANES) - splat(*from)) * splat(scales[r]) - splat(shifts[r]);
#ifdef INT16
            if (to.pairs) {
                linear_put(y.v, i, normal);
                continue;
            }
#endif
            UNROLL
            for (unsigned v = 0; v < PANEL_VECTORS; v++)
                put(y, i + v * LANES, normal[v]);
        }
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

/* ---- products ---- */

#ifdef PAIRS
static inline vi splat_pair(const float *p) {
    return *(const int_alias *)p - (vi){0};
}

static inline pair_sums linear_pairs(pair_sums sum, vi weight, vi in) {
#if defined __AVX512BF16__
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)in);
#elif defined __AVX512VNNI__
    return (vi)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)weight, (__m512i)in);
#elif LANES == 16
    return sum + (vi)_mm512_madd_epi16((__m512i)weight, (__m512i)in);
#elif defined __AVXVNNI__
    return (vi)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)weight, (__m256i)in);
#elif LANES == 8
    return sum + (vi)_mm256_madd_epi16((__m256i)weight, (__m256i)in);
#else
    return sum + (vi)_mm_madd_epi16((__m128i)weight, (__m128i)in);
#endif
}

#endif

enum { SHARED = 3 }; /* rows per pointer: addressing one or two strides further is free */
#define EACH_SHARED UNROLL for (unsigned r = 0; r < rows; r += SHARED)
#define EACH_SUM UNROLL for (unsigned r = 0; r < rows; r++) UNROLL for (unsigned v = 0; v < n; v++)

/* Computes the sums of a tile of floats, with bias. */
static inline __attribute__((always_inline)) void linear_sums(const struct linear *a, struct linear_inputs from,
                                                              unsigned panel, vf sum[ROWS][TILE_VECTORS],
                                                              const unsigned rows, const unsigned n) {
    const size_t next_panel = (size_t)from.n_steps * LINEAR_PANEL, stride = from.stride;
    const float *in[(ROWS + SHARED - 1) / SHARED], *w = a->weight + panel * next_panel, *end = w + next_panel;
    EACH_SHARED in[r / SHARED] = from.v + r * stride;
    EACH_SUM sum[r][v] = load(a->bias + panel * LINEAR_PANEL + v * LANES);
    for (; w < end; w += LINEAR_PANEL) {
        vf weight[TILE_VECTORS];
        UNROLL
        for (unsigned v = 0; v < n; v++)
            weight[v] = load(w + (v / PANEL_VECTORS) * next_panel + v % PANEL_VECTORS * LANES);
        EACH_SUM sum[r][v] += splat(in[r / SHARED][r % SHARED * stride]) * weight[v];
        EACH_SHARED in[r / SHARED]++;
    }
}

#ifdef PAIRS
/* The same for pairs. */
static inline __attribute__((always_inline)) void linear_sums_pairs(const struct linear *a, struct linear_inputs from,
                                                                    unsigned panel, vf sum[ROWS][TILE_VECTORS],
                                                                    const unsigned rows, const unsigned n) {
    const size_t next_panel = (size_t)from.n_steps * LINEAR_PANEL, stride = from.stride, out = panel * LINEAR_PANEL;
    const float *in[(ROWS + SHARED - 1) / SHARED], *w = a->weight + panel * next_panel, *end = w + next_panel;
    pair_sums exact[ROWS][TILE_VECTORS];
    EACH_SHARED in[r / SHARED] = from.v + r * stride;
    EACH_SUM exact[r][v] = (pair_sums){0};
    for (; w < end; w += LINEAR_PANEL) {
        vi weight[TILE_VECTORS];
        UNROLL
        for (unsigned v = 0; v < n; v++)
            weight[v] = (vi)load(w + (v / PANEL_VECTORS) * next_panel + v % PANEL_VECTORS * LANES);
        EACH_SUM exact[r][v] = linear_pairs(exact[r][v], weight[v], splat_pair(in[r / SHARED] + r % SHARED * stride));
        EACH_SHARED in[r / SHARED]++;
    }
#ifdef INT16
    EACH_SUM sum[r][v] = __builtin_convertvector(exact[r][v], vf) *
                             (splat(from.steps[r]) * load(a->steps + out + v * LANES)) +
                         load(a->bias + out + v * LANES);
#else
    EACH_SUM sum[r][v] = exact[r][v] + load(a->bias + out + v * LANES);
#endif
}
#endif

static inline __attribute__((always_inline)) void linear_tile(const struct linear *a, struct linear_inputs from,
                                                              unsigned row, unsigned panel, const unsigned rows,
                                                              const unsigned panels, const bool pairs) {
    const unsigned n = panels * PANEL_VECTORS;
    const size_t out = panel * LINEAR_PANEL;
    vf sum[ROWS][TILE_VECTORS];
    (void)pairs; /* NEON has none */
#ifdef PAIRS
    if (pairs)
        linear_sums_pairs(a, from, panel, sum, rows, n);
    else
#endif
        linear_sums(a, from, panel, sum, rows, n);
    if (a->prelu)
        EACH_SUM sum[r][v] = maximum(sum[r][v], splat(0)) +
                             load(a->prelu + out + v * LANES) * minimum(sum[r][v], splat(0));
    if (a->add) {
        const float *add = a->add + row * a->add_stride + out;
        EACH_SUM sum[r][v] += load(add + r * a->add_stride + v * LANES);
    }
    if (a->skip) {
        const float *skip = a->skip + row * a->add_stride + out;
        EACH_SUM sum[r][v] += load(a->blend + out + v * LANES) * load(skip + r * a->add_stride + v * LANES);
    }
    float *y = a->y + row * a->y_stride + out;
    EACH_SUM store(y + r * a->y_stride + v * LANES, sum[r][v]);
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
#if LANES >= 8
    case 6: linear_tile(a, from, row, panel, 6, panels, pairs); break;
#endif
#if LANES >= 8 || defined __aarch64__
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

/* A column's sums over inputs, element by element, for each of `rows` rows. */
static inline __attribute__((always_inline)) void linear_narrow_sums(struct linear_inputs from, const float *column,
                                                                     vf sum[LANES], const unsigned rows) {
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = splat(0);
    for (unsigned i = 0; i < from.n_steps; i += LANES) {
        const vf weight = load(column + i);
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            sum[r] += load(from.v + r * from.stride + i) * weight;
    }
}

#ifdef PAIRS
static inline __attribute__((always_inline)) void linear_narrow_pairs(struct linear_inputs from, const float *column,
                                                                      vf sum[LANES], const unsigned rows) {
    pair_sums exact[LANES];
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        exact[r] = (pair_sums){0};
    for (unsigned i = 0; i < from.n_steps; i += LANES) {
        const vi weight = (vi)load(column + i);
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            exact[r] = linear_pairs(exact[r], weight, (vi)load(from.v + r * from.stride + i));
    }
    UNROLL
    for (unsigned r = 0; r < LANES; r++)
        sum[r] = __builtin_convertvector(exact[r], vf);
}
#endif

static inline __attribute__((always_inline)) void linear_narrow_tile(const struct linear *a, struct linear_inputs from,
                                                                     const float *columns, unsigned row, size_t out,
                                                                     const unsigned rows, const bool pairs) {
    const unsigned n = a->n_out % LINEAR_PANEL;
    (void)pairs;
    float *y = a->y + row * a->y_stride + out;
    for (unsigned r = 0; r < rows; r++)
        for (unsigned v = 0; v < LINEAR_PANEL; v += LANES)
            store(y + r * a->y_stride + v, load(a->bias + out + v));
    for (unsigned o = 0; o < n; o++, columns += from.n_steps) {
        float sums[LANES];
        vf sum[LANES], scale = splat(1);
#ifdef PAIRS
        if (pairs) {
            linear_narrow_pairs(from, columns, sum, rows);
#ifdef INT16
            scale = load(from.steps) * a->steps[out + o];
#endif
        } else
#endif
            linear_narrow_sums(from, columns, sum, rows);
        store(sums, across_each(sum) * scale + a->bias[out + o]);
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
        const struct linear_inputs tile = linear_inputs_from(from, first);
        if (rows < LANES)
            linear_narrow_tile(a, tile, columns, row + first, out, 1, pairs);
        else
            linear_narrow_tile(a, tile, columns, row + first, out, LANES, pairs);
    }
}

/* Brings the weights of a tile's panels into the first-level cache; no panels after the last. */
static inline void linear_fetch(const struct linear *a, unsigned n_steps, unsigned panel) {
    const unsigned n_panels = linear_padded(a->n_out) / LINEAR_PANEL, end = panel + PANELS;
    const float *const weights = a->weight;
    const size_t length = (size_t)n_steps * LINEAR_PANEL;
    for (size_t i = panel * length; i < (end < n_panels ? end : n_panels) * length; i += LINEAR_PANEL)
        __builtin_prefetch(weights + i);
}

/* Computes the tiles of some positions, from `row` on. */
static inline __attribute__((always_inline)) void linear_tiles(const struct linear *args, struct linear_inputs from,
                                                               unsigned row, unsigned rows, const bool pairs) {
    const struct linear a = *args;
    const bool narrow = linear_is_narrow(&a, from.n_steps);
    const unsigned n_panels = linear_padded(a.n_out) / LINEAR_PANEL - narrow;
    const unsigned most = pairs ? PAIR_ROWS : ROWS, n_tiles = (rows + most - 1) / most;
    for (unsigned panel = 0; panel < n_panels; panel += PANELS) {
        linear_fetch(&a, from.n_steps, panel + PANELS);
        for (unsigned t = 0; t < n_tiles; t++) {
            unsigned first = rows * t / n_tiles, n = rows * (t + 1) / n_tiles - first;
            struct linear_inputs tile = linear_inputs_from(from, first);
            if (PANELS == 1 || panel + PANELS > n_panels)
                linear_rows(&a, tile, row + first, n, panel, 1, pairs);
            else
                linear_rows(&a, tile, row + first, n, panel, PANELS, pairs);
        }
    }
    if (narrow)
        linear_narrow(&a, from, row, rows, pairs);
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

/* Separate functions, so that each has all registers. */
static __attribute__((noinline)) void linear_gather_floats(const struct linear *a, struct rows to, unsigned row,
                                                           unsigned rows) {
    linear_gather(a, to, row, rows);
}

static __attribute__((noinline)) void linear_tiles_floats(const struct linear *a, struct linear_inputs from,
                                                          unsigned row, unsigned rows) {
    linear_tiles(a, from, row, rows, false);
}

/* Returns the number of blocks into which the rows are divided, and the most rows of a block. */
static inline unsigned linear_blocks(const struct linear *a) {
    const unsigned most = a->n_in * LEAST_BLOCK > GATHERED ? LEAST_BLOCK : GATHERED / a->n_in;
    return (a->n_rows + most - 1) / most;
}

static void linear_cpu(const struct linear *a) {
    float v[LEAST_BLOCK * LINEAR_MAX_IN];
    if (a->of == LINEAR_OF_MAP) {
        linear_tiles_floats(a, (struct linear_inputs){a->x, a->x_stride, a->n_in, NULL}, 0, a->n_rows);
        return;
    }
    const unsigned n_blocks = linear_blocks(a);
    for (unsigned b = 0; b < n_blocks; b++) {
        unsigned row = a->n_rows * b / n_blocks, rows = a->n_rows * (b + 1) / n_blocks - row;
        linear_gather_floats(a, (struct rows){v, a->n_in, false}, row, rows);
        linear_tiles_floats(a, (struct linear_inputs){v, a->n_in, a->n_in, NULL}, row, rows);
    }
}

#ifdef PAIRS
static __attribute__((noinline)) void linear_gather_pairs(const struct linear *a, float *v, float *steps, unsigned row,
                                                          unsigned rows) {
#ifdef INT16
    const size_t n = a->n_in;
    if (a->of == LINEAR_OF_NORM) {
        linear_norm(a, (struct rows){v, n, true}, row, rows);
        for (unsigned r = 0; r < rows; r++)
            steps[r] = sqrtf((float)n) * (1.f / LINEAR_MOST);
        return;
    }
    const bool is_map = a->of == LINEAR_OF_MAP;
    const float *x = is_map ? a->x + row * a->x_stride : v;
    if (!is_map)
        linear_gather_floats(a, (struct rows){v, n, false}, row, rows);
    for (unsigned r = 0; r < rows; r++, x += is_map ? a->x_stride : n)
        steps[r] = linear_round(v + r * n, x, n);
#else
    (void)steps;
    linear_gather(a, (struct rows){v, a->n_in, true}, row, rows);
#endif
}

static __attribute__((noinline)) void linear_tiles_pairs(const struct linear *a, struct linear_inputs from,
                                                         unsigned row, unsigned rows) {
    linear_tiles(a, from, row, rows, true);
}

static void linear_pairs_cpu(const struct linear *a) {
    float v[LEAST_BLOCK * LINEAR_MAX_IN], steps[GATHERED / LINEAR_PANEL + LANES];
    const unsigned n_blocks = linear_blocks(a);
    for (unsigned b = 0; b < n_blocks; b++) {
        unsigned row = a->n_rows * b / n_blocks, rows = a->n_rows * (b + 1) / n_blocks - row;
        linear_fetch(a, a->n_in / 2, 0);
        linear_gather_pairs(a, v, steps, row, rows);
        linear_tiles_pairs(a, (struct linear_inputs){v, a->n_in, a->n_in / 2, steps}, row, rows);
    }
}
#endif
