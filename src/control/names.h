/* names.h - for the daemon and its clients: the names of the settings, from settings.def, and sentences for the words
 * of protocol.h. Any thread. */
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

/* Returns WHY_... of protocol.h for the code with which a model does not load or the engine cuda does not open. NULL:
 * there is no word for it. */
const char *why_model(int code);
const char *why_gpu(int code);
/* Returns a sentence for CODE_... or WHY_... of protocol.h, with %s for the model's name if it is about a model. NULL:
 * an unknown word, or one whose sentence has other parts. It is in English; po/ translates it. */
const char *sentence_for(const char *word);

#endif
