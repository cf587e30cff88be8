/* tags.h - copies a sound file's tags: title, artist, album and the like, and between files of the same format
 * everything else that it can hold, such as pictures.
 *
 * Any thread. */
#ifndef PRIMEKNET_TAGS_H
#define PRIMEKNET_TAGS_H

#include "base/err.h"

#include <sndfile.h>

/* Call it before the first sample is written. Tags that do not fit are left out. */
void tags_copy(SNDFILE *in, SNDFILE *out);

/* Copies what libsndfile does not, from `in` to the complete, closed file `out`; both are of this container
 * (SF_FORMAT_TYPEMASK). Returns 0 or a negative errno. */
int tags_complete(const char *in, const char *out, int container, struct err *err);

#endif
