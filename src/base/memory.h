/* memory.h - keeps the process's memory from being swapped out, and returns free memory to the system. */
#ifndef PRIMEKNET_MEMORY_H
#define PRIMEKNET_MEMORY_H

#include <stdbool.h>

/* Call it before any other thread is started. */
void memory_begin(void);

/* Locks all current mappings. Returns false if RLIMIT_MEMLOCK is too low. */
bool memory_lock(void);

/* Returns freed memory to the system. Unlocks the heap for a moment, but no other mapping. */
void memory_trim(void);

#endif
