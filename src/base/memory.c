#include "base/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic bool locked;

void memory_begin(void) {
    mallopt(M_ARENA_MAX, 1); /* the end of another arena is never trimmed */
}

bool memory_lock(void) {
    return locked = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
}

/* Finds the heap, where malloc keeps small blocks; larger ones are separate mappings, which free returns. If only a
 * part is locked, the kernel lists the heap in pieces. */
static bool find_heap(char **ret, size_t *size) {
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    bool found = false;
    while (f && fgets(line, sizeof line, f)) {
        char *start, *end;
        if (!strstr(line, " [heap]") || sscanf(line, "%p-%p", (void **)&start, (void **)&end) != 2)
            continue;
        if (!found)
            *ret = start;
        *size = (size_t)(end - *ret);
        found = true;
    }
    if (f)
        fclose(f);
    return found;
}

void memory_trim(void) {
    char *heap;
    size_t size;
    const bool again = locked && find_heap(&heap, &size);
    if (again)
        munlock(heap, size); /* otherwise the kernel keeps all its pages, used or not */
    malloc_trim(0);
    if (again)
        memory_lock();
}
