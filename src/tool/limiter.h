/* limiter.h - a look-ahead peak limiter: the output never exceeds full scale, and the gain changes smoothly.
 *
 * The gain is a moving average of a moving minimum of the gains that the peaks require, both over windows of the same
 * length. Every minimum in the average includes the sample itself, so the bound is exact. All channels share one gain.
 * While no peak exceeds full scale, samples pass bit for bit. One thread. The delay is 2.5 ms; the caller drops these
 * samples at the start. */
#ifndef PRIMEKNET_LIMITER_H
#define PRIMEKNET_LIMITER_H

#include <stddef.h>

struct limiter;

int limiter_new(struct limiter **ret, unsigned rate, unsigned n_channels);
void limiter_free(struct limiter *l);          /* l may be NULL */
size_t limiter_delay(const struct limiter *l); /* frames */
/* Limits n interleaved frames in place. */
void limiter_run(struct limiter *l, float *frames, size_t n);

#endif
