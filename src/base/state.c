#include "base/state.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool state_path(char ret[STATE_PATH], const char *file) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && state[0] == '/')
        n = snprintf(ret, STATE_PATH, "%s/primeknet/%s", state, file);
    else if (home && home[0] == '/')
        n = snprintf(ret, STATE_PATH, "%s/.local/state/primeknet/%s", home, file);
    return n >= 0 && n < STATE_PATH;
}

bool state_read(const char *file, char *ret, size_t size) {
    char path[STATE_PATH];
    FILE *f = state_path(path, file) ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    bool ok = fgets(ret, (int)size, f) != NULL;
    fclose(f);
    if (ok)
        ret[strcspn(ret, "\n")] = 0;
    return ok;
}

bool state_write(const char *file, const char *line) {
    char path[STATE_PATH], text[STATE_PATH];
    struct err err;
    int n = snprintf(text, sizeof text, "%s\n", line);
    return state_path(path, file) && n < (int)sizeof text && file_write(path, text, (size_t)n, &err) == 0;
}

void state_remove(const char *file) {
    char path[STATE_PATH];
    if (state_path(path, file))
        remove(path);
}
