/* pool.h - float arrays that are allocated, zeroed and freed as one. They are aligned to 64 bytes and start as zeros.
 *
 * A pool holds arrays that an engine keeps from opening to closing. It remembers a failed allocation, so that the
 * caller checks only once, with pool_ok. One thread at a time; pool_zero is real-time safe. */
#ifndef PRIMEKNET_POOL_H
#define PRIMEKNET_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool {
    struct pool_array *arrays;
    bool failed;
};

/* Returns n zeros, or NULL if memory runs out; pool_ok is then false. */
float *pool_floats(struct pool *p, size_t n);
bool pool_ok(const struct pool *p);
void pool_zero(struct pool *p);
void pool_done(struct pool *p); /* p may be all zeros */

#endif
