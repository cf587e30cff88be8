/* gate.h - the first half of the channels times the second: y[r][c] = x[r][c] x[r][n_channels + c]. n_channels, those
 * of y, is a multiple of 16. y may not be x. */
#ifndef PRIMEKNET_GATE_H
#define PRIMEKNET_GATE_H

struct gate {
    unsigned n_rows, n_channels;
    const float *x; /* [n_rows][2 * n_channels] */
    float *y;       /* [n_rows][n_channels] */
};

void gate_ref(const struct gate *a);

#endif
