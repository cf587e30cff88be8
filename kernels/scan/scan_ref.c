#include "kernels/scan/scan.h"

#include <math.h>

static size_t packed_index(unsigned d, unsigned s, unsigned n_states) {
    return ((size_t)(d / SCAN_GROUP) * n_states + s) * SCAN_GROUP + d % SCAN_GROUP;
}

void scan_pack(float *packed, const float *decay, unsigned n_channels, unsigned n_states) {
    for (unsigned d = 0; d < n_channels; d++)
        for (unsigned s = 0; s < n_states; s++)
            packed[packed_index(d, s, n_states)] = (float)(decay[(size_t)d * n_states + s] * M_LOG2E);
}

void scan_ref(const struct scan *a) {
    for (unsigned r = 0; r < a->n_rows; r++)
        for (unsigned d = 0; d < a->n_channels; d++) {
            size_t at = (size_t)r * a->n_channels + d;
            const float *b = a->select + r * a->select_stride, *c = b + a->n_states;
            float *h = a->h + (size_t)r * a->n_channels * a->n_states;
            float u = a->u[at], z = a->z[r * a->z_stride + d], step = a->step[at];
            float dt = a->step[at] = fmaxf(step, 0) + log1pf(expf(-fabsf(step))), y = a->pass[d] * u;
            for (unsigned s = 0; s < a->n_states; s++) {
                size_t i = packed_index(d, s, a->n_states);
                h[i] = exp2f(dt * a->decay[i]) * h[i] + dt * u * b[s];
                y += c[s] * h[i];
            }
            a->y[at] = y * z / (1 + expf(-z));
        }
}
