/* norm.h - layer norm over the channels of each position, without gain and offset (the exporter folds them into the
 * layer that follows): y[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + epsilon). y may be x. n_channels is a
 * multiple of 16. */
#ifndef PRIMEKNET_NORM_H
#define PRIMEKNET_NORM_H

struct norm {
    unsigned n_rows, n_channels;
    float epsilon;
    const float *x; /* [n_rows][n_channels] */
    float *y;       /* [n_rows][n_channels] */
};

void norm_ref(const struct norm *a);

#endif
