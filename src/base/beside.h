/* beside.h - files in the folder of the running program: how a build tree finds its models and its CUDA module. The
 * shared library never looks there: its host may lie in a folder that others can write to.
 *
 * Threads: any. */
#ifndef PRIMEKNET_BESIDE_H
#define PRIMEKNET_BESIDE_H

#include <limits.h>
#include <stdbool.h>

/* Call it before any thread looks for a file. */
void beside_forbid(void);
/* Writes the path of the file `name`, relative to the program's folder. False: there is none, or beside_forbid was
 * called. */
bool beside_find(char path[PATH_MAX], const char *name);

#endif
