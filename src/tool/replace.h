/* replace.h - a file that is written beside the one it replaces and takes its place only when it is whole.
 *
 * A symbolic link is written through: what it points to is replaced, or made. The new file has the old one's
 * permissions. Any thread. */
#ifndef PRIMEKNET_REPLACE_H
#define PRIMEKNET_REPLACE_H

#include "base/err.h"

#include <stddef.h>

struct replace {
    const char *name; /* as the caller was given it, for messages */
    char target[4096],
        part[4096]; /* what is replaced, and what is written; part[0] is '\0' where there is nothing to drop */
};

/* Returns a descriptor open for reading and writing, which is the caller's, or a negative errno. `name` must last as
 * long. */
int replace_begin(struct replace *r, const char *name, struct err *err);
int replace_finish(struct replace *r, struct err *err);
void replace_drop(struct replace *r); /* after replace_finish, and of a zeroed one, it does nothing */

/* folder/name, with one slash between them. Returns 0 or -ENAMETOOLONG. */
int path_join(char *ret, size_t size, const char *folder, const char *name);

#endif
