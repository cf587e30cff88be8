/* settings.h - the user's settings: a file (its grammar: conf.h), read strictly, whole or not at all.
 *
 * Omitted settings have their defaults; strength, floor_db and low_cut_hz have those of the preset. preset is what they
 * come to, PRESET_NONE if no preset has their values. An unknown name, a wrong type or a value out of bounds is an error that names
 * file and line. struct settings holds plain values, to be copied and compared freely. Not real-time safe; any thread,
 * one at a time. */
#ifndef PRIMEKNET_SETTINGS_H
#define PRIMEKNET_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "control/names.h"

/* The settings that a profile may replace while Enhanced Mic uses its microphone: name, bytes of the value as text. */
#define PROFILE_SETTINGS(ROW) \
    ROW(strength, 16) \
    ROW(floor_db, 16) \
    ROW(low_cut_hz, 16) \
    ROW(model, 1024)

struct profile {
    char microphone[256]; /* as settings.microphone has it, but for "default" */
#define ROW(name, size) char name[size]; /* as settings_set takes it; "": as without the profile */
    PROFILE_SETTINGS(ROW)
#undef ROW
    int line;
};

enum { MAX_PROFILES = 8 };

struct settings {
#define NUMBER(name, ...) double name;
#define TEXT(name, size, ...) char name[size];
#define SWITCH(name, fallback) bool name;
#include "control/settings.def"
    char file[1024];       /* where they come from; "" for the defaults */
    unsigned n_profiles;
    struct profile profiles[MAX_PROFILES];
    int lines[N_SETTINGS]; /* the line of each in that file, 0 for a default */
};

/* Reads `file` or, if it is NULL, the user's ($XDG_CONFIG_HOME/primeknet/primeknet.conf), else the system's, else
 * none. On failure only ret->file is set, to the file refused. */
int settings_load(struct settings *ret, const char *file, struct err *err);

/* The same from n bytes of text; `file` is the name for messages. */
int settings_parse(struct settings *ret, const char *text, size_t n, const char *file, struct err *err);

/* The i-th name in more_microphones, from 0. False if there is none. ret: [256]. */
bool settings_more_microphone(const struct settings *s, unsigned i, char *ret);

/* How many signals are enhanced at once: the microphone, the further ones, the speaker. */
unsigned settings_streams(const struct settings *s);

/* As settings_meant(), but -ENOENT and the likest name if there is none. */
int settings_find(const char *name, struct err *err);

/* Gives one setting a new value, as text: "0.7", "off", "base". An invalid value changes nothing. */
int settings_set(struct settings *s, int setting, const char *text, struct err *err);
/* The same where the value comes from: the profile with that number, if it has the setting. -1: no profile. */
int settings_set_in(struct settings *s, int profile, int setting, const char *text, struct err *err);
/* Gives the settings that a profile of s has the values that they have there. */
void settings_use_profile(struct settings *s, unsigned profile);
/* Adds a profile that has the values of s. -ENOSPC: there are MAX_PROFILES. */
int settings_add_profile(struct settings *s, const char *microphone, struct err *err);
void settings_remove_profile(struct settings *s, unsigned profile);
/* A setting's value as text that settings_set takes, but for PRESET_NONE. ret: [size], cut if too long; no value needs more than 1024. */
void settings_text(const struct settings *s, int setting, char *ret, size_t size);

/* The bounds of a setting that is a number. */
void settings_bounds(int setting, double *least, double *greatest);

/* False if the setting's value is not a number. */
bool settings_number(const struct settings *s, int setting, double *ret);

/* Writes one setting of s into the file that s comes from, and leaves the rest alone: comments, order, the other
 * settings. Settings from the system's file, or from none, go to the user's file, which starts as a copy; s->file then
 * names that. profile: as for settings_set_in. A preset takes along those of its settings that stand there. */
int settings_save(struct settings *s, int profile, int setting, struct err *err);

/* Likewise adds the profile of that microphone to the file or, if s has none, removes it there. */
int settings_save_profile(struct settings *s, const char *microphone, struct err *err);

/* Replaces `file` by one with all settings of s. */
int settings_write(const struct settings *s, const char *file, struct err *err);

/* Writes that a setting's value cannot be used, "FILE:LINE: model: what", and returns `code`. */
int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err);

#endif
