#include "kernels/linear/linear.h"

#include "kernels/depthwise/depthwise.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in) {
    for (unsigned o = 0; o < n_out; o++)
        for (unsigned i = 0; i < n_in; i++)
            packed[((size_t)(o / LINEAR_PANEL) * n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL] =
                weight[(size_t)o * n_in + i];
}

/* Rounds to nearest, ties to even; infinities and NaN do not occur. */
static uint16_t bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

void linear_bf16_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in) {
    for (unsigned o = 0; o < n_out; o++)
        for (unsigned i = 0; i < n_in; i++) {
            size_t pair = ((size_t)(o / LINEAR_PANEL) * (n_in / 2) + i / 2) * LINEAR_PANEL + o % LINEAR_PANEL;
            uint16_t half = bf16(weight[(size_t)o * n_in + i]);
            memcpy((char *)(packed + pair) + i % 2 * sizeof half, &half, sizeof half);
        }
}

static float weight_of(const struct linear *a, unsigned o, unsigned i) {
    return a->weight[((size_t)(o / LINEAR_PANEL) * a->n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL];
}

static float bf16_weight_of(const struct linear *a, unsigned o, unsigned i) {
    size_t pair = ((size_t)(o / LINEAR_PANEL) * (a->n_in / 2) + i / 2) * LINEAR_PANEL + o % LINEAR_PANEL;
    uint16_t half;
    memcpy(&half, (const char *)(a->weight + pair) + i % 2 * sizeof half, sizeof half);
    return from_bf16(half);
}

static void norm(const struct linear *a, const float *x, float *v) {
    float mean = 0, variance = 0;
    for (unsigned i = 0; i < a->n_in; i++)
        mean += x[i] / (float)a->n_in;
    for (unsigned i = 0; i < a->n_in; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (float)a->n_in;
    for (unsigned i = 0; i < a->n_in; i++)
        v[i] = (x[i] - mean) / sqrtf(variance + a->epsilon);
}

static void convolve(const struct linear *a, unsigned row, float *v) {
    for (unsigned i = 0; i < a->n_convs; v += a->convs[i++].n_channels) {
        struct depthwise conv = a->convs[i];
        conv.n_rows = 1;
        conv.y = v;
        for (unsigned t = 0; t < conv.n_times; t++)
            conv.x[t] += row * conv.x_stride;
        if (conv.times)
            conv.times += row * conv.times_stride;
        depthwise_ref(&conv);
    }
}

static void inputs(const struct linear *a, unsigned row, float v[LINEAR_MAX_IN]) {
    const float *x = a->x + row * a->x_stride;
    switch (a->of) {
    case LINEAR_OF_MAP: memcpy(v, x, a->n_in * sizeof *v); break;
    case LINEAR_OF_NORM: norm(a, x, v); break;
    case LINEAR_OF_GATE:
        for (unsigned i = 0; i < a->n_in; i++)
            v[i] = x[i] * x[a->n_in + i];
        break;
    case LINEAR_OF_CONVS: convolve(a, row, v); break;
    }
}

static void layer(const struct linear *a, float (*weight)(const struct linear *a, unsigned o, unsigned i),
                  bool rounds) {
    float v[LINEAR_MAX_IN];
    for (unsigned r = 0; r < a->n_rows; r++) {
        inputs(a, r, v);
        for (unsigned o = 0; o < linear_padded(a->n_out); o++) {
            float sum = a->bias[o];
            for (unsigned i = 0; i < a->n_in; i++)
                sum += (rounds ? from_bf16(bf16(v[i])) : v[i]) * weight(a, o, i);
            if (a->prelu && sum < 0)
                sum *= a->prelu[o];
            if (a->add)
                sum += a->add[r * a->add_stride + o];
            if (a->skip)
                sum += a->blend[o] * a->skip[r * a->add_stride + o];
            a->y[r * a->y_stride + o] = sum;
        }
    }
}

void linear_ref(const struct linear *a) {
    layer(a, weight_of, false);
}

void linear_bf16_ref(const struct linear *a) {
    layer(a, bf16_weight_of, true);
}
