#include "base/state.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool user_path(char *ret, size_t size, const char *variable, const char *fallback, const char *file) {
    const char *folder = getenv(variable), *home = getenv("HOME");
    int n = -1;
    if (folder && folder[0] == '/')
        n = snprintf(ret, size, "%s/primeknet/%s", folder, file);
    else if (fallback && home && home[0] == '/')
        n = snprintf(ret, size, "%s/%s/primeknet/%s", home, fallback, file);
    return n >= 0 && (size_t)n < size;
}

bool state_path(char ret[STATE_PATH], const char *file) {
    return user_path(ret, STATE_PATH, "XDG_STATE_HOME", ".local/state", file);
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
