#include "kernels/linear/linear.h"

void linear_pack(float *packed, const float *weight, unsigned n_out, unsigned n_in) {
    for (unsigned o = 0; o < n_out; o++)
        for (unsigned i = 0; i < n_in; i++)
            packed[((size_t)(o / LINEAR_PANEL) * n_in + i) * LINEAR_PANEL + o % LINEAR_PANEL] =
                weight[(size_t)o * n_in + i];
}

void linear_ref(const struct linear *a) {
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned o = 0; o < linear_padded(a->n_out); o++) {
            const float *w = a->weight + (size_t)(o / LINEAR_PANEL) * a->n_in * LINEAR_PANEL + o % LINEAR_PANEL;
            float sum = a->bias[o];
            for (unsigned i = 0; i < a->n_in; i++)
                sum += a->x[r * a->x_stride + i] * w[(size_t)i * LINEAR_PANEL];
            if (a->prelu && sum < 0)
                sum *= a->prelu[o];
            a->y[r * a->y_stride + o] = a->add ? sum + a->add[r * a->add_stride + o] : sum;
        }
}
