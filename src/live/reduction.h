/* reduction.h - how much noise is removed: the mean gain, in dB and at least REDUCTION_MOST_DB down, of the second among
 * the last ten in which most was removed, by cells of 10 ms. These are the pauses, wherever there are some; more than
 * that much is inaudible, and no network does it evenly.
 *
 * Threads: one writes, any may read. Real-time safe, but for reduction_read. */
#ifndef PRIMEKNET_REDUCTION_H
#define PRIMEKNET_REDUCTION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REDUCTION_CELL = 480, /* samples */
    REDUCTION_CELLS = 1000,
    REDUCTION_LEAST = 100, /* cells with sound that make a measurement */
    REDUCTION_SHARE = 10,  /* one cell of so many is taken */
    REDUCTION_MOST_DB = 30,
};

/* All zero: nothing heard yet. */
struct reduction {
    _Atomic float in[REDUCTION_CELLS], out[REDUCTION_CELLS]; /* mean powers; in is 0 where there was no sound */
    float sum_in, sum_out; /* of the cell that comes next, so far */
    unsigned n, next;      /* its samples so far, and its number */
};

/* Forgets what was heard. */
void reduction_restart(struct reduction *r);
/* The next n samples that went out, and what came in for them. */
void reduction_add(struct reduction *r, const float *in, const float *out, unsigned n);
/* noise: the level of what came in meanwhile, linear, full scale 1.0. False: too little was heard. */
bool reduction_read(const struct reduction *r, float *db, float *noise);

#endif
