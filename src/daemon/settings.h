/* settings.h - the user's settings: a file (its grammar: conf.h), read strictly, whole or not at all.
 *
 * A setting that the file leaves out has its default; a key that is no setting, a wrong type or a value out of its
 * bounds is an error that names the line. Plain values, so that settings are copied and compared freely. Not real-time
 * safe; any one thread. */
#ifndef PRIMEKNET_SETTINGS_H
#define PRIMEKNET_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
#define NUMBER(name, ...) SETTING_##name,
#define TEXT(name, ...) SETTING_##name,
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
    N_SETTINGS
};

struct settings {
#define NUMBER(name, ...) double name;
#define TEXT(name, size, ...) char name[size];
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
    char file[1024];       /* where they come from; "" are the defaults */
    int lines[N_SETTINGS]; /* the line of each in that file, 0 for a default */
};

/* Reads `file`, or, where it is NULL, the user's ($XDG_CONFIG_HOME/primeknet/primeknet.conf), else the system's, else
 * none. Where it is refused ret->file alone is set: which file that is. */
int settings_load(struct settings *ret, const char *file, struct err *err);

/* The same from n bytes of text; `file` is the name for messages. */
int settings_parse(struct settings *ret, const char *text, size_t n, const char *file, struct err *err);

/* The name in more_microphones with that number, from 0 on. False: there is none. ret: [256]. */
bool settings_more_microphone(const struct settings *s, unsigned i, char *ret);

/* How much is enhanced at once: the microphone, the further ones, the speaker. */
unsigned settings_streams(const struct settings *s);

/* The setting of that name, in a file's spelling or a command's ("floor-db"); -ENOENT: there is none. */
int settings_find(const char *name, struct err *err);
const char *settings_name(int setting);

/* Gives one setting a new value, as text: "0.7", "off", "base". A value that cannot be changes nothing. */
int settings_set(struct settings *s, int setting, const char *text, struct err *err);
/* A setting's value as text that settings_set takes. ret: [size], cut if too long; no value needs more than 1024. */
void settings_text(const struct settings *s, int setting, char *ret, size_t size);

/* Between which numbers a setting that is one may be. */
void settings_bounds(int setting, double *least, double *greatest);

/* Whether a setting's value is a number, and which. */
bool settings_number(const struct settings *s, int setting, double *ret);

/* Writes one setting of s into the file that s comes from, and leaves all else there as it stands: comments, order,
 * the other settings. Settings of the system's, or of no file, go to the user's, which begins as a copy. s then comes
 * from that file. */
int settings_save(struct settings *s, int setting, struct err *err);

/* Writes all settings of s into a file of their own, which is replaced. */
int settings_write(const struct settings *s, const char *file, struct err *err);

/* Says that a setting's value cannot be used, and where it is written: "FILE:LINE: model: what". Returns `code`. */
int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err);

#endif
