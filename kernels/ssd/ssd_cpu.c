#include "kernels/scan/scan.h"
#include "kernels/simd.h"
#include "kernels/ssd/ssd.h"

#include <math.h>

static void ssd_cpu(const struct ssd *args) {
    const struct ssd a = *args; /* a copy, because the compiler must assume that stores change *args */
    const size_t n = a.n_channels;
    for (unsigned r = 0; r < a.n_rows; r++) {
        const float *u = a.u + r * a.u_stride, *b = u + n, *c = b + a.n_states, *z = a.z + r * a.z_stride;
        float *step = a.step + r * a.z_stride, *y = a.y + r * a.y_stride, keep[SSD_MAX_HEADS];
        vf squares = splat(0);
        for (unsigned k = 0; k < n / a.head_dim; k += LANES) {
            vf dt = softplus(load(step + k));
            store(step + k, dt);
            store(keep + k, exp2_bounded(dt * load(a.decay + k)));
        }
        for (unsigned d = 0; d < n; d += LANES) {
            const unsigned k = d / a.head_dim;
            float *h = a.h + r * n * a.n_states + (size_t)d / SCAN_GROUP * a.n_states * SCAN_GROUP + d % SCAN_GROUP;
            vf in = load(u + d), fall = splat(keep[k]), dtu = splat(step[k]) * in, sum = splat(a.pass[k]) * in;
            for (unsigned s = 0; s < a.n_states; s++) {
                vf state = fall * load(h + s * SCAN_GROUP) + dtu * b[s];
                store(h + s * SCAN_GROUP, state);
                sum += state * c[s];
            }
            store(y + d, sum);
        }
        for (unsigned d = 0; d < n; d += LANES) {
            vf v = load(y + d) * silu(load(z + d));
            squares += v * v;
            store(y + d, v);
        }
        const vf scale = splat(1.f / sqrtf(across(squares) / (float)n + a.epsilon));
        for (unsigned d = 0; d < n; d += LANES)
            store(y + d, load(y + d) * scale);
    }
}
