/* tags.h - copies a sound file's tags: title, artist, album etc. and, between files of the same format, all other
 * metadata, such as pictures.
 *
 * Any thread. */
#ifndef PRIMEKNET_TAGS_H
#define PRIMEKNET_TAGS_H

#include "base/err.h"
#include "tool/sound_file.h"

/* Copies the tags; call it before the first sample is written. Omits tags that do not fit. */
void tags_copy(SNDFILE *in, SNDFILE *out);

/* Copies metadata that libsndfile does not copy. Call it between sound_out_close and sound_out_finish, for files of the
 * same container format. Returns 0 or a negative errno. */
int tags_complete(const struct sound_in *in, struct sound_out *out, struct err *err);

#endif
