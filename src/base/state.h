/* state.h - what is remembered between runs: files in $XDG_STATE_HOME/primeknet (~/.local/state by default).
 *
 * Nothing depends on them: where one cannot be read or written the program does without. Any thread. */
#ifndef PRIMEKNET_STATE_H
#define PRIMEKNET_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum { STATE_PATH = 4096 };

/* Where a file of that name is kept. */
bool state_path(char ret[STATE_PATH], const char *file);

/* A file of one line, without its end. False, and ret untouched or cut, where there is none. */
bool state_read(const char *file, char *ret, size_t size);
bool state_write(const char *file, const char *line); /* whole or not at all */
void state_remove(const char *file);

#endif
