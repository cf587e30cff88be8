/* names.h - the settings' names: settings.def, for the daemon and for its clients. Any thread. */
#ifndef PRIMEKNET_CONTROL_NAMES_H
#define PRIMEKNET_CONTROL_NAMES_H

enum {
#define ROW(name, allowed) SETTING_##name,
#include "control/settings.def"
    N_SETTINGS
};

/* A setting's name in a file, and what completes the sentence "NAME must be ...". */
const char *settings_name(int setting);
const char *settings_allowed(int setting);

/* The setting that a command's word means, spelled as in the file, with dashes, or without its unit: "floor_db",
 * "floor-db", "floor". -1 if there is none. */
int settings_meant(const char *word);

#endif
