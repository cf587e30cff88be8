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

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* Whether the file has this content already. */
static bool has_content(const char *path, const char *text, size_t n) {
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t i = 0;
    while (i < n && fgetc(f) == (unsigned char)text[i])
        i++;
    const bool same = i == n && fgetc(f) == EOF && !ferror(f);
    fclose(f);
    return same;
}

int file_write(const char *path, const char *text, size_t n, struct err *err) {
    char *real = realpath(path, NULL), *part = NULL;
    struct stat st;
    int fd = -1, res = 0;

    if (real && has_content(real, text, n)) {
        free(real);
        return 0;
    }
    if (asprintf(&part, "%s.XXXXXX", real ? real : path) < 0) {
        free(real);
        return err_set(err, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
    }
    if (!real)
        make_parents(part);
    fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0 || (real && (stat(real, &st) < 0 || fchmod(fd, st.st_mode & 07777) < 0)))
        res = -errno;
    for (size_t done = 0; res == 0 && done < n;) {
        ssize_t wrote = write(fd, text + done, n - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            res = -errno;
    }
    if (res == 0 && (fsync(fd) < 0 || rename(part, real ? real : path) < 0))
        res = -errno;
    if (fd >= 0) {
        close(fd);
        if (res)
            unlink(part);
    }
    free(part);
    free(real);
    return res ? err_set(err, res, "%s: %s", path, strerror(-res)) : 0;
}
