/* file.h - files that are read whole, and those that are written whole or not at all. Any thread.
 *
 * A new file is written beside the one it replaces, which it replaces only once it is complete; nobody ever reads half
 * of it. If the name is a symbolic link, the file that it points to is replaced or created. The new file gets the old
 * one's permissions. */
#ifndef PRIMEKNET_FILE_H
#define PRIMEKNET_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct replace {
    const char *name; /* as the caller named it, for messages */
    char target[4096],
        part[4096]; /* the file to replace, and the one being written; part[0] is '\0' if there is nothing to remove */
};

/* Returns a descriptor for reading and writing, which belongs to the caller, or a negative errno. `name` must outlive
 * r. A file that did not exist gets `mode`, less the umask. */
int replace_begin(struct replace *r, const char *name, mode_t mode, struct err *err);
int replace_finish(struct replace *r, struct err *err);
void replace_drop(struct replace *r); /* removes the partial file; does nothing after replace_finish or if r is all
                                       * zeros */

/* Replaces the file, or creates it, readable by its owner alone, and the missing folders; it is on the disk then. A
 * file that has this content already is left alone. 0, or -errno with the path in err. */
int file_write(const char *path, const char *text, size_t n, struct err *err);

/* Reads a regular file of at most `most` bytes. *ret belongs to the caller; a NUL follows the *ret_n bytes. 0, or
 * -errno with the path in err. */
int file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err);

int file_put(int fd, const void *data, size_t n); /* all of it: 0 or -errno */

/* Creates the folders on a file's path that do not exist. 0, or -errno with the folder in err. */
int make_parents(const char *file, mode_t mode, struct err *err);

/* Writes folder/name, with exactly one slash in between. Returns 0 or -ENAMETOOLONG. */
int path_join(char *ret, size_t size, const char *folder, const char *name);

#endif
