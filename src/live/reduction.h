/* reduction.h - measures how much noise is removed. Divides the last 10 s into cells of 10 ms, takes the tenth of the
 * cells with the highest attenuation, and averages their attenuation in dB. If speech has pauses, these cells lie in
 * them. The attenuation of a cell is limited to REDUCTION_MOST_DB: more is inaudible, and varies with the network.
 *
 * Threads: one thread writes, any may read. All functions except reduction_read are real-time safe. */
#ifndef PRIMEKNET_REDUCTION_H
#define PRIMEKNET_REDUCTION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REDUCTION_CELL = 480, /* samples */
    REDUCTION_CELLS = 1000,
    REDUCTION_LEAST = 100, /* cells with sound that a measurement needs */
    REDUCTION_SHARE = 10,  /* one cell in so many is used */
    REDUCTION_MOST_DB = 30,
};

/* All zeros: no input yet. */
struct reduction {
    _Atomic float in[REDUCTION_CELLS], out[REDUCTION_CELLS]; /* mean powers; in is 0 for a cell without sound */
    float sum_in, sum_out;                                   /* sums of the current cell */
    unsigned n, next;                                        /* samples in the current cell, and its index */
};

/* Discards all cells. */
void reduction_restart(struct reduction *r);
/* Adds the next n output samples and their input. */
void reduction_add(struct reduction *r, const float *in, const float *out, unsigned n);
/* Returns the attenuation (db >= 0) and the input's level in those cells (noise: linear, full scale 1.0). Returns false
 * if there was too little sound. */
bool reduction_read(const struct reduction *r, float *db, float *noise);

#endif
