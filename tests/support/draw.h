/* draw.h - random numbers and zeroed memory for a test. The test sets draw_seed. */
#ifndef PRIMEKNET_DRAW_H
#define PRIMEKNET_DRAW_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static uint32_t draw_seed;

/* Returns a random number from 0 to n - 1. */
static inline uint32_t draw(uint32_t n) {
    draw_seed = draw_seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)draw_seed * n >> 32);
}

static inline void *get(size_t n, size_t size) {
    void *memory = calloc(n, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

#endif
