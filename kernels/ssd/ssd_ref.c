#include "kernels/ssd/ssd.h"

#include "kernels/scan/scan.h"

#include <math.h>

void ssd_ref(const struct ssd *a) {
    const unsigned n = a->n_channels;
    for (unsigned r = 0; r < a->n_rows; r++) {
        const float *u = a->u + r * a->u_stride, *b = u + n, *c = b + a->n_states, *z = a->z + r * a->z_stride;
        float *step = a->step + r * a->z_stride, *h = a->h + (size_t)r * n * a->n_states, *y = a->y + r * a->y_stride;
        double squares = 0;
        for (unsigned k = 0; k < n / a->head_dim; k++)
            step[k] = fmaxf(step[k], 0) + log1pf(expf(-fabsf(step[k])));
        for (unsigned d = 0; d < n; d++) {
            unsigned k = d / a->head_dim;
            float keep = exp2f(step[k] * a->decay[k]), sum = a->pass[k] * u[d];
            for (unsigned s = 0; s < a->n_states; s++) {
                float *state = h + ((size_t)(d / SCAN_GROUP) * a->n_states + s) * SCAN_GROUP + d % SCAN_GROUP;
                *state = keep * *state + step[k] * u[d] * b[s];
                sum += c[s] * *state;
            }
            y[d] = sum * z[d] / (1 + expf(-z[d]));
            squares += (double)y[d] * y[d];
        }
        for (unsigned d = 0; d < n; d++)
            y[d] = (float)(y[d] / sqrt(squares / n + (double)a->epsilon));
    }
}
