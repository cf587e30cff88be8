/* tags.h - copies a sound file's tags: title, artist, album and the like, and between files of the same format
 * everything else that it can hold, such as pictures.
 *
 * Any thread. */
#ifndef PRIMEKNET_TAGS_H
#define PRIMEKNET_TAGS_H

#include "base/err.h"
#include "tool/sound_file.h"

/* Call it before the first sample is written. Tags that do not fit are left out. */
void tags_copy(SNDFILE *in, SNDFILE *out);

/* Copies what libsndfile does not, to a file that is complete but not finished; both are of the same container. Returns
 * 0 or a negative errno. */
int tags_complete(const struct sound_in *in, struct sound_out *out, struct err *err);

#endif
