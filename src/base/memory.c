#include "base/memory.h"

#include <malloc.h>
#include <sys/mman.h>

static _Atomic bool locked;

void memory_begin(void) {
    mallopt(M_ARENA_MAX, 1); /* the end of another arena is never trimmed */
}

bool memory_lock(void) {
    return locked = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
}

void memory_trim(void) {
    const bool again = locked;
    if (again)
        munlockall(); /* or the kernel keeps every page, in use or not */
    malloc_trim(0);
    if (again)
        memory_lock();
}
