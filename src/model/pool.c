#include "model/pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

struct pool_array {
    struct pool_array *next;
    size_t n;
    _Alignas(ALIGNMENT) float values[];
};

float *pool_floats(struct pool *p, size_t n) {
    if (n > SIZE_MAX / 2 / sizeof(float)) {
        p->failed = true;
        return NULL;
    }
    size_t size = (sizeof(struct pool_array) + n * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct pool_array *a = aligned_alloc(ALIGNMENT, size);
    if (!a) {
        p->failed = true;
        return NULL;
    }
    a->next = p->arrays;
    a->n = n;
    memset(a->values, 0, n * sizeof *a->values);
    p->arrays = a;
    return a->values;
}

bool pool_ok(const struct pool *p) {
    return !p->failed;
}

void pool_zero(struct pool *p) {
    for (struct pool_array *a = p->arrays; a; a = a->next)
        memset(a->values, 0, a->n * sizeof *a->values);
}

void pool_done(struct pool *p) {
    while (p->arrays) {
        struct pool_array *a = p->arrays;
        p->arrays = a->next;
        free(a);
    }
}
