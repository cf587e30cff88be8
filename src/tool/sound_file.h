/* sound_file.h - sound files through libsndfile, with messages that name the file and the problem.
 *
 * Any thread. */
#ifndef PRIMEKNET_SOUND_FILE_H
#define PRIMEKNET_SOUND_FILE_H

#include "base/err.h"

#include <sndfile.h>
#include <stdbool.h>

/* Opens a file for reading and fills in *info. Returns 0 or a negative errno. */
int sound_file_open(SNDFILE **ret, SF_INFO *info, const char *path, struct err *err);

/* Describes an error of an open file as "PATH: cannot be DONE: ...". Returns -EIO. */
int sound_file_failed(SNDFILE *f, const char *path, const char *done, struct err *err);

/* After reading all n frames: whether the file ends before its header says, or its last page is not marked as the last.
 * Only some formats tell. */
bool sound_file_cut_short(SNDFILE *f, const SF_INFO *info, sf_count_t n);

/* Whether the name's extension is one of a sound file that can be written and read back. */
bool sound_file_named(const char *path);

/* Returns the format for the name's extension, with the rate, the channels and, if possible, the sample format of
 * `like`. Returns -EINVAL if it is unknown; the message then lists the extensions. */
int sound_file_format(const char *path, const SF_INFO *like, struct err *err);

#endif
