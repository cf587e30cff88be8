/* The GPU's kernels for many frames against their definitions in double, including those of selective_scan and
 * causal_conv1d; the network's blocks against the CPU's; the engine for files against the CPU engine. Skipped without
 * an NVIDIA GPU. */
#include "engine/engine.h"
#include "kernels/attend/attend_cuda.h"
#include "kernels/conv/conv_cuda.h"
#include "kernels/depthwise/depthwise_cuda.h"
#include "kernels/history/history_cuda.h"
#include "kernels/kernels.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/prime/prime_cuda.h"
#include "kernels/recurrent/recurrent_cuda.h"
#include "kernels/scan/scan_cuda.h"
#include "kernels/ssd/ssd_cuda.h"
#include "model/model.h"
#include "net/net.h"
#include "src/engine/cuda/fft.h"
#include "src/engine/cuda/net_cuda.h"
#include "tests/support/run.h"
#include "tests/support/snr.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed;

static uint32_t draw(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static unsigned between(unsigned least, unsigned most) {
    return least + draw() % (most - least + 1);
}

/* An array on the host and its copy on the device. */
struct array {
    float *host, *device;
    size_t n;
};

static void ok(int code) {
    ck_assert_msg(!code, "%s", cudaGetErrorString((cudaError_t)code));
}

/* NaN guards, which must not be overwritten, surround every device array. */
enum { GUARD = 64 };

static struct array array_of(size_t n, float low, float high) {
    struct array a = {malloc(n * sizeof(float)), NULL, n};
    ck_assert_ptr_nonnull(a.host);
    for (size_t i = 0; i < n; i++)
        a.host[i] = low + (high - low) * (float)draw() / 0x1p24f;
    ok(cudaMalloc((void **)&a.device, (n + 2 * GUARD) * sizeof(float)));
    ok(cudaMemset(a.device, 0xff, (n + 2 * GUARD) * sizeof(float)));
    a.device += GUARD;
    ok(cudaMemcpy(a.device, a.host, n * sizeof(float), cudaMemcpyHostToDevice));
    return a;
}

/* An array for the kernels to write. */
static struct array poisoned(size_t n) {
    struct array a = array_of(n, 0, 0);
    ok(cudaMemset(a.device, 0xff, n * sizeof(float)));
    return a;
}

static void fetch(struct array *a) {
    ok(cudaGetLastError());
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(a->host, a->device, a->n * sizeof(float), cudaMemcpyDeviceToHost));
}

static void done(struct array *a) {
    uint32_t guards[2][GUARD];
    ok(cudaMemcpy(guards[0], a->device - GUARD, sizeof *guards, cudaMemcpyDeviceToHost));
    ok(cudaMemcpy(guards[1], a->device + a->n, sizeof *guards, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < GUARD; i++)
        ck_assert_msg(guards[0][i] == UINT32_MAX && guards[1][i] == UINT32_MAX, "written beside an array of %zu", a->n);
    free(a->host);
    ok(cudaFree(a->device - GUARD));
}

/* Compares `of` values, starting at is[0] and should[0], within `roundings` of the largest. */
static void check_close(const float *is, const double *should, size_t n, double roundings, const char *what) {
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(should[i]));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(is[i] - should[i]) <= roundings * 0x1p-24 * largest,
                      "%s: [%zu] of %zu is %.9g, should be %.9g (largest %g)", what, i, n, (double)is[i], should[i],
                      largest);
}

/* Packs weight [n_in][stride] for linear_cuda. */
static struct array packed(struct array weight, unsigned n_in, unsigned n_out, size_t stride) {
    struct array a = array_of(linear_cuda_size(n_in, n_out), 0, 0);
    float *row = malloc(n_in * sizeof *row);
    ck_assert_ptr_nonnull(row);
    for (unsigned o = 0; o < n_out; o++) {
        for (unsigned i = 0; i < n_in; i++)
            row[i] = weight.host[i * stride + o];
        linear_cuda_put(a.host, n_in, n_out, o, row);
    }
    free(row);
    ok(cudaMemcpy(a.device, a.host, a.n * sizeof(float), cudaMemcpyHostToDevice));
    return a;
}

static double *doubles(size_t n) {
    double *to = calloc(n, sizeof *to);
    ck_assert_ptr_nonnull(to);
    return to;
}

static double silu(double v) {
    return v / (1 + exp(-v));
}

/* ---- kernels ---- */

/* The magnitude of some cases' inputs: beyond what half precision holds, and below. */
static float size_of(int i) {
    return i % 4 == 2 ? 1e6f : i % 4 == 3 ? 1e-6f : 1;
}

enum { linear_prelu = 1, linear_gate = 2, linear_add = 4, linear_skip = 8, linear_norm = 16, linear_scale = 32 };

/* size: the magnitude of inputs and biases. */
static void check_linear(unsigned frames, unsigned rows, unsigned n_in, unsigned n_out, unsigned flags,
                         bool overlapping, float size) {
    const unsigned width = linear_cuda_width(n_out), n_y = flags & linear_gate ? n_out / 2 : n_out;
    const size_t x_stride = overlapping ? n_in - n_in / 3 : n_in,
                 x_frame = (rows - 1) * x_stride + n_in + 4 * (n_in % 4 == 0);
    const size_t y_stride = n_y, y_frame = rows * y_stride;
    struct array x = array_of(frames * x_frame, -size, 2 * size), weight = array_of((size_t)n_in * width, -1, 1);
    struct array weights = packed(weight, n_in, n_out, width);
    struct array bias = array_of(width, -size, size), prelu = array_of(width, -.5f, .5f),
                 scale = array_of((size_t)frames * n_in, -1, 1);
    struct array add = array_of(frames * y_frame, -1, 1), skip = array_of(frames * y_frame, -1, 1),
                 blend = array_of(n_out, -1, 1);
    struct array y = poisoned(frames * y_frame);
    struct linear_cuda a = {frames,
                            rows,
                            n_in,
                            n_out,
                            x.device,
                            x_frame,
                            x_stride,
                            flags & linear_norm ? 1e-5f : 0,
                            flags & linear_scale ? scale.device : NULL,
                            weights.device,
                            bias.device,
                            flags & linear_prelu ? prelu.device : NULL,
                            flags & linear_gate,
                            flags & linear_add ? add.device : NULL,
                            y_frame,
                            y_stride,
                            flags & linear_skip ? skip.device : NULL,
                            blend.device,
                            y.device,
                            y_frame,
                            y_stride};
    linear_cuda(&a, NULL);
    fetch(&y);
    double *should = doubles(frames * y_frame), v[1280];
    for (unsigned f = 0; f < frames; f++)
        for (unsigned r = 0; r < rows; r++) {
            const float *in = x.host + f * x_frame + r * x_stride;
            double mean = 0, variance = 0;
            for (unsigned i = 0; i < n_in; i++)
                mean += in[i] / (double)n_in;
            for (unsigned i = 0; i < n_in; i++)
                variance += (in[i] - mean) * (in[i] - mean) / n_in;
            for (unsigned i = 0; i < n_in; i++)
                v[i] = flags & linear_norm    ? (in[i] - mean) / sqrt(variance + 1e-5)
                       : flags & linear_scale ? (double)in[i] * scale.host[(size_t)f * n_in + i]
                                              : in[i];
            double before = 0;
            for (unsigned o = 0; o < n_out; o++) {
                double sum = bias.host[o];
                for (unsigned i = 0; i < n_in; i++)
                    sum += v[i] * weight.host[(size_t)i * width + o];
                if (flags & linear_prelu && sum < 0)
                    sum *= prelu.host[o];
                const size_t at = f * y_frame + r * y_stride + o;
                if (flags & linear_gate) {
                    if (o % 2)
                        should[f * y_frame + r * y_stride + o / 2] = before * sum;
                    before = sum;
                    continue;
                }
                should[at] = sum + (flags & linear_add ? add.host[at] : 0) +
                             (flags & linear_skip ? (double)skip.host[at] * blend.host[o] : 0);
            }
        }
    char what[128];
    snprintf(what, sizeof what, "linear %u x %u, %u to %u, flags %u", frames, rows, n_in, n_out, flags);
    check_close(y.host, should, frames * y_frame, 128, what);
    struct array *all[] = {&x, &weight, &weights, &bias, &prelu, &scale, &add, &skip, &blend, &y};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should);
}

/* cuFFT and its replacement, each against the definition. */
START_TEST(fft_is_its_formula) {
    static const unsigned sizes[] = {1024, 400, 960, 750, 32};
    const unsigned n = sizes[_i / 2], n_frames = 3, n_bins = n / 2 + 1;
    struct fft *fft = NULL;
    seed = 30 + (uint32_t)_i;
    struct array x = array_of((size_t)n_frames * n, -1, 1), X = poisoned(2 * (size_t)n_frames * n_bins);
    double *should = doubles(X.n), *back = doubles(x.n);
    for (size_t f = 0; f < n_frames; f++) {
        for (unsigned k = 0; k < n_bins; k++)
            for (unsigned j = 0; j < n; j++) {
                should[2 * (f * n_bins + k)] += x.host[f * n + j] * cos(2 * M_PI * k * j / n);
                should[2 * (f * n_bins + k) + 1] -= x.host[f * n + j] * sin(2 * M_PI * k * j / n);
            }
        for (unsigned j = 0; j < n; j++)
            back[f * n + j] = (double)n * x.host[f * n + j];
    }
    ok(fft_open(&fft, n, n_frames, _i % 2));
    ok(fft_forward(fft, x.device, X.device, NULL));
    fetch(&X);
    check_close(X.host, should, X.n, 64, fft_name(fft));
    ok(cudaMemset(x.device, 0xff, x.n * sizeof(float)));
    ok(fft_inverse(fft, X.device, x.device, NULL));
    fetch(&x);
    check_close(x.host, back, x.n, 64, fft_name(fft));
    fft_close(fft);
    free(should);
    free(back);
    done(&x);
    done(&X);
}
END_TEST

START_TEST(linear_is_its_formula) {
    static const unsigned flags[] = {0,
                                     linear_prelu,
                                     linear_norm,
                                     linear_norm | linear_gate,
                                     linear_add,
                                     linear_scale | linear_add,
                                     linear_add | linear_skip};
    seed = 1 + (uint32_t)_i;
    check_linear(between(1, 5), between(1, 200), 16 * between(1, 20), 16 * between(1, 16), flags[_i % 7], false, 1);
    check_linear(between(1, 5), between(1, 200), 48 * between(1, 4), 16 * between(1, 4), linear_prelu, true, 1);
    check_linear(between(1, 5), between(1, 200), 16 * between(1, 4), 64 * between(2, 4),
                 linear_norm | (_i % 2 ? linear_gate : 0), false, 1);
    check_linear(between(1, 3), between(1, 300), 4 * between(1, 40), 4 * between(1, 60), flags[_i % 7], false, 1);
    check_linear(1, 1, 4 * between(1, 40), 4 * between(1, 60), flags[_i % 7], false, 1);
    check_linear(between(1, 3), between(1, 300), between(1, 16), 16 * between(1, 4), linear_prelu, false,
                 1);                                                              /* embed */
    check_linear(between(1, 3), between(1, 300), 64, between(1, 3), 0, false, 1); /* head */
    check_linear(between(1, 3), between(1, 300), 128, 36, 0, false, 1);           /* select */
    check_linear(between(1, 3), between(1, 300), 16 * between(1, 20), 64, 0, false, 1e6f);
    check_linear(between(1, 3), between(1, 300), 16 * between(1, 20), 64, 0, false, 1e-6f);
}
END_TEST

/* y[o] = bias[o] + sum_i x[i] weight[i][o], for o < n_out; weight is [n_in][stride]. */
static void multiplied(double *y, const double *x, unsigned n_in, struct array weight, unsigned stride,
                       struct array bias, unsigned n_out) {
    for (unsigned o = 0; o < n_out; o++) {
        y[o] = bias.host[o];
        for (unsigned i = 0; i < n_in; i++)
            y[o] += x[i] * weight.host[(size_t)i * stride + o];
    }
}

static void normalised(double *y, const double *x, unsigned n) {
    double mean = 0, variance = 0;
    for (unsigned i = 0; i < n; i++)
        mean += x[i] / n;
    for (unsigned i = 0; i < n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / n;
    for (unsigned i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-5);
}

START_TEST(linear_chain_is_its_formula) {
    seed = 50 + (uint32_t)_i;
    const unsigned c = 16u << _i % 3, frames = between(1, 5), rows = between(1, 100);
    const bool gates = _i / 3 % 2, in_place = _i % 2;
    const size_t n = (size_t)frames * rows;
    const float size = size_of(_i);
    struct array x = array_of(n * c, -size, 2 * size), product = array_of(n * c, -size, size),
                 factor = array_of(frames * c, -1, 1);
    struct array gate = array_of(2 * c * c, -sqrtf(size), sqrtf(size)), proj = array_of(c * c, -1, 1),
                 out = array_of(4 * c * c, -1, 1);
    struct array gate_bias = array_of(2 * c, -1, 1), proj_bias = array_of(c, -1, 1), out_bias = array_of(4 * c, -1, 1);
    struct array turned = array_of(c * c, 0, 0), y = poisoned(n * c), z = poisoned(4 * n * c);
    for (unsigned i = 0; i < c * c; i++)
        turned.host[(gates ? linear_chain_cuda_input(i / c) : i / c) * c + i % c] = proj.host[i];
    struct array weights[] = {packed(gate, c, 2 * c, 2 * c), packed(turned, c, c, c), packed(out, c, 4 * c, 4 * c)};
    struct linear_chain_cuda a = {.n_frames = frames,
                                  .n_rows = rows,
                                  .n_channels = c,
                                  .norm_epsilon = 1e-5f,
                                  .x = x.device,
                                  .gate = gates ? weights[0].device : NULL,
                                  .gate_bias = gate_bias.device,
                                  .product = product.device,
                                  .factor = factor.device,
                                  .proj = weights[1].device,
                                  .proj_bias = proj_bias.device,
                                  .out = weights[2].device,
                                  .out_bias = out_bias.device,
                                  .y = in_place ? x.device : y.device,
                                  .z = z.device};
    double *should_y = doubles(y.n), *should_z = doubles(z.n), v[64], sums[256];
    for (size_t r = 0; r < n; r++) {
        for (unsigned i = 0; i < c; i++)
            v[i] = gates ? x.host[r * c + i] : (double)product.host[r * c + i] * factor.host[r / rows * c + i];
        if (gates) {
            normalised(v, v, c);
            multiplied(sums, v, c, gate, 2 * c, gate_bias, 2 * c);
            for (unsigned i = 0; i < c; i++)
                v[i] = sums[2 * i] * sums[2 * i + 1];
        }
        multiplied(sums, v, c, proj, c, proj_bias, c);
        for (unsigned i = 0; i < c; i++)
            v[i] = should_y[r * c + i] = sums[i] + x.host[r * c + i];
        normalised(v, v, c);
        multiplied(should_z + 4 * r * c, v, c, out, 4 * c, out_bias, 4 * c);
    }
    linear_chain_cuda(&a, NULL);
    struct array *written = in_place ? &x : &y;
    fetch(written);
    fetch(&z);
    check_close(written->host, should_y, written->n, 256, "linear chain, y");
    check_close(z.host, should_z, z.n, 256, "linear chain, z");
    struct array *all[] = {&x,        &product, &factor, &gate, &proj,       &out,        &gate_bias, &proj_bias,
                           &out_bias, &turned,  &y,      &z,    &weights[0], &weights[1], &weights[2]};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should_y);
    free(should_z);
}
END_TEST

START_TEST(dense_is_its_formula) {
    seed = 100 + (uint32_t)_i;
    const unsigned frames = between(1, 40), rows = between(1, 30), c = 16 * between(1, 4), layer = (unsigned)_i % 5;
    const unsigned n_past = 32, width = (layer + 1) * c;
    const float size = size_of(_i);
    struct array map[5], past[5], taps = array_of(9 * width, -1, 1), y = poisoned((size_t)frames * rows * c);
    struct array weight = array_of(width * linear_cuda_width(c), -1, 1),
                 weights = packed(weight, width, c, linear_cuda_width(c)),
                 bias = array_of(linear_cuda_width(c), -size, size), prelu = array_of(linear_cuda_width(c), -.5f, .5f);
    struct dense_cuda a = {
        frames,      rows,         c,        layer,           n_past, {0}, {0}, taps.device, weights.device,
        bias.device, prelu.device, y.device, (size_t)rows * c};
    for (unsigned j = 0; j <= layer; j++) {
        map[j] = array_of((size_t)frames * rows * c, -size, size);
        past[j] = array_of((size_t)n_past * rows * c, -size, size);
        a.map[j] = map[j].device;
        a.past[j] = past[j].device;
    }
    dense_cuda(&a, NULL);
    fetch(&y);
    double *should = doubles(y.n), v[5 * 64];
    for (unsigned f = 0; f < frames; f++)
        for (unsigned r = 0; r < rows; r++) {
            for (unsigned i = 0; i < width; i++) {
                v[i] = 0;
                for (unsigned t = 0; t < 3; t++)
                    for (unsigned k = 0; k < 3; k++) {
                        const unsigned j = layer - i / c;
                        const int frame = (int)f - (int)((2 - t) << layer), row = (int)(r + k) - 1;
                        if (row < 0 || row >= (int)rows)
                            continue;
                        const float *x = frame < 0 ? past[j].host + (n_past + frame) * rows * c
                                                   : map[j].host + frame * rows * c;
                        v[i] += (double)x[row * c + i % c] * taps.host[(t * 3 + k) * width + i];
                    }
            }
            double *out = should + ((size_t)f * rows + r) * c;
            multiplied(out, v, width, weight, linear_cuda_width(c), bias, c);
            for (unsigned o = 0; o < c; o++)
                out[o] *= out[o] < 0 ? prelu.host[o] : 1;
        }
    check_close(y.host, should, y.n, 128, "dense");
    for (unsigned j = 0; j <= layer; j++) {
        done(&map[j]);
        done(&past[j]);
    }
    struct array *all[] = {&taps, &weight, &weights, &bias, &prelu, &y};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should);
}
END_TEST

START_TEST(over_frequency_is_its_formula) {
    seed = 200 + (uint32_t)_i;
    const unsigned n_taps[] = {1, 3, 11, 23, 31, 63};
    const unsigned frames = between(1, 9), rows = between(1, 120), c = 16 * between(1, 6), n = n_taps[_i % 6],
                   n_all = frames * rows;
    const bool with_times = _i % 3 == 1;
    struct array x = array_of((size_t)n_all * (c + 16), -1, 1), taps = array_of(n * c, -1, 1),
                 times = array_of((size_t)n_all * c, -1, 1);
    struct array y = poisoned((size_t)n_all * c);
    over_frequency_cuda(&(struct over_frequency_cuda){frames, rows, c, n, x.device, c + 16, taps.device,
                                                      with_times ? times.device : NULL, y.device, c},
                        NULL);
    fetch(&y);
    double *should = doubles(y.n);
    for (unsigned r = 0; r < n_all; r++)
        for (unsigned i = 0; i < c; i++) {
            double sum = 0;
            for (unsigned k = 0; k < n; k++) {
                const int row = (int)(r % rows + k) - (int)n / 2;
                if (row >= 0 && row < (int)rows)
                    sum += (double)x.host[((size_t)(r / rows * rows) + row) * (c + 16) + i] * taps.host[k * c + i];
            }
            should[(size_t)r * c + i] = with_times ? sum * times.host[(size_t)r * c + i] : sum;
        }
    check_close(y.host, should, y.n, 64, "over frequency");
    done(&x);
    done(&taps);
    done(&times);
    done(&y);
    free(should);
}
END_TEST

/* sum[i] = sum_k x[row + k - n_taps / 2] taps[k][i], zeros beyond the edges. */
static double at_row(const float *x, size_t stride, int n_rows, int row, const float *taps, unsigned n_taps, unsigned c,
                     unsigned i) {
    double sum = 0;
    for (int k = 0; k < (int)n_taps; k++) {
        const int r = row + k - (int)n_taps / 2;
        if (r >= 0 && r < n_rows)
            sum += (double)x[(size_t)r * stride + i] * taps[(unsigned)k * c + i];
    }
    return sum;
}

START_TEST(prime_is_its_formula) {
    static const unsigned n_taps[] = {3, 11, 23, 31};
    seed = 250 + (uint32_t)_i;
    const unsigned c = 16u << _i % 3, n_kernels = between(1, 4), frames = between(1, 4),
                   rows = _i < 3 ? 100 : between(1, 104);
    const unsigned width = linear_cuda_width(c), stride = n_kernels * c;
    if (!prime_cuda_fits(rows, c, n_taps[n_kernels - 1]))
        return; /* over_frequency and linear are used instead */
    const float size = size_of(_i);
    struct array x = array_of((size_t)frames * rows * stride, -size, size), y = poisoned(x.n), mixed_taps[4], taps[4],
                 weight[4], bias[4];
    struct array weights[4];
    struct prime_cuda a = {
        .n_frames = frames, .n_rows = rows, .n_channels = c, .n_kernels = n_kernels, .x = x.device, .y = y.device};
    double *should = doubles(y.n), *mixed = doubles(c);
    for (unsigned k = 0; k < n_kernels; k++) {
        mixed_taps[k] = array_of(n_taps[k] * c, -1, 1);
        taps[k] = array_of(n_taps[k] * c, -1, 1);
        weight[k] = array_of(c * width, -1, 1);
        weights[k] = packed(weight[k], c, c, width);
        bias[k] = array_of(width, -size, size);
        a.kernel[k].n_taps = n_taps[k];
        a.kernel[k].mixed_taps = mixed_taps[k].device;
        a.kernel[k].taps = taps[k].device;
        a.kernel[k].weight = weights[k].device;
        a.kernel[k].bias = bias[k].device;
    }
    prime_cuda(&a, NULL);
    fetch(&y);
    for (unsigned f = 0; f < frames; f++)
        for (int r = 0; r < (int)rows; r++)
            for (unsigned k = 0; k < n_kernels; k++) {
                const float *map = x.host + (size_t)f * rows * stride + k * c;
                for (unsigned i = 0; i < c; i++)
                    mixed[i] = at_row(map, stride, (int)rows, r, mixed_taps[k].host, n_taps[k], c, i);
                double *out = should + ((size_t)f * rows + (unsigned)r) * stride + k * c;
                multiplied(out, mixed, c, weight[k], width, bias[k], c);
                for (unsigned o = 0; o < c; o++)
                    out[o] *= at_row(map, stride, (int)rows, r, taps[k].host, n_taps[k], c, o);
            }
    check_close(y.host, should, y.n, 128, "prime");
    for (unsigned k = 0; k < n_kernels; k++) {
        struct array *all[] = {&mixed_taps[k], &taps[k], &weight[k], &weights[k], &bias[k]};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
            done(all[i]);
    }
    done(&x);
    done(&y);
    free(should);
    free(mixed);
}
END_TEST

START_TEST(attend_is_its_formula) {
    seed = 300 + (uint32_t)_i;
    const unsigned frames = between(1, 20), rows = between(1, 120), c = 16 * between(1, 16),
                   stride = linear_cuda_width(c);
    struct array x = array_of((size_t)frames * rows * 2 * c, -1, 2), weight = array_of(c * stride, -1, 1),
                 bias = array_of(c, -1, 1), taps = array_of(3 * 2 * c, -1, 1);
    struct array y = poisoned((size_t)frames * rows * c), factor = poisoned(frames * c);
    attend_cuda(&(struct attend_cuda){frames, rows, c, stride, weight.device, bias.device, x.device, taps.device,
                                      y.device, factor.device},
                NULL);
    fetch(&y);
    fetch(&factor);
    double *should_y = doubles(y.n), *should = doubles(factor.n);
    for (unsigned f = 0; f < frames; f++) {
        for (size_t r = 0; r < rows; r++)
            for (unsigned i = 0; i < c; i++) {
                double sum[2] = {0};
                for (unsigned half = 0; half < 2; half++)
                    for (unsigned k = 0; k < 3; k++)
                        if (r + k >= 1 && r + k <= rows)
                            sum[half] += (double)x.host[((f * rows + r + k - 1) * 2 + half) * c + i] *
                                         taps.host[(2 * k + half) * c + i];
                should_y[(f * rows + r) * c + i] = sum[0] * sum[1];
            }
        for (unsigned o = 0; o < c; o++) {
            should[f * c + o] = bias.host[o];
            for (unsigned r = 0; r < rows; r++)
                for (unsigned i = 0; i < c; i++)
                    should[f * c + o] += weight.host[i * stride + o] * should_y[((size_t)f * rows + r) * c + i] / rows;
        }
    }
    check_close(y.host, should_y, y.n, 64, "attend's gate");
    check_close(factor.host, should, factor.n, 128, "attend");
    struct array *all[] = {&x, &weight, &bias, &taps, &y, &factor};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should_y);
    free(should);
}
END_TEST

START_TEST(history_is_the_last_frames) {
    seed = 400 + (uint32_t)_i;
    const unsigned frames = between(1, 20), rows = between(1, 50), c = 16 * between(1, 4), n_past = between(1, 16);
    struct array x = array_of((size_t)frames * rows * (c + 16), -1, 1),
                 past = array_of((size_t)n_past * rows * c, -1, 1);
    float *should = malloc(past.n * sizeof *should);
    ck_assert_ptr_nonnull(should);
    for (unsigned p = 0; p < n_past; p++)
        for (unsigned r = 0; r < rows; r++) {
            const unsigned from = p + frames;
            memcpy(should + (p * rows + r) * c,
                   from < n_past ? past.host + (from * rows + r) * c : x.host + ((from - n_past) * rows + r) * (c + 16),
                   c * sizeof *should);
        }
    history_cuda(&(struct history_cuda){frames, rows, c, n_past, x.device, c + 16, past.device}, NULL);
    fetch(&past);
    ck_assert_mem_eq(past.host, should, past.n * sizeof *should);
    done(&x);
    done(&past);
    free(should);
}
END_TEST

/* causal_conv1d with its activation, from zero state over a whole sequence; causal_conv1d_update is the same with calls
 * of one frame. Divided into calls at random, and frame by frame. */
START_TEST(conv_is_the_published_one) {
    seed = 500 + (uint32_t)_i;
    const unsigned batch = _i == 0 ? 128 : between(1, 20), width = 64 * between(1, 4), n_taps = 2 + (unsigned)_i % 3;
    const unsigned length = between(1, 60);
    const size_t frame = (size_t)batch * width;
    const float size = fmaxf(3, size_of(_i));
    struct array x = array_of(length * frame, -size, size), taps = array_of(n_taps * width, -1, 1),
                 bias = array_of(width, -1, 1);
    struct array past = array_of((n_taps - 1) * frame, 0, 0), y = poisoned(length * frame);
    const unsigned n_out = between(1, 140), stride = (n_out + 3) / 4 * 4, z_width = linear_cuda_width(n_out);
    const bool follows = _i / 2 % 2;
    struct array weight = array_of(width * z_width, -1, 1), z_bias = array_of(z_width, -1, 1);
    for (unsigned o = n_out; o < z_width; o++)
        z_bias.host[o] = 0;
    ok(cudaMemcpy(z_bias.device, z_bias.host, z_width * sizeof(float), cudaMemcpyHostToDevice));
    struct array weights = packed(weight, width, n_out, z_width), z = poisoned((size_t)length * batch * stride);
    for (unsigned t = 0, n; t < length; t += n) {
        n = _i % 2 ? 1 : between(1, length - t);
        conv_cuda(&(struct conv_cuda){n, batch, width, n_taps, x.device + t * frame, width, past.device, taps.device,
                                      bias.device, y.device + t * frame, follows ? weights.device : NULL, z_bias.device,
                                      n_out, z.device + (size_t)t * batch * stride, stride},
                  NULL);
        history_cuda(&(struct history_cuda){n, batch, width, n_taps - 1, x.device + t * frame, width, past.device},
                     NULL);
    }
    fetch(&y);
    double *should = doubles(y.n);
    for (unsigned t = 0; t < length; t++)
        for (size_t i = 0; i < frame; i++) {
            double sum = bias.host[i % width];
            for (unsigned k = 0; k < n_taps; k++)
                if (t + k + 1 >= n_taps)
                    sum += (double)taps.host[k * width + i % width] * x.host[(t + k + 1 - n_taps) * frame + i];
            should[t * frame + i] = silu(sum);
        }
    check_close(y.host, should, y.n, 32, "causal_conv1d");
    if (follows) {
        double *should_z = doubles(z.n);
        fetch(&z);
        for (size_t r = 0; r < length * batch; r++)
            multiplied(should_z + r * stride, should + r * width, width, weight, z_width, z_bias, n_out);
        check_close(z.host, should_z, z.n, 128, "causal_conv1d and a linear layer");
        free(should_z);
    }
    struct array *all[] = {&x, &taps, &bias, &past, &y, &weight, &weights, &z_bias, &z};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should);
}
END_TEST

/* selective_scan with D, z, delta_bias and delta_softplus, B and C varying; the step sizes come from a linear layer of
 * rank r, bias included. selective_state_update is the same with calls of one frame. */
START_TEST(scan_is_the_published_one) {
    seed = 600 + (uint32_t)_i;
    const unsigned batch = _i == 0 ? 128 : between(1, 12), width = 64 * between(1, 4), states = _i % 2 ? 64 : 16;
    const unsigned length = between(1, 50), rank = between(1, 8), row = 2 * states + (rank + 3) / 4 * 4,
                   n_all = length * batch;
    struct array u = array_of((size_t)n_all * width, -2, 2), select = array_of((size_t)n_all * row, -1, 1);
    struct array step = array_of(rank * width, -1, 1), bias = array_of(width, -4, 1),
                 z = array_of((size_t)n_all * width, -4, 4);
    struct array decay = array_of((size_t)width * states, 0, 0), pass = array_of(width, -1, 1);
    struct array h = array_of((size_t)batch * width * states, 0, 0), y = poisoned((size_t)n_all * width);
    double *A = doubles((size_t)width * states);
    for (unsigned i = 0; i < width * states; i++) {
        A[i] = -(1. + i % states) * between(50, 200) / 100.;
        decay.host[i] = (float)(A[i] * M_LOG2E);
    }
    ok(cudaMemcpy(decay.device, decay.host, decay.n * sizeof(float), cudaMemcpyHostToDevice));
    for (unsigned t = 0, n; t < length; t += n) {
        n = _i % 3 == 2 ? 1 : between(1, length - t);
        const size_t at = (size_t)t * batch;
        scan_cuda(&(struct scan_cuda){n, batch, width, states, rank, u.device + at * width, select.device + at * row,
                                      row, step.device, bias.device, z.device + at * width, width, decay.device,
                                      pass.device, h.device, y.device + at * width},
                  NULL);
    }
    fetch(&y);
    fetch(&h);
    double *should = doubles(y.n), *state = doubles(h.n);
    for (unsigned t = 0; t < length; t++)
        for (unsigned b = 0; b < batch; b++)
            for (unsigned d = 0; d < width; d++) {
                const size_t at = (size_t)t * batch + b;
                const float *B = select.host + at * row, *C = B + states, *q = C + states;
                double delta = bias.host[d], out = (double)pass.host[d] * u.host[at * width + d];
                for (unsigned r = 0; r < rank; r++)
                    delta += (double)q[r] * step.host[r * width + d];
                delta = log1p(exp(-fabs(delta))) + fmax(delta, 0);
                for (unsigned s = 0; s < states; s++) {
                    double *x = &state[((size_t)b * width + d) * states + s];
                    *x = exp(delta * A[d * states + s]) * *x + delta * B[s] * u.host[at * width + d];
                    out += C[s] * *x;
                }
                should[at * width + d] = out * silu(z.host[at * width + d]);
            }
    check_close(h.host, state, h.n, 128, "selective_scan's state");
    check_close(y.host, should, y.n, 128, "selective_scan");
    struct array *all[] = {&u, &select, &step, &bias, &z, &decay, &pass, &h, &y};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(A);
    free(should);
    free(state);
}
END_TEST

/* Mamba-2's recurrence as mamba_ssm defines it, including RMSNormGated (norm after gate). */
START_TEST(ssd_is_its_formula) {
    seed = 700 + (uint32_t)_i;
    const unsigned batch = _i == 0 ? 128 : between(1, 12), head_dim = 16u << _i % 3, heads = between(1, 6),
                   width = head_dim * heads;
    const unsigned states = 16 * (1 + (unsigned)_i % 4), length = between(1, 50), n_all = length * batch;
    const unsigned u_row = width + 2 * states, z_row = (width + heads + 3) / 4 * 4;
    struct array u = array_of((size_t)n_all * u_row, -.5f, 2), z = array_of((size_t)n_all * z_row, -4, 4);
    struct array decay = array_of(heads, -16, 0), pass = array_of(heads, -1, 1);
    struct array h = array_of((size_t)batch * width * states, 0, 0), y = poisoned((size_t)n_all * width);
    for (unsigned t = 0, n; t < length; t += n) {
        n = _i % 3 == 2 ? 1 : between(1, length - t);
        const size_t at = (size_t)t * batch;
        ssd_cuda(&(struct ssd_cuda){n, batch, width, head_dim, states, 1e-5f, u.device + at * u_row, u_row,
                                    z.device + at * z_row + width, z.device + at * z_row, z_row, decay.device,
                                    pass.device, h.device, y.device + at * width},
                 NULL);
    }
    fetch(&y);
    fetch(&h);
    double *should = doubles(y.n), *state = doubles(h.n);
    for (size_t r = 0; r < n_all; r++) {
        const float *in = u.host + r * u_row, *B = in + width, *C = B + states, *gate = z.host + r * z_row;
        double *out = should + r * width, squares = 0;
        for (unsigned d = 0; d < width; d++) {
            const double q = gate[width + d / head_dim], dt = log1p(exp(-fabs(q))) + fmax(q, 0);
            double *x = state + (r % batch * width + d) * states;
            out[d] = (double)pass.host[d / head_dim] * in[d];
            for (unsigned s = 0; s < states; s++) {
                x[s] = exp2(dt * decay.host[d / head_dim]) * x[s] + dt * B[s] * in[d];
                out[d] += C[s] * x[s];
            }
            out[d] *= silu(gate[d]);
            squares += out[d] * out[d];
        }
        for (unsigned d = 0; d < width; d++)
            out[d] /= sqrt(squares / width + 1e-5);
    }
    check_close(h.host, state, h.n, 128, "ssd's state");
    check_close(y.host, should, y.n, 256, "ssd");
    struct array *all[] = {&u, &z, &decay, &pass, &h, &y};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        done(all[i]);
    free(should);
    free(state);
}
END_TEST

static double sigmoid(double v) {
    return 1 / (1 + exp(-v));
}

/* torch.nn.GRU and LSTM from zero state, with widths whose weights fit in registers and others. */
START_TEST(recurrent_is_its_formula) {
    static const unsigned widths[] = {16, 32, 64, 48, 192, 256};
    seed = 800 + (uint32_t)_i;
    const unsigned n_gates = 3 + (unsigned)_i % 2, c = widths[_i / 2], all = n_gates * c, batch = between(1, 20);
    const unsigned length = between(1, 20), stride = linear_cuda_width(all);
    const float most = 1 / sqrtf((float)c);
    struct array in = array_of((size_t)length * batch * all, -3, 3), weight = array_of((size_t)c * stride, -most, most);
    struct array bias = array_of(all, -1, 1), h = array_of((size_t)batch * c, 0, 0), cell = array_of(h.n, 0, 0);
    struct array y = poisoned((size_t)length * batch * c);
    for (unsigned t = 0, n; t < length; t += n) {
        n = _i % 3 == 2 ? 1 : between(1, length - t);
        (n_gates == 3 ? gru_cuda : lstm_cuda)(&(struct recurrent_cuda){n, batch, c, in.device + (size_t)t * batch * all,
                                                                       weight.device, stride, bias.device, h.device,
                                                                       cell.device, y.device + (size_t)t * batch * c},
                                              NULL);
    }
    fetch(&y);
    fetch(&h);
    double *should = doubles(y.n), *state = doubles(h.n), *cells = doubles(h.n), *sum = doubles(all);
    for (size_t r = 0; r < (size_t)length * batch; r++) {
        double *v = state + r % batch * c, *m = cells + r % batch * c;
        const float *a = in.host + r * all;
        for (unsigned o = 0; o < all; o++) {
            sum[o] = n_gates == 3 ? bias.host[o] : 0;
            for (unsigned k = 0; k < c; k++)
                sum[o] += v[k] * weight.host[k * stride + o];
        }
        for (unsigned i = 0; i < c; i++) {
            if (n_gates == 3) {
                const double keep = sigmoid(a[c + i] + sum[c + i]);
                v[i] = (1 - keep) * tanh(a[2 * c + i] + sigmoid(a[i] + sum[i]) * sum[2 * c + i]) + keep * v[i];
            } else {
                m[i] = sigmoid(a[c + i] + sum[c + i]) * m[i] +
                       sigmoid(a[i] + sum[i]) * tanh(a[2 * c + i] + sum[2 * c + i]);
                v[i] = sigmoid(a[3 * c + i] + sum[3 * c + i]) * tanh(m[i]);
            }
            should[r * c + i] = v[i];
        }
    }
    check_close(y.host, should, y.n, 64, n_gates == 3 ? "gru" : "lstm");
    ck_assert_mem_eq(h.host, y.host + (size_t)(length - 1) * batch * c, h.n * sizeof *h.host);
    struct array *arrays[] = {&in, &weight, &bias, &h, &cell, &y};
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        done(arrays[i]);
    free(should);
    free(state);
    free(cells);
    free(sum);
}
END_TEST

/* ---- the network's blocks ---- */

static const char *const models[] = {FIXTURES "/wide.safetensors",
                                     FIXTURES "/narrow.safetensors",
                                     FIXTURES "/long-hop.safetensors",
                                     FIXTURES "/mamba2.safetensors",
                                     FIXTURES "/gru.safetensors",
                                     FIXTURES "/lstm.safetensors",
                                     "small",
                                     "base",
                                     "large"};
static const char *const stages[] = {"mamba-16",  "mamba2-16", "gru-16",  "lstm-16",   "mamba-64",
                                     "mamba2-64", "gru-64",    "lstm-64", "mamba2-192"};
enum { N_MODELS = 9, N_FIXTURES = 6, N_STAGES = sizeof stages / sizeof *stages, LEAST_DB = 100 };

static struct model *load(const char *name) {
    struct err err;
    struct model *m;
    ck_assert_msg(!model_load(&m, name, &err), "%s", err.text);
    return m;
}

/* Compares `of` maps with the CPU's, y. */
static void compare_block(float *device, const float *y, size_t n, const char *model, const char *block,
                          int *n_failed) {
    float *is = malloc(n * sizeof *is);
    ck_assert_ptr_nonnull(is);
    ok(cudaGetLastError());
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(is, device, n * sizeof *is, cudaMemcpyDeviceToHost));
    double db = snr_db(is, y, n);
    printf("%s, %s: %.1f dB\n", model, block, db);
    *n_failed += !(db >= LEAST_DB);
    free(is);
}

/* n outputs of the mask decoder -> masks. */
static void sigmoids(const struct model *m, float *v, size_t n) {
    const struct model_config *g = model_config(m);
    for (size_t i = 0; i < n; i++)
        v[i] = g->mask_ceiling / (1 + expf(-model_weights(m)->mask_slope[i % g->n_positions] * v[i]));
}

/* A net for n_frames and a stream, whose memory the arena owns. */
static void open_net(struct net_cuda **net, struct net_cuda_state *state, struct arena *a, const struct model *m,
                     unsigned n_frames) {
    ck_assert(!net_cuda_new(net, m, NULL) && !net_cuda_state_new(*net, state));
    *a = (struct arena){0};
    for (unsigned pass = 0; pass < 2; pass++) {
        a->used = 0;
        net_cuda_weights(*net, a);
        const size_t weights = a->used;
        net_cuda_state_layout(*net, state, a);
        net_cuda_scratch(*net, a, n_frames);
        if (pass == 0) {
            ok(cudaMalloc((void **)&a->base, a->used));
            ck_assert_ptr_nonnull(a->mirror = calloc(1, weights));
            ok(cudaMemset(a->base, 0, a->used));
        } else
            ok(cudaMemcpy(a->base, a->mirror, weights, cudaMemcpyHostToDevice));
    }
}

static void close_net(struct net_cuda *net, struct net_cuda_state *state, struct arena *a) {
    ok(cudaFree(a->base));
    free(a->mirror);
    net_cuda_state_done(state);
    net_cuda_free(net);
}

/* The shapes with a fixture of their own (training/fixtures.py): input and output of each frame. */
START_TEST(time_stages_match_pytorch) {
    char path[512];
    snprintf(path, sizeof path, FIXTURES "/%s.safetensors", stages[_i]);
    struct model *m = load(path);
    const size_t map = (size_t)model_config(m)->n_half * model_config(m)->channels;
    snprintf(path, sizeof path, FIXTURES "/%s.time", stages[_i]);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f && !fseek(f, 0, SEEK_END), "%s", path);
    const size_t n = (size_t)ftell(f) / sizeof(float);
    const unsigned n_frames = (unsigned)(n / (2 * map)), first = n_frames / 3;
    float *maps = malloc(n * sizeof *maps), worst = 0;
    rewind(f);
    ck_assert(maps && fread(maps, sizeof *maps, n, f) == n); /* little-endian, like every machine with such a GPU */
    fclose(f);
    struct net_cuda *net;
    struct net_cuda_state state;
    struct arena a;
    open_net(&net, &state, &a, m, n_frames);
    struct array x = array_of(n_frames * map, 0, 0), y = poisoned(n_frames * map);
    for (unsigned t = 0; t < n_frames; t++)
        memcpy(x.host + t * map, maps + 2 * t * map, map * sizeof *maps);
    ok(cudaMemcpy(x.device, x.host, x.n * sizeof(float), cudaMemcpyHostToDevice));
    net_cuda_stage(net, &state, first, STAGE_TIME, 0, x.device, y.device);
    net_cuda_stage(net, &state, n_frames - first, STAGE_TIME, 0, x.device + first * map, y.device + first * map);
    fetch(&y);
    for (size_t i = 0; i < y.n; i++)
        worst = fmaxf(worst, fabsf(y.host[i] - maps[i / map * 2 * map + map + i % map]));
    printf("%s: error %.2g\n", stages[_i], (double)worst);
    ck_assert_msg(worst < 1e-5f, "%s: error %g", stages[_i], (double)worst);
    close_net(net, &state, &a);
    done(&x);
    done(&y);
    free(maps);
    model_free(m);
}
END_TEST

/* Each block with the CPU's input for it, in two calls. */
START_TEST(blocks_are_the_cpu_s) {
    enum { FRAMES = 60, FIRST = 23 };
    seed = 7;
    struct model *m = load(models[_i]);
    const struct model_config *g = model_config(m);
    const size_t full = (size_t)g->n_positions * g->channels, half = (size_t)g->n_half * g->channels;
    struct net *cpu;
    struct net_state cpu_state;
    struct net_cuda *net;
    struct net_cuda_state state;
    struct arena a;
    const struct kernels in_float = kernels_in_float(kernels_nth(0));
    ck_assert(!net_new(&cpu, m, &in_float) && !net_state_init(cpu, &cpu_state));
    open_net(&net, &state, &a, m, FRAMES);
    const unsigned n_stages = 3 + 2 * g->n_blocks;
    struct array x[3 + 2 * 16 + 3]; /* features, embed, encode, down, the stages, mask and rotation */
    x[0] = array_of((size_t)FRAMES * g->n_positions * 3, -1, 1);
    for (unsigned i = 1; i <= n_stages; i++)
        x[i] = array_of(FRAMES * (i < 3 ? full : half), 0, 0);
    struct array mask = array_of((size_t)FRAMES * g->n_positions, 0, 0), rotation = array_of(2 * mask.n, 0, 0);
    for (unsigned f = 0; f < FRAMES; f++) {
        net_stage(cpu, &cpu_state, STAGE_EMBED, 0, x[0].host + f * 3 * g->n_positions, x[1].host + f * full);
        net_stage(cpu, &cpu_state, STAGE_ENCODER, 0, x[1].host + f * full, x[2].host + f * full);
        net_stage(cpu, &cpu_state, STAGE_DOWN, 0, x[2].host + f * full, x[3].host + f * half);
        for (unsigned i = 3; i < n_stages; i++)
            net_stage(cpu, &cpu_state, i % 2 ? STAGE_TIME : STAGE_FREQ, (i - 3) / 2, x[i].host + f * half,
                      x[i + 1].host + f * half);
        net_stage(cpu, &cpu_state, STAGE_MASK, 0, x[n_stages].host + f * half, mask.host + f * g->n_positions);
        net_stage(cpu, &cpu_state, STAGE_PHASE, 0, x[n_stages].host + f * half, rotation.host + 2 * f * g->n_positions);
        net_step(&cpu_state);
    }
    for (unsigned i = 1; i <= n_stages; i++)
        ok(cudaMemcpy(x[i].device, x[i].host, x[i].n * sizeof(float), cudaMemcpyHostToDevice));
    struct array y = array_of(FRAMES * full, 0, 0);
    int n_failed = 0;
    const unsigned counts[] = {FIRST, FRAMES - FIRST}, firsts[] = {0, FIRST};
    char what[64];
#define IN(i, size) (x[i].device + firsts[part] * (size))
#define OUT(size) (y.device + firsts[part] * (size))
    for (unsigned part = 0; part < 2; part++)
        net_cuda_stage(net, &state, counts[part], STAGE_EMBED, 0, IN(0, 3 * (size_t)g->n_positions), OUT(full));
    compare_block(y.device, x[1].host, x[1].n, models[_i], "embed", &n_failed);
    for (unsigned part = 0; part < 2; part++)
        net_cuda_stage(net, &state, counts[part], STAGE_ENCODER, 0, IN(1, full), OUT(full));
    compare_block(y.device, x[2].host, x[2].n, models[_i], "encoder", &n_failed);
    for (unsigned part = 0; part < 2; part++)
        net_cuda_stage(net, &state, counts[part], STAGE_DOWN, 0, IN(2, full), OUT(half));
    compare_block(y.device, x[3].host, x[3].n, models[_i], "down", &n_failed);
    for (unsigned i = 3; i < n_stages; i++) {
        for (unsigned part = 0; part < 2; part++)
            net_cuda_stage(net, &state, counts[part], i % 2 ? STAGE_TIME : STAGE_FREQ, (i - 3) / 2, IN(i, half),
                           OUT(half));
        snprintf(what, sizeof what, "%s stage %u", i % 2 ? "time" : "frequency", (i - 3) / 2);
        compare_block(y.device, x[i + 1].host, x[i + 1].n, models[_i], what, &n_failed);
    }
    float *const turned = y.device + mask.n;
    for (unsigned part = 0; part < 2; part++) { /* both decoders read the same ring */
        net_cuda_stage(net, &state, counts[part], STAGE_MASK, 0, IN(n_stages, half), OUT((size_t)g->n_positions));
        net_cuda_stage(net, &state, counts[part], STAGE_PHASE, 0, IN(n_stages, half),
                       turned + firsts[part] * 2 * (size_t)g->n_positions);
    }
    ok(cudaMemcpy(y.host, y.device, mask.n * sizeof(float), cudaMemcpyDeviceToHost));
    sigmoids(m, y.host, mask.n);
    sigmoids(m, mask.host, mask.n);
    double db = snr_db(y.host, mask.host, mask.n);
    printf("%s, mask: %.1f dB\n", models[_i], db);
    n_failed += !(db >= LEAST_DB);
    compare_block(turned, rotation.host, rotation.n, models[_i], "phase", &n_failed);
#undef IN
#undef OUT
    ck_assert_msg(!n_failed, "%s: %d blocks differ", models[_i], n_failed);
    for (unsigned i = 0; i <= n_stages; i++)
        done(&x[i]);
    done(&mask);
    done(&rotation);
    done(&y);
    close_net(net, &state, &a);
    net_state_done(&cpu_state);
    net_free(cpu);
    model_free(m);
}
END_TEST

/* ---- the engine ---- */

static struct engine *open_engine(const char *name, const char *isa, const struct model *m, unsigned n_streams,
                                  unsigned max_hops) {
    struct err err;
    struct engine *e;
    struct engine_options options = {
        .name = name, .isa = isa, .exact = true, .n_streams = n_streams, .max_hops = max_hops};
    ck_assert_msg(!engine_open(&e, &options, m, &err), "%s", err.text);
    return e;
}

/* The least instruction set that this processor has kernels for. */
static const char *plainest_isa(void) {
    const char *name = NULL;
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++)
        name = k->name;
    return name;
}

/* Noise that swells and fades; a tone comes and goes. */
static float *make_sound(size_t n) {
    float *x = malloc(n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++)
        x[i] = .2f * (float)fmax(.01, sin((double)i * 2e-5)) * ((float)draw() / 0x1p23f - 1) +
               (i / 30000 % 3 == 1 ? .1f * (float)sin((double)i * .05) : 0);
    return x;
}

static void process(struct engine *e, unsigned stream, unsigned n_hops, const float *in, float *out) {
    struct engine_job job = {stream, n_hops, in, out};
    ck_assert_int_eq(engine_process(e, &job, 1), 0);
}

/* One call on one stream and random parts on another give the same bits, and the CPU engine's sound. Where a model is
 * undecided, as on sound that is not speech, rounding decides; so the tolerance is the difference between two CPU
 * instruction sets. */
static void check_engine(const char *name, unsigned seconds) {
    struct model *m = load(name);
    struct engine *cpu = open_engine("cpu", NULL, m, 1, 1), *plain = open_engine("cpu", plainest_isa(), m, 1, 1),
                  *cuda = open_engine("cuda", NULL, m, 2, 200);
    const unsigned hop = engine_hop(cpu), n_hops = seconds * model_rate(m) / hop, delay = engine_delay(cpu);
    const size_t n = (size_t)n_hops * hop;
    float *x = make_sound(n), *should = malloc(n * sizeof *x), *whole = malloc(n * sizeof *x),
          *parts = malloc(n * sizeof *x);
    float *tail = malloc(2 * delay * sizeof *tail);
    ck_assert(should && whole && parts && tail);
    x[n / 2] = NAN;
    x[n / 3] = 1e9f;
    process(cpu, 0, n_hops, x, should);
    process(cuda, 0, n_hops, x, whole);
    process(plain, 0, n_hops, x, parts);
    double db = snr_db(whole, should, n), plain_db = snr_db(parts, should, n);
    printf("%s, %u s: %.1f dB; %s %.1f dB\n", name, seconds, db, engine_name(plain), plain_db);
    ck_assert_msg(db >= fmin(LEAST_DB, plain_db - 3), "%s: %.1f dB; %s %.1f dB", name, db, engine_name(plain),
                  plain_db);
    for (unsigned done = 0, some; done < n_hops; done += some) {
        some = between(1, 3) == 1 ? between(1, 20) : between(1, 400);
        some = some < n_hops - done ? some : n_hops - done;
        process(cuda, 1, some, x + (size_t)done * hop, parts + (size_t)done * hop);
    }
    ck_assert_mem_eq(parts, whole, n * sizeof *parts);
    engine_tail(cpu, 0, tail);
    engine_tail(cuda, 1, tail + delay);
    ck_assert_double_ge(snr_db(tail + delay, tail, delay), 80);

    const struct engine_controls softer = {.strength = .6f, .floor = .05f, .low_cut_hz = 80};
    engine_control(cpu, 0, softer);
    engine_control(cuda, 1, softer);
    const unsigned few = n_hops < 100 ? n_hops : 100;
    void (*const begins[])(struct engine *, unsigned) = {engine_pause, engine_reset};
    for (unsigned i = 0; i < 2; i++) {
        begins[i](cpu, 0);
        begins[i](cuda, 1);
        process(cpu, 0, few, x, should);
        process(cuda, 1, few, x, parts);
        ck_assert_double_ge(snr_db(parts, should, (size_t)few * hop), 80);
    }
    free(x);
    free(should);
    free(whole);
    free(parts);
    free(tail);
    engine_close(cpu);
    engine_close(plain);
    engine_close(cuda);
    model_free(m);
}

START_TEST(engine_is_the_cpu_s) {
    seed = 11;
    check_engine(models[_i], _i < N_FIXTURES ? 4 : 30);
}
END_TEST

int main(void) {
    int n_devices = 0;
    cudaError_t code = cudaGetDeviceCount(&n_devices);
    if (code || !n_devices) {
        printf("skipped: %s\n", code ? cudaGetErrorString(code) : "no NVIDIA GPU");
        return 77;
    }
    Suite *suite = suite_create("cuda kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, fft_is_its_formula, 0, 10);
    tcase_add_loop_test(t, linear_is_its_formula, 0, 14);
    tcase_add_loop_test(t, linear_chain_is_its_formula, 0, 12);
    tcase_add_loop_test(t, dense_is_its_formula, 0, 10);
    tcase_add_loop_test(t, over_frequency_is_its_formula, 0, 18);
    tcase_add_loop_test(t, prime_is_its_formula, 0, 12);
    tcase_add_loop_test(t, attend_is_its_formula, 0, 4);
    tcase_add_loop_test(t, history_is_the_last_frames, 0, 10);
    tcase_add_loop_test(t, conv_is_the_published_one, 0, 12);
    tcase_add_loop_test(t, scan_is_the_published_one, 0, 12);
    tcase_add_loop_test(t, ssd_is_its_formula, 0, 12);
    tcase_add_loop_test(t, recurrent_is_its_formula, 0, 12);
    suite_add_tcase(suite, t);
    t = tcase_create("network");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, time_stages_match_pytorch, 0, N_STAGES);
    tcase_add_loop_test(t, blocks_are_the_cpu_s, 0, N_MODELS);
    suite_add_tcase(suite, t);
    t = tcase_create("engine");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, engine_is_the_cpu_s, 0, N_MODELS);
    suite_add_tcase(suite, t);
    /* a forked process cannot use its parent's CUDA */
    return run_suite(suite, CK_NOFORK);
}
