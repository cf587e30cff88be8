/* tags.h - what a sound file says of itself beside the sound, carried over to another: title, artist, album and the
 * like; and between files of one kind all that the kind has room for, pictures among it.
 *
 * Any thread. */
#ifndef PRIMEKNET_TAGS_H
#define PRIMEKNET_TAGS_H

#include "base/err.h"

#include <sndfile.h>

/* Before the first sample is written; what does not fit is left out. */
void tags_copy(SNDFILE *in, SNDFILE *out);

/* What libsndfile does not carry, from `in` to the whole and closed file `out`, both of this container
 * (SF_FORMAT_TYPEMASK). Returns 0 or a negative errno. */
int tags_complete(const char *in, const char *out, int container, struct err *err);

#endif
