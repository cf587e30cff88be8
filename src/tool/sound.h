/* sound.h - loads a whole sound file into memory as one channel, for commands that need all of it.
 *
 * Any thread. The caller owns each sound and frees it with sound_done. */
#ifndef PRIMEKNET_SOUND_H
#define PRIMEKNET_SOUND_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* libsoxr's recipe for all resampling; it keeps 99 % of the band. Requires soxr.h. */
#define SOUND_RESAMPLING (SOXR_VHQ | SOXR_STEEP_FILTER)

/* Whether files can be resampled between two rates in Hz: the ratio is at most 256. */
static inline bool sound_resamples(unsigned from, unsigned to) {
    return to <= 256ull * from && from <= 256ull * to;
}

struct sound {
    float *samples; /* [n], full scale 1.0 */
    size_t n;
    unsigned rate;     /* Hz */
    const char *fault; /* why it is incomplete, such as "is cut short"; NULL: complete */
};

/* Reads any file that libsndfile supports, and averages its channels. Rejects a file without samples, or with a sample
 * that is NaN or far beyond full scale. Returns 0 or a negative errno. */
int sound_read(struct sound *ret, const char *path, struct err *err);
/* Makes a copy at another rate (or the same), aligned in time. `path` is for error messages. */
int sound_resample(struct sound *ret, const struct sound *s, unsigned rate, const char *path, struct err *err);
/* Writes 24-bit FLAC to a path that ends in .flac. Replaces the file only when the new one is complete. */
int sound_write(const struct sound *s, const char *path, struct err *err);
void sound_done(struct sound *s); /* s may be all zeros */

/* Writes the file's name without folders and extension, cut to size - 1 bytes. */
void sound_stem(char *ret, size_t size, const char *path);

#endif
