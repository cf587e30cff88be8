/* attend.h - channel attention within a frame: x[r][c] *= a[c], a = bias + weight . mean over r of x[r].
 *
 * weight is packed as in linear.h; n_channels is a multiple of 16. */
#ifndef PRIMEKNET_ATTEND_H
#define PRIMEKNET_ATTEND_H

struct attend {
    unsigned n_rows, n_channels;
    const float *weight, *bias;
    float *x;             /* [n_rows][n_channels] */
    float *mean, *factor; /* [n_channels]: scratch */
};

void attend_ref(const struct attend *a);

#endif
