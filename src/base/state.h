/* state.h - files that the program keeps between runs, in $XDG_STATE_HOME/primeknet (~/.local/state by default).
 *
 * The program also works if they cannot be read or written. Any thread. */
#ifndef PRIMEKNET_STATE_H
#define PRIMEKNET_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum { STATE_PATH = 4096 };

/* Writes the path of one of this program's files below a folder of the XDG Base Directory Specification:
 * $VARIABLE/primeknet/FILE or, if the variable is not an absolute path, ~/FALLBACK/primeknet/FILE, unless fallback is
 * NULL. Returns false if there is no such folder, or the path is too long. */
bool user_path(char *ret, size_t size, const char *variable, const char *fallback, const char *file);

/* Writes the path of a state file. Returns false as user_path does. */
bool state_path(char ret[STATE_PATH], const char *file);

/* Reads a file of one line, without its newline. Returns false on failure; ret is then unchanged or holds part of the
 * line. */
bool state_read(const char *file, char *ret, size_t size);
bool state_write(const char *file, const char *line); /* atomically; false on failure */
void state_remove(const char *file);

#endif
