#include "kernels/scan/scan.h"
#include "kernels/simd.h"

static void scan_cpu(const struct scan *a) {
    const size_t n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++) {
        const float *b = a->select + r * a->select_stride, *c = b + a->n_states;
        for (unsigned d = 0; d < n; d += LANES) {
            size_t first = (size_t)d / SCAN_GROUP * a->n_states * SCAN_GROUP + d % SCAN_GROUP;
            const float *decay = a->decay + first;
            float *h = a->h + r * n * a->n_states + first;
            vf u = load(a->u + r * n + d), dt = softplus(load(a->step + r * n + d)), dtu = dt * u;
            vf y = load(a->pass + d) * u;
            for (unsigned s = 0; s < a->n_states; s++) {
                vf state = exp2_negative(dt * load(decay + s * SCAN_GROUP)) * load(h + s * SCAN_GROUP) + dtu * b[s];
                store(h + s * SCAN_GROUP, state);
                y += state * c[s];
            }
            store(a->y + r * n + d, y * silu(load(a->z + r * a->z_stride + d)));
        }
    }
}
