/* scan.h - one step of the selective scan (Gu & Dao, arXiv 2312.00752, eq. 2, zero-order hold) at each position,
 * including the softplus of its step size and its output gate:
 *   dt = log(1 + exp(step[r][d]));  h[d][s] = exp(dt decay[d][s]) h[d][s] + dt u[r][d] B[r][s];
 *   y[r][d] = (sum_s C[r][s] h[d][s] + pass[d] u[r][d]) silu(z[r][d]),  silu(v) = v / (1 + exp(-v)).
 *
 * decay <= 0. decay (times log2 e) and h are packed in groups of 16 channels, [group][n_states][16], so that vectors
 * run over channels and nothing is summed across them. n_channels and n_states are multiples of 16. */
#ifndef PRIMEKNET_SCAN_H
#define PRIMEKNET_SCAN_H

#include <stddef.h>

enum { SCAN_GROUP = 16 };

struct scan {
    unsigned n_rows, n_channels, n_states;
    const float *u;      /* [n_rows][n_channels] */
    float *step;         /* [n_rows][n_channels]; overwritten with dt */
    const float *select; /* [n_rows][select_stride]: B, then C */
    size_t select_stride;
    const float *z; /* [n_rows][z_stride] */
    size_t z_stride;
    const float *decay; /* packed */
    const float *pass;  /* [n_channels] */
    float *h;           /* [n_rows], each packed: the state */
    float *y;           /* [n_rows][n_channels]; may be u */
};

/* decay [n_channels][n_states] -> packed, [n_channels * n_states]. */
void scan_pack(float *packed, const float *decay, unsigned n_channels, unsigned n_states);

void scan_ref(const struct scan *a);

#endif
