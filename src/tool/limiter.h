/* limiter.h - a look-ahead peak limiter: the output never exceeds full scale, and the gain changes smoothly.
 *
 * The gain is the moving average over a window of the moving minimum, over a window of the same length, of the gains
 * that the peaks require. Every minimum in the average already allows for the sample itself, so the bound is exact. All
 * channels share one gain. While no peak exceeds full scale, samples pass bit for bit. One thread; 2.5 ms delay, which
 * the caller drops at the start. */
#ifndef PRIMEKNET_LIMITER_H
#define PRIMEKNET_LIMITER_H

#include <stddef.h>

struct limiter;

int limiter_new(struct limiter **ret, unsigned rate, unsigned n_channels);
void limiter_free(struct limiter *l); /* l may be NULL */
size_t limiter_delay(const struct limiter *l); /* frames */
/* Limits n interleaved frames in place. */
void limiter_run(struct limiter *l, float *frames, size_t n);

#endif
