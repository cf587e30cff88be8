#include "kernels/linear/linear.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in) {
    for (unsigned o = 0; o < n_out; o++)
        for (unsigned i = 0; i < n_in; i++)
            packed[((size_t)(o / LINEAR_PANEL) * n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL] =
                weight[(size_t)o * n_in + i];
}

/* To the nearest, ties to even; no infinities or NaN come here. */
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

static void layer(const struct linear *a, float (*weight)(const struct linear *a, unsigned o, unsigned i), bool rounds) {
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned o = 0; o < linear_padded(a->n_out); o++) {
            float sum = a->bias[o];
            for (unsigned i = 0; i < a->n_in; i++) {
                float x = a->x[r * a->x_stride + i];
                sum += (rounds ? from_bf16(bf16(x)) : x) * weight(a, o, i);
            }
            if (a->prelu && sum < 0)
                sum *= a->prelu[o];
            a->y[r * a->y_stride + o] = a->add ? sum + a->add[r * a->add_stride + o] : sum;
        }
}

void linear_ref(const struct linear *a) {
    layer(a, weight_of, false);
}

void linear_bf16_ref(const struct linear *a) {
    layer(a, bf16_weight_of, true);
}
