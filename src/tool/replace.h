/* replace.h - writes a file beside the one it replaces, which it replaces only once the new file is complete.
 *
 * If the name is a symbolic link, the file that it points to is replaced or created. The new file gets the old one's
 * permissions. Any thread. */
#ifndef PRIMEKNET_REPLACE_H
#define PRIMEKNET_REPLACE_H

#include "base/err.h"

#include <stddef.h>

struct replace {
    const char *name; /* as the caller named it, for messages */
    char target[4096],
        part[4096]; /* the file to replace, and the one being written; part[0] is '\0' if there is nothing to remove */
};

/* Returns a descriptor for reading and writing, which belongs to the caller, or a negative errno. `name` must outlive
 * r. */
int replace_begin(struct replace *r, const char *name, struct err *err);
int replace_finish(struct replace *r, struct err *err);
void replace_drop(struct replace *r); /* removes the partial file; does nothing after replace_finish or if r is all
                                       * zeros */

/* Writes folder/name, with exactly one slash in between. Returns 0 or -ENAMETOOLONG. */
int path_join(char *ret, size_t size, const char *folder, const char *name);

#endif
