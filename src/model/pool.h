/* pool.h - arrays of floats that live and die together: aligned to 64 bytes, zero at first, zeroed again at once.
 *
 * For everything that an engine needs from open to close. A pool remembers a failed allocation, so its user asks once,
 * at the end, with pool_ok. One thread at a time; pool_zero is real-time safe. */
#ifndef PRIMEKNET_POOL_H
#define PRIMEKNET_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool {
    struct pool_array *arrays;
    bool failed;
};

/* Zeros, [n]; NULL, remembered in the pool, where there is no memory. */
float *pool_floats(struct pool *p, size_t n);
bool pool_ok(const struct pool *p);
void pool_zero(struct pool *p);
void pool_done(struct pool *p); /* a zeroed pool is fine */

#endif
