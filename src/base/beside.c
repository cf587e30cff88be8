#include "base/beside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool forbidden;

void beside_forbid(void) {
    forbidden = true;
}

bool beside_find(char path[PATH_MAX], const char *name) {
    char program[PATH_MAX];
    const ssize_t n = forbidden ? -1 : readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return false;
    program[n] = '\0';
    const char *const slash = strrchr(program, '/');
    if (!slash)
        return false;
    const int length = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - program), program, name);
    return length < PATH_MAX && access(path, F_OK) == 0;
}
