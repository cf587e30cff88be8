/* settings.h - the settings: the user's file (syntax: conf.h), overridden by the values that the program saved.
 *
 * The program never writes to the user's file NAME.conf. It saves values to NAME-saved.conf beside it, one value at a
 * time. It reads this file second, and its values override those of the user's file. Both are read strictly, entirely
 * or not at all: an unknown name, a wrong type or a value out of bounds is an error that names file and line.
 *
 * Omitted settings have their defaults; for strength, floor_db and low_cut_hz the preset defines these. `preset`
 * follows from their values: PRESET_NONE if no preset has them. struct settings holds plain values, which may be copied
 * and compared. Not real-time safe; any thread, one at a time. Functions that return int return 0 or -errno, unless
 * documented otherwise. */
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
    char microphone[256];                /* as settings.microphone, but never "default" */
#define ROW(name, size) char name[size]; /* as for settings_set; "": not in the profile */
    PROFILE_SETTINGS(ROW)
#undef ROW
    int line;      /* its line in the file, or ... */
    bool saved;    /* ... in the saved one */
    unsigned live; /* as in struct settings */
};

/* A line of the user's file that a line of the saved file overrides. */
struct hidden {
    int setting; /* -1: a profile */
    int line, saved_line;
};

enum { MAX_PROFILES = 8 };

struct settings {
#define NUMBER(name, ...) double name;
#define TEXT(name, size, ...) char name[size];
#define SWITCH(name, fallback) bool name;
#include "control/settings.def"
    char named_preset[16]; /* the chosen preset, even if other settings override some of its values; "": none */
    unsigned n_profiles;
    struct profile profiles[MAX_PROFILES];
    char file[1024], saved[1024];                   /* paths of the file and the saved file, "" if there is none */
    int lines[N_SETTINGS], saved_lines[N_SETTINGS]; /* each setting's line in them; 0: none */
    unsigned live, in_profile; /* bit i: setting i differs from the files; setting i comes from the active profile */
    unsigned n_hidden;
    struct hidden hidden[N_SETTINGS + MAX_PROFILES];
};

/* Reads `file` or, if it is NULL, the user's file ($XDG_CONFIG_HOME/primeknet/primeknet.conf), else the system's, else
 * none; then the saved file beside `file` or the user's file. On failure, sets only ret->file and ret->saved. */
int settings_load(struct settings *ret, const char *file, struct err *err);

/* The same, but ignores the saved value of one setting or, for a preset, of its settings. -ENOENT: nothing was
 * saved. */
int settings_load_without(struct settings *ret, const char *file, int setting, struct err *err);
/* Copies a setting, or a preset's settings, from `from`, with their lines in the files. */
void settings_take(struct settings *s, const struct settings *from, int setting);

/* Writes the names of the files from which the settings come, separated by a comma; "" for the defaults. */
void settings_files(const struct settings *s, char *ret, size_t size);

/* Reads only this file. On failure, sets only ret->file. */
int settings_read(struct settings *ret, const char *file, struct err *err);

/* The same for n bytes of text; `file` is the name for messages. */
int settings_parse(struct settings *ret, const char *text, size_t n, const char *file, struct err *err);

/* Writes the i-th name in more_microphones, counted from 0, to ret [256]. Returns false if there is none. */
bool settings_more_microphone(const struct settings *s, unsigned i, char *ret);

/* Returns how many signals are enhanced: the microphone, further microphones, the speaker. */
unsigned settings_streams(const struct settings *s);

/* As settings_meant(), but returns -ENOENT and suggests the most similar name if there is none. */
int settings_find(const char *name, struct err *err);

/* Sets a setting from text: "0.7", "off", "base". An invalid value changes nothing. */
int settings_set(struct settings *s, int setting, const char *text, struct err *err);
/* The same, but changes the profile with this index if it has the setting. -1: no profile. */
int settings_set_in(struct settings *s, int profile, int setting, const char *text, struct err *err);
/* Copies a profile's values to the settings. */
void settings_use_profile(struct settings *s, unsigned profile);
/* Adds a profile with the values of s. -ENOSPC: there are MAX_PROFILES already. */
int settings_add_profile(struct settings *s, const char *microphone, struct err *err);
void settings_remove_profile(struct settings *s, unsigned profile);
/* Writes a setting's value to ret [size] as text for settings_set (which refuses PRESET_NONE), cut if too long; no
 * value needs more than 1024 bytes. */
void settings_text(const struct settings *s, int setting, char *ret, size_t size);

/* Returns the bounds of a numeric setting. */
void settings_bounds(int setting, double *least, double *greatest);

/* Returns the value of a numeric setting; false for other settings. */
bool settings_number(const struct settings *s, int setting, double *ret);

/* Saves the value of a setting in s. `file`: as for settings_load. profile: as for settings_set_in; this saves the
 * whole profile. *ret receives the new content of the saved file. */
int settings_save(struct settings *ret, const struct settings *s, const char *file, int profile, int setting,
                  struct err *err);
/* Saves the profile of a microphone or, if s has none, its absence. */
int settings_save_profile(struct settings *ret, const struct settings *s, const char *file, const char *microphone,
                          struct err *err);
/* Removes a setting, or a preset with its settings, from the saved file. */
int settings_unsave(struct settings *ret, const char *file, int setting, struct err *err);
/* Updates in s the lines in the saved file, and which values are saved. */
void settings_note_saved(struct settings *s, const struct settings *saved);

/* Replaces `file` with one that has all settings of s. */
int settings_write(const struct settings *s, const char *file, struct err *err);

/* Where a setting's value comes from. *line: in the file or the saved file, else 0. */
enum origin {
    FROM_DEFAULT,
    FROM_FILE,
    FROM_SAVED,
    FROM_NO_FILE,    /* live */
    FROM_ITS_VALUES, /* a preset that was not chosen: its settings' values match it */
};
enum origin settings_origin(const struct settings *s, int setting, int *line);

/* Writes the error "FILE:LINE: SETTING: what", that a setting's value cannot be used, and returns `code`. */
int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err);

#endif
