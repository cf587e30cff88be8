/* memory.h - the process's memory: what is in use is kept from being swapped out, what is not goes back to the
 * system. */
#ifndef PRIMEKNET_MEMORY_H
#define PRIMEKNET_MEMORY_H

#include <stdbool.h>

/* Before there are other threads. */
void memory_begin(void);

/* Locks all that is mapped now. False: RLIMIT_MEMLOCK is too low. */
bool memory_lock(void);

/* Gives back what was freed. The heap is unlocked for a moment, but no other mapping. */
void memory_trim(void);

#endif
