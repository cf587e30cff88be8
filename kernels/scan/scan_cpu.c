/* The activations have loops of their own in each row: within the scan's they would be a long wait for each vector. */
#include "kernels/scan/scan.h"
#include "kernels/simd.h"

static void scan_cpu(const struct scan *args) {
    const struct scan a = *args; /* the stores below might change *args, for all that the compiler knows */
    const size_t n = a.n_channels;
    for (unsigned r = 0; r < a.n_rows; r++) {
        const float *u = a.u + r * n, *b = a.select + r * a.select_stride, *c = b + a.n_states,
                    *z = a.z + r * a.z_stride;
        float *step = a.step + r * n, *y = a.y + r * n;
        for (unsigned d = 0; d < n; d += LANES)
            store(step + d, softplus(load(step + d)));
        for (unsigned d = 0; d < n; d += LANES) {
            size_t first = (size_t)d / SCAN_GROUP * a.n_states * SCAN_GROUP + d % SCAN_GROUP;
            const float *decay = a.decay + first;
            float *h = a.h + r * n * a.n_states + first;
            vf dt = load(step + d), dtu = dt * load(u + d), sum = load(a.pass + d) * load(u + d);
            for (unsigned s = 0; s < a.n_states; s++) {
                vf state = exp2_negative(dt * load(decay + s * SCAN_GROUP)) * load(h + s * SCAN_GROUP) + dtu * b[s];
                store(h + s * SCAN_GROUP, state);
                sum += state * c[s];
            }
            store(y + d, sum);
        }
        for (unsigned d = 0; d < n; d += LANES)
            store(y + d, load(y + d) * silu(load(z + d)));
    }
}
