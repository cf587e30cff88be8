#include "config.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
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

/* Follows symbolic links until the last component is not one; the target need not exist. */
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

/* Makes an unused name beside the target, short enough whatever the target's own name. */
static int name_part(struct replace *r) {
    static atomic_uint n;
    const char *slash = strrchr(r->target, '/');
    const int folder = slash ? (int)(slash + 1 - r->target) : 0;
    return snprintf(r->part, sizeof r->part, "%.*s.primeknet-%d-%u", folder, r->target, (int)getpid(),
                    atomic_fetch_add(&n, 1)) < (int)sizeof r->part
               ? 0
               : -ENAMETOOLONG;
}

enum { PROC_NAME = 32 };

/* The path by which an unnamed file gets a name. */
static void proc_name(char ret[PROC_NAME], int fd) {
    snprintf(ret, PROC_NAME, "/proc/self/fd/%d", fd);
}

static int open_nameless(const struct replace *r, mode_t mode) {
    char folder[sizeof r->target], proc[PROC_NAME];
    strcpy(folder, r->target);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    const int fd = open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd < 0)
        return -1;
    proc_name(proc, fd);
    if (access(proc, F_OK) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Unlike mkstemp it leaves the umask to the kernel. */
static int open_part(struct replace *r, mode_t mode) {
    int fd = open_nameless(r, mode);
    if (fd >= 0)
        return fd;
    do {
        const int code = name_part(r);
        if (code < 0)
            return code;
        fd = open(r->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EEXIST);
    return fd >= 0 ? fd : -errno;
}

/* Gives the new file its name beside the target. */
static int link_part(struct replace *r) {
    char proc[PROC_NAME];
    proc_name(proc, r->fd);
    for (int code; !r->part[0];) {
        if ((code = name_part(r)) < 0)
            return code;
        if (linkat(AT_FDCWD, proc, AT_FDCWD, r->part, AT_SYMLINK_FOLLOW) == 0)
            break;
        code = -errno;
        r->part[0] = '\0';
        if (code != -EEXIST)
            return code;
    }
    return 0;
}

static int refuse_irregular(const struct stat *st, const char *name, struct err *err) {
    return err_set(err, -EINVAL, S_ISDIR(st->st_mode) ? "%s: is a folder" : "%s: is not a regular file", name);
}

int replace_begin(struct replace *r, const char *name, mode_t mode, struct err *err) {
    struct stat old;
    *r = (struct replace){0};
    const char *slash = strrchr(name, '/');
    if (strlen(name) >= sizeof r->target || strlen(slash ? slash + 1 : name) > NAME_MAX)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", name);
    strcpy(r->target, name);
    int code = follow(r->target);
    if (code < 0)
        return err_set(err, code, "%s: %s", name, strerror(-code));
    const bool exists = stat(r->target, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        return refuse_irregular(&old, name, err);
    r->fd = open_part(r, exists ? old.st_mode & 0777 : mode);
    if (r->fd < 0)
        return err_set(err, r->fd, "%s: %s", name, r->fd == -ENAMETOOLONG ? "the name is too long" : strerror(-r->fd));
    r->name = name;
    if (exists && fchown(r->fd, old.st_uid, old.st_gid) < 0 && fchown(r->fd, (uid_t)-1, old.st_gid) < 0)
        errno = 0; /* only root can give a file away; the user who writes it owns it then */
    if (exists && fchmod(r->fd, old.st_mode & 0777) < 0) {
        code = err_set(err, -errno, "%s: %s", name, strerror(errno));
        replace_drop(r);
        return code;
    }
    return 0;
}

int replace_finish(struct replace *r, struct err *err) {
    int code = fsync(r->fd) == 0 ? link_part(r) : -errno;
    if (code == 0) {
        code = close(r->fd) == 0 ? 0 : -errno;
        r->fd = -1;
    }
    if (code == 0 && rename(r->part, r->target) < 0)
        code = -errno;
    if (code < 0)
        return err_set(err, code, "%s: cannot be written: %s", r->name, strerror(-code));
    r->name = NULL;
    return 0;
}

void replace_drop(struct replace *r) {
    if (!r->name)
        return;
    if (r->fd >= 0)
        close(r->fd);
    if (r->part[0])
        unlink(r->part);
    r->name = NULL;
}

int file_scratch(void) {
    const char *folder = getenv("TMPDIR");
    const int fd = open(folder && folder[0] ? folder : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0)
        return fd;
    FILE *f = tmpfile();
    const int copy = f ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1, code = copy < 0 ? -errno : copy;
    if (f)
        fclose(f);
    return code;
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
    if ((res = replace_begin(&r, path, 0600, err)) < 0)
        return res;
    if ((res = file_put(r.fd, text, n)) < 0)
        err_set(err, res, "%s: %s", path, strerror(-res));
    else
        res = replace_finish(&r, err);
    replace_drop(&r);
    return res;
}
