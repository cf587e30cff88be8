/* limiter.h - a look-ahead peak limiter: what comes out never exceeds full scale, and the gain moves without a click.
 *
 * The gain at a sample is the moving average, over a window, of the moving minimum, over the same window, of the gains that
 * the peaks ask for; every minimum that enters the average already respects the sample itself, so the bound is exact. All
 * channels share one gain. Where no peak exceeds full scale samples pass unchanged to the bit. One thread; 2.5 ms delay,
 * which the caller drops at the start. */
#ifndef PRIMEKNET_LIMITER_H
#define PRIMEKNET_LIMITER_H

#include <stddef.h>

struct limiter;

int limiter_new(struct limiter **ret, unsigned rate, unsigned n_channels);
void limiter_free(struct limiter *l); /* NULL is fine */
size_t limiter_delay(const struct limiter *l); /* frames */
/* In place on n interleaved frames. */
void limiter_run(struct limiter *l, float *frames, size_t n);

#endif
