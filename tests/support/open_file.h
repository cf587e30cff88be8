/* open_file.h - waits until a program under test has a file open, so that a signal interrupts its work. */
#ifndef PRIMEKNET_TESTS_OPEN_FILE_H
#define PRIMEKNET_TESTS_OPEN_FILE_H

#include <check.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Whether a descriptor, a link in /proc, refers to `file` or, if file is NULL, to a writable file below dir, named or
 * unnamed, other than the program's standard error. */
static inline bool is_open_file(const char *descriptor, const char *dir, const char *file) {
    char target[4096];
    struct stat st;
    const ssize_t n = readlink(descriptor, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    if (file)
        return strcmp(target, file) == 0;
    return strncmp(target, dir, strlen(dir)) == 0 && !strstr(target, "/stderr") && lstat(descriptor, &st) == 0 &&
           (st.st_mode & S_IWUSR);
}

/* Waits for that; fails the test if the process ends first. */
static inline void await_open(pid_t pid, const char *dir, const char *file) {
    char folder[64], descriptor[600];
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    for (bool is_open = false; !is_open;) {
        ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        DIR *d = opendir(folder);
        for (struct dirent *entry; d && (entry = readdir(d));) {
            snprintf(descriptor, sizeof descriptor, "%s/%s", folder, entry->d_name);
            is_open |= is_open_file(descriptor, dir, file);
        }
        if (d)
            closedir(d);
    }
}

#endif
