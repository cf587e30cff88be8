#include "tool/replace.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as in the kernel */

int path_join(char *ret, size_t size, const char *folder, const char *name) {
    size_t n = strlen(folder);
    while (n > 0 && folder[n - 1] == '/')
        n--;
    return snprintf(ret, size, "%.*s/%s", (int)n, folder, name) < (int)size ? 0 : -ENAMETOOLONG;
}

/* Follows symbolic links until the last component is none; the target need not exist. */
static int follow(char path[4096]) {
    char link[4096], joined[4096];
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n < 0)
            return errno == EINVAL || errno == ENOENT ? 0 : -errno;
        link[n] = '\0';
        char *slash = strrchr(path, '/');
        if (link[0] == '/' || !slash) {
            strcpy(path, link);
        } else {
            *slash = '\0';
            if (path_join(joined, sizeof joined, path, link) < 0)
                return -ENAMETOOLONG;
            strcpy(path, joined);
        }
    }
    return -ELOOP;
}

/* The process's umask can only be read by setting it. */
static mode_t new_mode(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    mode_t mask = umask(0);
    umask(mask);
    pthread_mutex_unlock(&lock);
    return 0666 & ~mask;
}

int replace_begin(struct replace *r, const char *name, struct err *err) {
    struct stat old;
    *r = (struct replace){.name = name};
    if (strlen(name) >= sizeof r->target)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", name);
    strcpy(r->target, name);
    int code = follow(r->target);
    if (code < 0)
        return err_set(err, code, "%s: %s", name, strerror(-code));
    bool exists = stat(r->target, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        return err_set(err, -EINVAL, S_ISDIR(old.st_mode) ? "%s: is a folder" : "%s: is not a regular file", name);
    if (snprintf(r->part, sizeof r->part, "%s.XXXXXX", r->target) >= (int)sizeof r->part) {
        r->part[0] = '\0';
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", name);
    }
    int fd = mkstemp(r->part);
    if (fd < 0) {
        code = -errno;
        r->part[0] = '\0';
        return err_set(err, code, "%s: %s", name, strerror(-code));
    }
    if (fchmod(fd, exists ? old.st_mode & 0777 : new_mode()) < 0) {
        code = err_set(err, -errno, "%s: %s", name, strerror(errno));
        close(fd);
        replace_drop(r);
        return code;
    }
    return fd;
}

int replace_finish(struct replace *r, struct err *err) {
    if (rename(r->part, r->target) < 0)
        return err_set(err, -errno, "%s: %s", r->name, strerror(errno));
    r->part[0] = '\0';
    return 0;
}

void replace_drop(struct replace *r) {
    if (r->part[0])
        unlink(r->part);
    r->part[0] = '\0';
}
