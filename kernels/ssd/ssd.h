/* ssd.h - one step of Mamba-2's recurrence (Dao & Gu, arXiv 2405.21060) at each position, including the softplus of its
 * step size, its output gate and its norm. For each channel d of head k = d / head_dim:
 *   dt = log(1 + exp(step[r][k]));  h[d][s] = exp(dt decay[k]) h[d][s] + dt u[r][d] B[r][s];
 *   v[d] = (sum_s C[r][s] h[d][s] + pass[k] u[r][d]) silu(z[r][d]);  y[r] = v / sqrt(mean of v^2 + epsilon).
 *
 * decay <= 0, stored times log2 e. h is packed as in scan.h. n_channels, head_dim and n_states are multiples of 16;
 * decay and the rows of step have room for a multiple of 16 heads. */
#ifndef PRIMEKNET_SSD_H
#define PRIMEKNET_SSD_H

#include <stddef.h>

enum { SSD_MAX_HEADS = 64 };

struct ssd {
    unsigned n_rows, n_channels, head_dim, n_states; /* head_dim: channels per head */
    float epsilon;
    const float *u; /* [n_rows][u_stride]: u, B, C */
    size_t u_stride;
    float *step;    /* [n_rows][z_stride]; overwritten with dt */
    const float *z; /* [n_rows][z_stride] */
    size_t z_stride;
    const float *decay, *pass; /* [heads] */
    float *h;                  /* [n_rows], each packed: the state */
    float *y;                  /* [n_rows][y_stride]; may be u, with its stride */
    size_t y_stride;
};

void ssd_ref(const struct ssd *a);

#endif
