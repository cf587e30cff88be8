#include "control/names.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name, *allowed;
} rows[N_SETTINGS] = {
#define ROW(name, allowed) {#name, allowed},
#include "control/settings.def"
};

const char *settings_name(int setting) {
    return rows[setting].name;
}

const char *settings_allowed(int setting) {
    return rows[setting].allowed;
}

/* Whether a word of a command is the name, or the name without its unit. */
static bool means(const char *word, const char *name) {
    for (; *word; word++, name++)
        if (*name != (*word == '-' ? '_' : *word))
            return false;
    return strcmp(name, "") == 0 || strcmp(name, "_db") == 0 || strcmp(name, "_hz") == 0 || strcmp(name, "_s") == 0;
}

int settings_meant(const char *word) {
    for (int i = 0; i < N_SETTINGS; i++)
        if (means(word, rows[i].name))
            return i;
    return -1;
}
