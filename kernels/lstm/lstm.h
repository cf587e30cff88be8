/* lstm.h - one step of a long short-term memory (Hochreiter & Schmidhuber, 1997; forget gates: Gers et al., 2000) at
 * each position, after its matrix products, whose sum has four parts:
 *   cell = sigmoid(gates1) cell + sigmoid(gates0) tanh(gates2);  h = sigmoid(gates3) tanh(cell).
 *
 * n_channels is a multiple of 16. */
#ifndef PRIMEKNET_LSTM_H
#define PRIMEKNET_LSTM_H

struct lstm {
    unsigned n_rows, n_channels;
    const float *gates; /* [n_rows][4 * n_channels] */
    float *cell, *h;    /* [n_rows][n_channels]: the state */
};

void lstm_ref(const struct lstm *a);

#endif
