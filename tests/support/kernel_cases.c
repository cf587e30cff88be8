#include "kernel_cases.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* n_out is the number of channels if the operation does not change it. */
const struct kernel_case kernel_cases[] = {
    {op_linear, "one value", 1, 1, 1, 0, 0, 0},
    {op_linear, "less than a panel", 5, 32, 3, 0, with_prelu, 0},
    {op_linear, "less than a panel", 5, 32, 3, 0, with_skip, 0},
    {op_linear, "panels and a bit", 15, 33, 35, 0, with_add, 0},
    {op_linear, "two panels and one", 29, 16, 48, 0, with_prelu | with_add | with_skip, 0},
    {op_linear, "rows to spare", 14, 24, 32, 0, 0, 0},
    {op_linear, "embed", 113, 3, 64, 0, with_prelu | overlapping, 1},
    {op_linear, "down, large", 56, 192, 64, 0, with_prelu | overlapping, 1},
    {op_linear, "dense, large", 113, 256, 64, 0, with_prelu, 1},
    {op_linear, "proj, small", 56, 16, 16, 0, with_add, 1},
    {op_linear, "in, base", 56, 32, 128, 0, 0, 1},
    {op_linear, "proj, large", 56, 64, 64, 0, with_add, 1},
    {op_linear, "in, large", 56, 64, 256, 0, 0, 1},
    {op_linear, "select, large", 56, 128, 36, 0, 0, 1},
    {op_linear, "select, small", 56, 32, 33, 0, 0, 1},
    {op_linear, "step, large", 56, 4, 128, 0, 0, 1},
    {op_linear, "out, large", 56, 128, 64, 0, with_add | with_skip, 1},
    {op_linear, "head", 113, 64, 2, 0, 0, 1},
    {op_linear, "of a norm, one row", 1, 16, 1, 0, of_norm, 0},
    {op_linear, "of a norm, small", 56, 16, 32, 0, of_norm, 1},
    {op_linear, "of a norm, large", 56, 64, 256, 0, of_norm, 1},
    {op_linear, "of a gate, one row", 1, 16, 1, 0, of_gate, 0},
    {op_linear, "of a gate, large", 56, 64, 64, 0, of_gate | with_add, 1},
    {op_linear, "of convs, one row", 1, 32, 5, 3, of_convs, 0},
    {op_linear, "of convs, two blocks", 201, 64, 16, 5, of_convs | with_prelu, 0},
    {op_linear, "of convs, prime 31, small", 56, 16, 16, 31, of_convs, 1},
    {op_linear, "of convs, large", 56, 256, 64, 11, of_convs | with_add, 1},
    {op_linear, "pairs, one row", 1, 16, 1, 0, in_pairs, 0},
    {op_linear, "pairs, panels and a bit", 15, 48, 35, 0, in_pairs | with_add | with_prelu, 0},
    {op_linear, "pairs, proj, small", 56, 16, 16, 0, in_pairs | with_add, 1},
    {op_linear, "pairs, down, large", 56, 192, 64, 0, in_pairs | with_prelu | overlapping, 1},
    {op_linear, "pairs, select, small", 56, 32, 33, 0, in_pairs, 1},
    {op_linear, "pairs, dense, large", 113, 256, 64, 0, in_pairs | with_prelu, 1},
    {op_linear, "pairs, in, base", 56, 32, 128, 0, in_pairs, 1},
    {op_linear, "pairs, in, large", 56, 64, 256, 0, in_pairs, 1},
    {op_linear, "pairs, of a norm, one row", 1, 16, 1, 0, in_pairs | of_norm, 0},
    {op_linear, "pairs, of a norm, small", 56, 16, 64, 0, in_pairs | of_norm, 1},
    {op_linear, "pairs, of a gate, small", 56, 16, 16, 0, in_pairs | of_gate | with_add, 1},
    {op_linear, "pairs, of convs, two blocks", 201, 128, 16, 5, in_pairs | of_convs | with_prelu, 0},
    {op_linear, "pairs, of convs, prime 31, small", 56, 16, 16, 31, in_pairs | of_convs, 1},
    {op_depthwise, "one row", 1, 3, 16, 3, 0, 0},
    {op_depthwise, "a short last tile", 11, 1, 32, 5, with_times, 0},
    {op_depthwise, "one tap", 9, 1, 16, 1, 0, 0},
    {op_depthwise, "dense, large", 113, 3, 64, 3, 0, 1},
    {op_depthwise, "gate, large", 56, 1, 128, 3, 0, 1},
    {op_depthwise, "prime 31, small", 56, 1, 16, 31, with_times, 1},
    {op_depthwise, "prime 31, large", 56, 1, 64, 31, with_times, 1},
    {op_attend, "one row", 1, 0, 16, 0, 0, 0},
    {op_attend, "odd rows", 99, 0, 48, 0, 0, 0},
    {op_attend, "large", 56, 0, 64, 0, 0, 1},
    {op_conv, "two taps", 3, 0, 16, 2, 0, 0},
    {op_conv, "eight taps", 3, 0, 48, 8, 0, 0},
    {op_conv, "large", 56, 0, 128, 4, 0, 1},
    {op_scan, "one row", 1, 16, 16, 0, 0, 0},
    {op_scan, "two groups of states", 5, 32, 48, 0, 0, 0},
    {op_scan, "tiny steps", 5, 16, 32, 0, tiny_steps, 0},
    {op_scan, "small", 56, 16, 32, 0, 0, 1},
    {op_scan, "large", 56, 16, 128, 0, 0, 1},
    {op_ssd, "one row, one head", 1, 16, 16, 1, 0, 0},
    {op_ssd, "seventeen heads", 3, 16, 272, 1, 0, 0},
    {op_ssd, "tiny steps", 5, 32, 64, 2, tiny_steps, 0},
    {op_ssd, "base", 56, 16, 64, 1, 0, 1},
    {op_ssd, "large", 56, 16, 128, 1, 0, 1},
    {op_ssd, "d_model 192", 100, 64, 384, 4, 0, 1},
    {op_gru, "one row", 1, 0, 16, 0, 0, 0},
    {op_gru, "large", 56, 0, 64, 0, 0, 1},
    {op_lstm, "one row", 1, 0, 16, 0, 0, 0},
    {op_lstm, "large", 56, 0, 64, 0, 0, 1},
    {op_fft, "the shortest", 32, 0, 0, 0, 0, 0},
    {op_fft, "the shortest", 32, 0, 0, 0, backwards, 0},
    {op_fft, "threes", 1458, 0, 0, 0, 0, 0},
    {op_fft, "threes", 1458, 0, 0, 0, backwards, 0},
    {op_fft, "twos and fives", 2000, 0, 0, 0, 0, 0},
    {op_fft, "twos and fives", 2000, 0, 0, 0, backwards, 0},
    {op_fft, "a frame", 1024, 0, 0, 0, 0, 1},
    {op_fft, "a frame", 1024, 0, 0, 0, backwards, 1},
    {op_power, "one", 1, 0, 0, 0, 0, 0},
    {op_power, "features", 171, 0, 0, 0, 0, 1},
    {op_power, "gains", 171, 0, 0, 0, backwards, 1},
};
const unsigned n_kernel_cases = sizeof kernel_cases / sizeof *kernel_cases;
const char *const kernel_op_names[] = {
#define ROW(op) #op,
    KERNELS_TABLE(ROW)
#undef ROW
};

enum { GUARD = 16 };                       /* keeps the array behind it aligned */
static const uint32_t poison = 0x7fc0dead; /* a NaN */

static void set_poison(float *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        memcpy(to + i, &poison, sizeof poison);
}

static float *guarded(struct kernel_work *w, size_t n) {
    float *to = pool_floats(&w->pool, n + 2 * GUARD);
    if (!to || w->n_arrays == sizeof w->arrays / sizeof *w->arrays)
        abort();
    set_poison(to, n + 2 * GUARD);
    w->arrays[w->n_arrays].values = to + GUARD;
    w->arrays[w->n_arrays++].n = n;
    return to + GUARD;
}

bool kernel_work_guarded(const struct kernel_work *w) {
    for (unsigned a = 0; a < w->n_arrays; a++)
        for (unsigned i = 0; i < GUARD; i++)
            if (memcmp(w->arrays[a].values - GUARD + i, &poison, sizeof poison) ||
                memcmp(w->arrays[a].values + w->arrays[a].n + i, &poison, sizeof poison))
                return false;
    return true;
}

/* Uniform in [low, high). */
static float *random_floats(struct kernel_work *w, uint32_t *state, size_t n, float low, float high) {
    float *to = guarded(w, n);
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525 + 1013904223;
        to[i] = low + (high - low) * (float)(*state >> 8) / 16777216.f;
    }
    return to;
}

static float *output(struct kernel_work *w, float *values, size_t n) {
    w->out[w->n_outs].values = values;
    w->out[w->n_outs++].n = n;
    return values;
}

static float *packed(struct kernel_work *w, uint32_t *state, unsigned n_in, unsigned n_out, float *steps) {
    float *weight = random_floats(w, state, (size_t)n_in * n_out, -1, 1);
    float *to = random_floats(w, state, (size_t)linear_padded(n_out) * n_in, 0, 0);
    if (!steps)
        linear_pack(to, weight, n_out, n_in);
    else if (w->bf16)
        linear_bf16_pack(to, weight, n_out, n_in);
    else
        linear_int16_pack(to, steps, weight, n_out, n_in);
    return to;
}

/* Convolutions of n_taps: two if n_in has room for both, the second with factors. */
static void convs_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    w->linear.n_convs = c->n_in % (2 * LINEAR_PANEL) ? 1 : 2;
    const unsigned n = c->n_in / w->linear.n_convs;
    for (unsigned i = 0; i < w->linear.n_convs; i++) {
        size_t n_x = (c->n_rows + c->n_taps - 1) * n;
        w->convs[i] = (struct depthwise){.n_rows = c->n_rows,
                                         .n_channels = n,
                                         .n_times = 1,
                                         .n_taps = c->n_taps,
                                         .x = {random_floats(w, seed, n_x, -1, 1)},
                                         .x_stride = n,
                                         .taps = random_floats(w, seed, c->n_taps * n, -1, 1),
                                         .taps_stride = n,
                                         .times = i ? random_floats(w, seed, c->n_rows * n, -1, 1) : NULL,
                                         .times_stride = n};
    }
    w->linear.convs = w->convs;
}

static void linear_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    size_t width = linear_padded(c->n_out), x_stride = c->flags & overlapping ? c->n_in - c->n_in / 3 : 2 * c->n_in + 3,
           n_y = (c->n_rows - 1) * (width + 5) + width;
    float *steps = c->flags & in_pairs ? random_floats(w, seed, width, 0, 0) : NULL;
    w->linear = (struct linear){
        .n_rows = c->n_rows,
        .n_in = c->n_in,
        .n_out = c->n_out,
        .of = c->flags & of_norm    ? LINEAR_OF_NORM
              : c->flags & of_gate  ? LINEAR_OF_GATE
              : c->flags & of_convs ? LINEAR_OF_CONVS
                                    : LINEAR_OF_MAP,
        .x = random_floats(w, seed, c->n_rows * x_stride + c->n_in, -1, 1.5f),
        .x_stride = x_stride,
        .epsilon = 1e-5f,
        .weight = packed(w, seed, c->n_in, c->n_out, steps),
        .steps = steps,
        .bias = random_floats(w, seed, width, -1, 1),
        .prelu = c->flags & with_prelu ? random_floats(w, seed, width, -.5f, .5f) : NULL,
        .y = output(w, c->flags & with_add ? random_floats(w, seed, n_y, -1, 1) : guarded(w, n_y), n_y),
        .y_stride = width + 5,
    };
    if (c->flags & of_convs)
        convs_init(w, seed);
    w->linear.add_stride = w->linear.y_stride;
    if (c->flags & with_add)
        w->linear.add = w->linear.y;
    if (c->flags & with_skip) {
        w->linear.skip = random_floats(w, seed, (c->n_rows - 1) * w->linear.add_stride + width, -1, 1);
        w->linear.blend = random_floats(w, seed, width, -1, 1);
    }
    w->n_macs = (double)c->n_rows * c->n_in * (c->n_out + (c->flags & of_convs ? c->n_taps : 0));
}

/* n_in: frames in time. */
static void depthwise_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    size_t x_stride = c->n_out + 16, taps_stride = 2 * c->n_out, y_stride = c->n_out + 16;
    size_t n = (c->n_rows - 1) * y_stride + c->n_out;
    w->depthwise = (struct depthwise){
        .n_rows = c->n_rows,
        .n_channels = c->n_out,
        .n_times = c->n_in,
        .n_taps = c->n_taps,
        .x_stride = x_stride,
        .taps = random_floats(w, seed, c->n_in * c->n_taps * taps_stride, -1, 1),
        .taps_stride = taps_stride,
        .times = c->flags & with_times ? random_floats(w, seed, (size_t)c->n_rows * c->n_out, -1, 1) : NULL,
        .times_stride = c->n_out,
        .y = output(w, guarded(w, n), n),
        .y_stride = y_stride,
    };
    for (unsigned t = 0; t < c->n_in; t++)
        w->depthwise.x[t] = random_floats(w, seed, (c->n_rows + c->n_taps - 2) * x_stride + c->n_out, -1, 1);
    w->n_macs = (double)c->n_rows * c->n_out * c->n_in * c->n_taps;
}

static void conv_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    size_t n = (size_t)c->n_rows * c->n_out;
    w->conv = (struct conv){
        .n_rows = c->n_rows,
        .n_channels = c->n_out,
        .n_taps = c->n_taps,
        .x = random_floats(w, seed, (size_t)c->n_rows * 2 * c->n_out, -100, 100), /* reaches both ends of the
                                                                                   * activation */
        .x_stride = 2 * c->n_out,
        .taps = random_floats(w, seed, (size_t)c->n_taps * c->n_out, -1, 1),
        .bias = random_floats(w, seed, c->n_out, -1, 1),
        .y = output(w, guarded(w, n), n),
    };
    for (unsigned t = 0; t + 1 < c->n_taps; t++)
        w->conv.past[t] = random_floats(w, seed, n, -1, 1);
    output(w, w->conv.past[0], n);
    w->n_macs = (double)n * c->n_taps;
}

/* n_in: states. */
static void scan_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    size_t n = (size_t)c->n_rows * c->n_out;
    int tiny = c->flags & tiny_steps;
    float *decay = random_floats(w, seed, (size_t)c->n_out * c->n_in, -20, 0), *packed_decay;
    packed_decay = random_floats(w, seed, (size_t)c->n_out * c->n_in, 0, 0);
    scan_pack(packed_decay, decay, c->n_out, c->n_in);
    w->scan = (struct scan){
        .n_rows = c->n_rows,
        .n_channels = c->n_out,
        .n_states = c->n_in,
        .u = random_floats(w, seed, n, -2, 2),
        .step = tiny ? random_floats(w, seed, n, -16, -12) : random_floats(w, seed, n, -30, 30),
        .select = random_floats(w, seed, c->n_rows * (2 * c->n_in + 5), -1, 1),
        .select_stride = 2 * c->n_in + 5,
        .z = random_floats(w, seed, 2 * n, -30, 30),
        .z_stride = 2 * c->n_out,
        .decay = packed_decay,
        .pass = tiny ? random_floats(w, seed, c->n_out, 0, 0) : random_floats(w, seed, c->n_out, -1, 1),
        .h = tiny ? random_floats(w, seed, n * c->n_in, 0, 0) : random_floats(w, seed, n * c->n_in, -1, 1),
        .y = output(w, guarded(w, n), n),
    };
    output(w, w->scan.h, n * c->n_in);
    w->n_macs = (double)n * c->n_in * 2;
}

/* n_in: states; n_taps: groups of 16 channels in a head. */
static void ssd_init(struct kernel_work *w, uint32_t *seed) {
    const struct kernel_case *c = w->c;
    size_t n = (size_t)c->n_rows * c->n_out, stride = c->n_out + 2 * c->n_in, row = c->n_out + SSD_MAX_HEADS;
    int tiny = c->flags & tiny_steps;
    float *z = random_floats(w, seed, c->n_rows * row, tiny ? -16 : -30, tiny ? -12 : 30);
    w->ssd = (struct ssd){
        .n_rows = c->n_rows,
        .n_channels = c->n_out,
        .head_dim = 16 * c->n_taps,
        .n_states = c->n_in,
        .epsilon = 1e-5f,
        .u = random_floats(w, seed, c->n_rows * stride, -.5f, 2), /* B.C is seldom near 0, where the norm would amplify
                                                                   * rounding */
        .u_stride = stride,
        .step = z + c->n_out,
        .z = z,
        .z_stride = row,
        .decay = random_floats(w, seed, SSD_MAX_HEADS, -30, 0),
        .pass = random_floats(w, seed, SSD_MAX_HEADS, tiny ? 0 : -1, tiny ? 0 : 1),
        .h = output(w, random_floats(w, seed, n * c->n_in, tiny ? 0 : -1, tiny ? 0 : 1), n * c->n_in),
        .y = output(w, guarded(w, n), n),
        .y_stride = c->n_out,
    };
    w->n_macs = (double)n * c->n_in * 2;
}

/* n_rows: points. */
static void fft_init(struct kernel_work *w, uint32_t *seed) {
    const unsigned n = w->c->n_rows;
    const bool inverse = w->c->flags & backwards;
    fft_plan_init(&w->plan, guarded(w, fft_plan_init(&w->plan, NULL, n, inverse)), n, inverse);
    w->fft = (struct fft){&w->plan, random_floats(w, seed, n + 2, -1, 1),
                          output(w, guarded(w, n + 2), inverse ? n : n + 2)};
}

void kernel_work_init(struct kernel_work *w, const struct kernel_case *c, const struct kernels *k, unsigned seed) {
    uint32_t state = seed;
    size_t n = (size_t)c->n_rows * c->n_out;
    *w = (struct kernel_work){.c = c, .bf16 = k->bf16};
    switch (c->op) {
    case op_linear: linear_init(w, &state); break;
    case op_depthwise: depthwise_init(w, &state); break;
    case op_conv: conv_init(w, &state); break;
    case op_scan: scan_init(w, &state); break;
    case op_ssd: ssd_init(w, &state); break;
    case op_gru:
        w->gru = (struct gru){c->n_rows, c->n_out, random_floats(w, &state, 3 * n, -20, 20),
                              random_floats(w, &state, 3 * n, -4, 4), output(w, random_floats(w, &state, n, -1, 1), n)};
        w->n_macs = 4. * (double)n;
        break;
    case op_lstm:
        w->lstm = (struct lstm){c->n_rows, c->n_out, random_floats(w, &state, 4 * n, -20, 20),
                                output(w, random_floats(w, &state, n, -1, 1), n),
                                output(w, random_floats(w, &state, n, -1, 1), n)};
        w->n_macs = 3. * (double)n;
        break;
    case op_attend:
        w->attend = (struct attend){.n_rows = c->n_rows,
                                    .n_channels = c->n_out,
                                    .weight = packed(w, &state, c->n_out, c->n_out, NULL),
                                    .bias = random_floats(w, &state, c->n_out, .5f, 1),
                                    .x = random_floats(w, &state, 2 * n, -1, 1),
                                    .y = output(w, guarded(w, n), n),
                                    .mean = guarded(w, c->n_out),
                                    .factor = guarded(w, c->n_out)};
        w->n_macs = (double)c->n_out * c->n_out + 3. * (double)n;
        break;
    case op_fft: fft_init(w, &state); break;
    case op_power:
        w->power = (struct power){
            c->n_rows, c->flags & backwards ? 1 / .3f : .3f, /* successive calls work on their own
                                                                                    * results */
            output(w, random_floats(w, &state, c->n_rows + POWER_PAD, .5f, c->flags & backwards ? 1 : 1e6f),
                   c->n_rows)};
        break;
    }
}

bool kernel_work_possible(const struct kernel_case *c, const struct kernels *k) {
    return !(c->flags & in_pairs) || k->linear_pairs;
}

void kernel_work_run(struct kernel_work *w, const struct kernels *k) {
    if (w->c->flags & in_pairs) {
        (k != &kernels_reference ? k->linear_pairs : w->bf16 ? linear_bf16_ref : linear_int16_ref)(&w->linear);
        return;
    }
    switch (w->c->op) {
#define ROW(op) \
    case op_##op: k->op(&w->op); break;
        KERNELS_TABLE(ROW)
#undef ROW
    }
}

void kernel_work_done(struct kernel_work *w) {
    pool_done(&w->pool);
}
