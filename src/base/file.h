/* file.h - reads whole files, and replaces files atomically. Any thread.
 *
 * A new file stays unnamed (O_TMPFILE) until it is complete and on the disk; then it replaces the file of its name. No
 * reader ever sees half of it, and a program that dies leaves nothing behind. On a file system without unnamed files, a
 * hidden file beside the target is used instead. If the name is a symbolic link, the file that it points to is replaced
 * or created. The new file takes over the old one's permissions and, where that is allowed, its owner and group. Other
 * hard links keep the old one. */
#ifndef PRIMEKNET_FILE_H
#define PRIMEKNET_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

struct replace {
    const char *name;              /* the caller's name for it, for messages; NULL: nothing to finish or drop */
    int fd;                        /* for reading and writing */
    char target[4096], part[4096]; /* the file to replace; the new file's name, "" while unnamed */
};

/* Starts a new file. `name` must outlive r. A file that did not exist gets `mode` & ~umask. Returns 0 or -errno. */
int replace_begin(struct replace *r, const char *name, mode_t mode, struct err *err);
/* Syncs the new file and puts it in the old one's place. Call it once everything is written. */
int replace_finish(struct replace *r, struct err *err);
/* Discards the new file; does nothing after replace_finish or if r is all zeros. */
void replace_drop(struct replace *r);

/* Opens an unnamed file in $TMPDIR or /var/tmp, for reading and writing. Returns a descriptor or -errno. */
int file_scratch(void);

/* Replaces or creates a file that only its owner can read, creates missing folders, and syncs the file to the disk.
 * Does nothing if the file already has this content. Returns 0, or -errno with the path in err. */
int file_write(const char *path, const char *text, size_t n, struct err *err);

/* Reads a regular file of at most `most` bytes. The caller frees *ret; a NUL follows its *ret_n bytes. Returns 0, or
 * -errno with the path in err. */
int file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err);

int file_put(int fd, const void *data, size_t n); /* writes all n bytes; 0 or -errno */

/* Creates the missing folders of a file's path. Returns 0, or -errno with the folder in err. */
int make_parents(const char *file, mode_t mode, struct err *err);

/* Joins folder and name with exactly one slash. Returns 0 or -ENAMETOOLONG. */
int path_join(char *ret, size_t size, const char *folder, const char *name);

#endif
