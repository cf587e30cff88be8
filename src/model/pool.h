/* pool.h - arrays of floats that are freed together: aligned to 64 bytes, zeroed at first, and zeroed again by one
 * call.
 *
 * A pool holds everything that an engine needs from opening to closing. It remembers a failed allocation, so the caller
 * checks once at the end, with pool_ok. One thread at a time; pool_zero is real-time safe. */
#ifndef PRIMEKNET_POOL_H
#define PRIMEKNET_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool {
    struct pool_array *arrays;
    bool failed;
};

/* Returns n zeros, or NULL if memory runs out, which pool_ok then reports. */
float *pool_floats(struct pool *p, size_t n);
bool pool_ok(const struct pool *p);
void pool_zero(struct pool *p);
void pool_done(struct pool *p); /* p may be all zeros */

#endif
