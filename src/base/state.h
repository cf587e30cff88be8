/* state.h - files that the program keeps between runs, in $XDG_STATE_HOME/primeknet (~/.local/state by default).
 *
 * They are a convenience: the program works without them if they cannot be read or written. Any thread. */
#ifndef PRIMEKNET_STATE_H
#define PRIMEKNET_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum { STATE_PATH = 4096 };

/* The path of one of this program's files in a folder of the XDG Base Directory Specification: $VARIABLE/primeknet/FILE
 * or, where the variable is no absolute path, ~/FALLBACK/primeknet/FILE, unless fallback is NULL. False: there is no
 * such folder, or the path is too long. */
bool user_path(char *ret, size_t size, const char *variable, const char *fallback, const char *file);

/* The path of the state file with that name. False: as above. */
bool state_path(char ret[STATE_PATH], const char *file);

/* Reads a file of one line, without the newline. Returns false if there is none; ret is then untouched or holds part of
 * it. */
bool state_read(const char *file, char *ret, size_t size);
bool state_write(const char *file, const char *line); /* all of it or nothing */
void state_remove(const char *file);

#endif
