/* file.h - files that are written whole or not at all. Any thread. */
#ifndef PRIMEKNET_FILE_H
#define PRIMEKNET_FILE_H

#include "base/err.h"

#include <stddef.h>

/* Replaces the file at path, or creates it and the missing folders; nobody ever reads half of it. A symbolic link stays
 * one, a file keeps its mode, a new one is readable by its owner alone. A file that has this content already is left
 * alone. 0, or -errno with the path in err. */
int file_write(const char *path, const char *text, size_t n, struct err *err);

#endif
