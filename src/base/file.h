/* file.h - files that are read whole, and those that are written whole or not at all. Any thread.
 *
 * A new file has no name until it is complete and on the disk; only then does it replace the one of its name. Nobody
 * ever reads half of it, and whatever ends the program leaves nothing behind. Where the file system knows no files
 * without a name, it is a hidden file beside the other until then. If the name is a symbolic link, the file that it
 * points to is replaced or created. The new file gets the old one's permissions. */
#ifndef PRIMEKNET_FILE_H
#define PRIMEKNET_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct replace {
    const char *name; /* as the caller named it, for messages; NULL if there is nothing to finish or to drop */
    int fd;           /* for reading and writing */
    char target[4096], part[4096]; /* the file to replace; the name of the new one, "" while it has none */
};

/* Returns 0 or a negative errno. `name` must outlive r. A file that did not exist gets `mode`, less the umask. */
int replace_begin(struct replace *r, const char *name, mode_t mode, struct err *err);
/* Once all is written. */
int replace_finish(struct replace *r, struct err *err);
/* Forgets the new file; does nothing after replace_finish or if r is all zeros. */
void replace_drop(struct replace *r);

/* Opens a file without a name in $TMPDIR or /var/tmp, for reading and writing. Returns a descriptor or -errno. */
int file_scratch(void);

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
