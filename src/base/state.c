#include "base/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool find_path(char path[STATE_PATH], const char *file, const char *suffix) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && state[0] == '/')
        n = snprintf(path, STATE_PATH, "%s/primeknet/%s%s", state, file, suffix);
    else if (home && home[0] == '/')
        n = snprintf(path, STATE_PATH, "%s/.local/state/primeknet/%s%s", home, file, suffix);
    return n >= 0 && n < STATE_PATH;
}

bool state_path(char ret[STATE_PATH], const char *file) {
    return find_path(ret, file, "");
}

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

bool state_read(const char *file, char *ret, size_t size) {
    char path[STATE_PATH];
    FILE *f = find_path(path, file, "") ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    bool ok = fgets(ret, (int)size, f) != NULL;
    fclose(f);
    if (ok)
        ret[strcspn(ret, "\n")] = 0;
    return ok;
}

bool state_write(const char *file, const char *line) {
    char path[STATE_PATH], part[STATE_PATH];
    if (!find_path(path, file, "") || !find_path(part, file, ".part"))
        return false;
    make_parents(part);
    FILE *f = fopen(part, "we");
    if (!f)
        return false;
    bool ok = fprintf(f, "%s\n", line) > 0;
    ok = !fclose(f) && ok && !rename(part, path);
    if (!ok)
        remove(part);
    return ok;
}

void state_remove(const char *file) {
    char path[STATE_PATH];
    if (find_path(path, file, ""))
        remove(path);
}
