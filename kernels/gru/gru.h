/* gru.h - one step of a gated recurrent unit (Cho et al., arXiv 1406.1078) at each position, after its matrix products.
 * As in PyTorch and cuDNN, the reset gate acts after the state's product. a comes from the input and b from the state,
 * in three parts each:
 *   reset = sigmoid(a0 + b0);  keep = sigmoid(a1 + b1);  h = (1 - keep) tanh(a2 + reset b2) + keep h.
 *
 * n_channels is a multiple of 16. */
#ifndef PRIMEKNET_GRU_H
#define PRIMEKNET_GRU_H

struct gru {
    unsigned n_rows, n_channels;
    const float *a, *b; /* [n_rows][3 * n_channels] */
    float *h;           /* [n_rows][n_channels]: the state */
};

void gru_ref(const struct gru *a);

#endif
