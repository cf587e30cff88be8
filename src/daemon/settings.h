/* settings.h - the settings: the user's file (its grammar: conf.h), and upon it what the program saved.
 *
 * The program never writes the user's file. What it saves goes to a file of its own beside it, in which it replaces one
 * value at a time: NAME-saved.conf beside NAME.conf. That is read after the other, and its values replace the other's.
 * Both are read strictly, whole or not at all: an unknown name, a wrong type or a value out of bounds is an error that
 * names file and line.
 *
 * Omitted settings have their defaults; strength, floor_db and low_cut_hz have those of the preset. preset is what they
 * come to, PRESET_NONE if no preset has their values. struct settings holds plain values, to be copied and compared
 * freely. Not real-time safe; any thread, one at a time. */
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
    int line;      /* in the file, or ... */
    bool saved;    /* ... in the saved one */
    unsigned live; /* as in struct settings */
};

/* A line of the user's file without effect, because of one of the saved file. */
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
    char named_preset[16]; /* the preset that was chosen, even if others replace some of its values; "": none */
    unsigned n_profiles;
    struct profile profiles[MAX_PROFILES];
    char file[1024], saved[1024]; /* where they come from: the file, and the saved one; "" if there is none */
    int lines[N_SETTINGS], saved_lines[N_SETTINGS]; /* where each stands in them; 0: nowhere */
    unsigned live, in_profile; /* bit i: setting i is not as in the files; it comes from the profile in use */
    unsigned n_hidden;
    struct hidden hidden[N_SETTINGS + MAX_PROFILES];
};

/* Reads `file` or, if it is NULL, the user's ($XDG_CONFIG_HOME/primeknet/primeknet.conf), else the system's, else
 * none; and the saved file beside `file` or the user's. On failure only ret->file and ret->saved are set. */
int settings_load(struct settings *ret, const char *file, struct err *err);

/* The same without what was saved of one setting or, of a preset, its settings. -ENOENT: nothing was. */
int settings_load_without(struct settings *ret, const char *file, int setting, struct err *err);
/* Gives a setting the value, or a preset its values, of `from`, and their places in the files. */
void settings_take(struct settings *s, const struct settings *from, int setting);

/* The names of the files that the settings come from, with a comma between two; "" for the defaults. */
void settings_files(const struct settings *s, char *ret, size_t size);

/* Reads exactly that file. On failure only ret->file is set. */
int settings_read(struct settings *ret, const char *file, struct err *err);

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

/* Saves the value that one setting has in s. `file`: as for settings_load. profile: as for settings_set_in; the whole
 * profile then is in the saved file. ret: what that file says now. */
int settings_save(struct settings *ret, const struct settings *s, const char *file, int profile, int setting,
                  struct err *err);
/* Saves the profile of that microphone or, if s has none, that there is none. */
int settings_save_profile(struct settings *ret, const struct settings *s, const char *file, const char *microphone,
                          struct err *err);
/* Takes one setting out of the saved file, a preset with its settings. */
int settings_unsave(struct settings *ret, const char *file, int setting, struct err *err);
/* Notes in s where all that stands in the saved file, and which values are saved now. */
void settings_note_saved(struct settings *s, const struct settings *saved);

/* Replaces `file` by one with all settings of s. */
int settings_write(const struct settings *s, const char *file, struct err *err);

/* Where a setting's value comes from. line: in the file or the saved one, else 0. */
enum origin {
    FROM_DEFAULT,
    FROM_FILE,
    FROM_SAVED,
    FROM_NO_FILE,    /* live */
    FROM_ITS_VALUES, /* a preset that nobody chose */
};
enum origin settings_origin(const struct settings *s, int setting, int *line);

/* Writes that a setting's value cannot be used, "FILE:LINE: model: what", and returns `code`. */
int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err);

#endif
