#include "daemon/settings.h"

static const struct {
    const char *name, *allowed;
} rows[N_SETTINGS] = {
#define NUMBER(name, fallback, least, greatest, word, allowed) {#name, allowed},
#define TEXT(name, size, fallback, least, greatest, fits, allowed) {#name, allowed},
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
};

const char *settings_name(int setting) {
    return rows[setting].name;
}

const char *settings_allowed(int setting) {
    return rows[setting].allowed;
}
