/* file.h - files that are written whole or not at all. Any thread. */
#ifndef PRIMEKNET_FILE_H
#define PRIMEKNET_FILE_H

#include "base/err.h"

#include <stddef.h>

/* Replaces what path holds, or makes it, with the folders that are missing: nobody ever reads half of it. A link stays
 * one, a file keeps its rights, a new one is its owner's alone. 0, or -errno with the path in err. */
int file_write(const char *path, const char *text, size_t n, struct err *err);

#endif
