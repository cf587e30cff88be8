/* names.h - the names of the settings, from settings.def, for the daemon and its clients. Any thread. */
#ifndef PRIMEKNET_CONTROL_NAMES_H
#define PRIMEKNET_CONTROL_NAMES_H

enum {
#define ROW(name, allowed) SETTING_##name,
#include "control/settings.def"
    N_SETTINGS
};

/* A setting's name in a file, and the end of the sentence "NAME must be ...". */
const char *settings_name(int setting);
const char *settings_allowed(int setting);

/* Returns the setting that a word on the command line means: "floor_db" as in the file, "floor-db" with dashes, or
 * "floor" without the unit. -1: none. */
int settings_meant(const char *word);

#endif
