#include "config.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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

/* Creates a file beside the target, under a name that nobody has. Unlike mkstemp it leaves the umask to the kernel. */
static int open_part(struct replace *r, mode_t mode) {
    for (unsigned i = 0;; i++) {
        if (snprintf(r->part, sizeof r->part, "%s.%d-%u", r->target, (int)getpid(), i) >= (int)sizeof r->part)
            return -ENAMETOOLONG;
        const int fd = open(r->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
}

static int refuse_irregular(const struct stat *st, const char *name, struct err *err) {
    return err_set(err, -EINVAL, S_ISDIR(st->st_mode) ? "%s: is a folder" : "%s: is not a regular file", name);
}

int replace_begin(struct replace *r, const char *name, mode_t mode, struct err *err) {
    struct stat old;
    *r = (struct replace){.name = name};
    if (strlen(name) >= sizeof r->target)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", name);
    strcpy(r->target, name);
    int code = follow(r->target);
    if (code < 0)
        return err_set(err, code, "%s: %s", name, strerror(-code));
    const bool exists = stat(r->target, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        return refuse_irregular(&old, name, err);
    const int fd = open_part(r, exists ? old.st_mode & 0777 : mode);
    if (fd < 0) {
        r->part[0] = '\0';
        return err_set(err, fd, "%s: %s", name, fd == -ENAMETOOLONG ? "the name is too long" : strerror(-fd));
    }
    if (exists && fchmod(fd, old.st_mode & 0777) < 0) {
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

int make_parents(const char *file, mode_t mode, struct err *err) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s", file) >= (int)sizeof path)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", file);
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(path, mode) < 0 && errno != EEXIST)
            return err_set(err, -errno, "%s: %s", path, strerror(errno));
        *slash = '/';
    }
    return 0;
}

/* O_NONBLOCK: a named pipe must not hang us. */
int file_read(char **ret, size_t *ret_n, const char *path, size_t most, struct err *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    char *text = NULL;
    size_t n = 0;
    int res = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        res = err_set(err, -errno, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        res = refuse_irregular(&st, path, err);
    else if ((size_t)st.st_size > most)
        res = err_set(err, -EFBIG, "%s: larger than %zu bytes", path, most);
    else if (!(text = malloc((size_t)st.st_size + 1)))
        res = err_set(err, -ENOMEM, "%s: out of memory", path);
    while (res == 0 && n < (size_t)st.st_size) {
        const ssize_t got = read(fd, text + n, (size_t)st.st_size - n);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            res = err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    if (res) {
        free(text);
        return res;
    }
    text[n] = '\0';
    *ret = text;
    *ret_n = n;
    return 0;
}

/* Whether the file has this content already. */
static bool has_content(const char *path, const char *text, size_t n) {
    char *old = NULL;
    size_t n_old;
    const bool same = file_read(&old, &n_old, path, n, NULL) == 0 && n_old == n && memcmp(old, text, n) == 0;
    free(old);
    return same;
}

int file_put(int fd, const void *data, size_t n) {
    for (const char *at = data; n > 0;) {
        const ssize_t wrote = write(fd, at, n);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        if (wrote > 0)
            at += wrote, n -= (size_t)wrote;
    }
    return 0;
}

int file_write(const char *path, const char *text, size_t n, struct err *err) {
    struct replace r;
    if (has_content(path, text, n))
        return 0;
    int res = make_parents(path, 0700, err);
    if (res)
        return res;
    const int fd = replace_begin(&r, path, 0600, err);
    if (fd < 0)
        return fd;
    res = file_put(fd, text, n);
    if (res == 0 && fsync(fd) < 0)
        res = -errno;
    if (res)
        err_set(err, res, "%s: %s", path, strerror(-res));
    close(fd);
    if (res == 0)
        res = replace_finish(&r, err);
    replace_drop(&r);
    return res;
}
