/* attend.h - a gate and channel attention within a frame: y[r][c] = g[r][c] a[c], with g[r][c] = x[r][c] x[r][n + c], a
 * = bias + weight . (mean over r of g[r]), n = n_channels.
 *
 * weight is packed in floats as in linear.h; n_channels is a multiple of 16. y may not be x. */
#ifndef PRIMEKNET_ATTEND_H
#define PRIMEKNET_ATTEND_H

struct attend {
    unsigned n_rows, n_channels;
    const float *weight, *bias;
    const float *x;       /* [n_rows][2 * n_channels] */
    float *y;             /* [n_rows][n_channels] */
    float *mean, *factor; /* [n_channels]: scratch */
};

void attend_ref(const struct attend *a);

#endif
