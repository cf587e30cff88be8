/* arena.h - divides one allocation among arrays. The layout code runs twice: first without memory to compute the size,
 * then with it.
 *
 * The mirror, which may be NULL, is host memory with the same layout; its contents are to be copied to the device. */
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

/* Returns the mirror of an array that arena_take returned. */
static inline float *arena_mirror(const struct arena *a, const float *taken) {
    return (float *)(void *)(a->mirror + ((const char *)taken - a->base));
}

static inline float *arena_copy(struct arena *a, const float *from, size_t n) {
    float *to = arena_take(a, n);
    if (to)
        memcpy(arena_mirror(a, to), from, n * sizeof *to);
    return to;
}

#endif
