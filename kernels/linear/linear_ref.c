#include "kernels/linear/linear.h"

#include "kernels/depthwise/depthwise.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in) {
    for (unsigned o = 0; o < n_out; o++)
        for (unsigned i = 0; i < n_in; i++)
            packed[((size_t)(o / LINEAR_PANEL) * n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL] =
                weight[(size_t)o * n_in + i];
}

/* Where half a pair lies. */
static char *half_of(const float *packed, unsigned o, unsigned i, unsigned n_in) {
    size_t pair = ((size_t)(o / LINEAR_PANEL) * (n_in / 2) + i / 2) * LINEAR_PANEL + o % LINEAR_PANEL;
    return (char *)(packed + pair) + i % 2 * sizeof(int16_t);
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
            uint16_t half = bf16(weight[(size_t)o * n_in + i]);
            memcpy(half_of(packed, o, i, n_in), &half, sizeof half);
        }
}

/* The bound on the sum of an output's weights leaves room for their rounding. */
void linear_int16_pack(float *packed, float *steps, const float *weight, unsigned n_out, unsigned n_in) {
    const float most_sum = (float)(INT32_MAX / LINEAR_MOST - LINEAR_MAX_IN);
    for (unsigned o = 0; o < n_out; o++, weight += n_in) {
        float largest = LINEAR_LEAST, sum = 0;
        for (unsigned i = 0; i < n_in; i++) {
            largest = fmaxf(largest, fabsf(weight[i]));
            sum += fabsf(weight[i]);
        }
        steps[o] = fmaxf(largest / INT16_MAX, sum / most_sum);
        for (unsigned i = 0; i < n_in; i++) {
            int16_t half = (int16_t)lrintf(weight[i] / steps[o]);
            memcpy(half_of(packed, o, i, n_in), &half, sizeof half);
        }
    }
}

static float weight_of(const struct linear *a, unsigned o, unsigned i) {
    return a->weight[((size_t)(o / LINEAR_PANEL) * a->n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL];
}

static float bf16_weight_of(const struct linear *a, unsigned o, unsigned i) {
    uint16_t half;
    memcpy(&half, half_of(a->weight, o, i, a->n_in), sizeof half);
    return from_bf16(half);
}

static int16_t int16_weight_of(const struct linear *a, unsigned o, unsigned i) {
    int16_t half;
    memcpy(&half, half_of(a->weight, o, i, a->n_in), sizeof half);
    return half;
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

/* The products of an output with inputs v. */
typedef float product(const struct linear *a, const float *v, unsigned o);

static float float_product(const struct linear *a, const float *v, unsigned o) {
    float sum = a->bias[o];
    for (unsigned i = 0; i < a->n_in; i++)
        sum += v[i] * weight_of(a, o, i);
    return sum;
}

static float bf16_product(const struct linear *a, const float *v, unsigned o) {
    float sum = a->bias[o];
    for (unsigned i = 0; i < a->n_in; i++)
        sum += from_bf16(bf16(v[i])) * bf16_weight_of(a, o, i);
    return sum;
}

static float int16_product(const struct linear *a, const float *v, unsigned o) {
    float largest = a->of == LINEAR_OF_NORM ? sqrtf((float)a->n_in) : LINEAR_LEAST;
    int32_t sum = 0;
    if (a->of != LINEAR_OF_NORM)
        for (unsigned i = 0; i < a->n_in; i++)
            largest = fmaxf(largest, fabsf(v[i]));
    for (unsigned i = 0; i < a->n_in; i++)
        sum += (int32_t)lrintf(v[i] * (LINEAR_MOST / largest)) * int16_weight_of(a, o, i);
    return (float)sum * (largest * (1.f / LINEAR_MOST) * a->steps[o]) + a->bias[o];
}

static void layer(const struct linear *a, product *of) {
    float v[LINEAR_MAX_IN];
    for (unsigned r = 0; r < a->n_rows; r++) {
        inputs(a, r, v);
        for (unsigned o = 0; o < linear_padded(a->n_out); o++) {
            float sum = of(a, v, o);
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
    layer(a, float_product);
}

void linear_bf16_ref(const struct linear *a) {
    layer(a, bf16_product);
}

void linear_int16_ref(const struct linear *a) {
    layer(a, int16_product);
}
