#include "daemon/settings.h"

static const struct {
    const char *name, *allowed;
} rows[N_SETTINGS] = {
#define ROW(name, allowed) {#name, allowed},
#include "daemon/settings.def"
};

const char *settings_name(int setting) {
    return rows[setting].name;
}

const char *settings_allowed(int setting) {
    return rows[setting].allowed;
}
