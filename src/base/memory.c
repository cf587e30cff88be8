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

/* Where malloc keeps what is small; larger arrays are mappings of their own, which free gives back. The kernel lists it
 * in pieces where only a part is locked. */
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
        munlock(heap, size); /* or the kernel keeps every page of it, in use or not */
    malloc_trim(0);
    if (again)
        memory_lock();
}
