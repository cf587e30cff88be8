/* blend.h - adds a multiple of each channel: y[r][c] += factor[c] x[r][c]. n_channels is a multiple of 16. */
#ifndef PRIMEKNET_BLEND_H
#define PRIMEKNET_BLEND_H

struct blend {
    unsigned n_rows, n_channels;
    const float *x;      /* [n_rows][n_channels] */
    const float *factor; /* [n_channels] */
    float *y;            /* [n_rows][n_channels] */
};

void blend_ref(const struct blend *a);

#endif
