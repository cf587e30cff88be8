/* sound_file.h - sound files through libsndfile, with messages of our own that name the file and what is wrong.
 *
 * Any thread. */
#ifndef PRIMEKNET_SOUND_FILE_H
#define PRIMEKNET_SOUND_FILE_H

#include "base/err.h"

#include <sndfile.h>
#include <stdbool.h>

/* Opens a file for reading and fills *info. Returns 0 or a negative errno. */
int sound_file_open(SNDFILE **ret, SF_INFO *info, const char *path, struct err *err);

/* Reports an error of an open file, "PATH: cannot be DONE: ...". Returns -EIO. */
int sound_file_failed(SNDFILE *f, const char *path, const char *done, struct err *err);

/* After all n frames are read: whether the file ends before its header says, or its last page is not marked as the
 * last. Only some formats tell. */
bool sound_file_cut_short(SNDFILE *f, const SF_INFO *info, sf_count_t n);

/* Whether the name has the extension of a sound file that can be written and read back. */
bool sound_file_named(const char *path);

/* The format that the name's extension asks for, at the rate and with the channels of `like`, and with its sample
 * format if possible. Returns it, or -EINVAL with a message that lists the extensions. */
int sound_file_format(const char *path, const SF_INFO *like, struct err *err);

#endif
