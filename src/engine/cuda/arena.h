/* arena.h - divides one allocation among arrays. The layout code runs twice: first without memory to compute the size,
 * then with it.
 *
 * The mirror, which may be NULL, is host memory with the same layout, initially zeros; its contents are to be copied to
 * the device. */
#ifndef PRIMEKNET_ARENA_H
#define PRIMEKNET_ARENA_H

#include <stddef.h>
#include <string.h>

struct arena {
    char *base, *mirror; /* base is NULL while measuring */
    size_t used;         /* bytes */
};

/* Takes n floats, aligned to 256 bytes; returns NULL while measuring. */
static inline float *arena_take(struct arena *a, size_t n) {
    float *to = a->base ? (float *)(void *)(a->base + a->used) : NULL;
    a->used += (n * sizeof(float) + 255) / 256 * 256;
    return to;
}

/* The same; sets *host to the array's mirror, or to NULL while measuring. */
static inline float *arena_place(struct arena *a, size_t n, float **host) {
    *host = a->base ? (float *)(void *)(a->mirror + a->used) : NULL;
    return arena_take(a, n);
}

static inline float *arena_copy(struct arena *a, const float *from, size_t n) {
    float *host, *to = arena_place(a, n, &host);
    if (host)
        memcpy(host, from, n * sizeof *host);
    return to;
}

#endif
