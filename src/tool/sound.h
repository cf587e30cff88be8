/* sound.h - a whole sound file in memory, as one channel; for commands that need all of it at once.
 *
 * Any thread; sounds belong to the caller, who frees them with sound_done. */
#ifndef PRIMEKNET_SOUND_H
#define PRIMEKNET_SOUND_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* How files are resampled: libsoxr's recipe, which keeps 99 % of the band; needs soxr.h. */
#define SOUND_RESAMPLING (SOXR_VHQ | SOXR_STEEP_FILTER)

/* Whether files at one rate (Hz) are resampled to another: up to 256 times as many samples, or as few. */
static inline bool sound_resamples(unsigned from, unsigned to) {
    return to <= 256ull * from && from <= 256ull * to;
}

struct sound {
    float *samples; /* [n], full scale 1.0 */
    size_t n;
    unsigned rate; /* Hz */
};

/* Anything that libsndfile reads; of several channels the mean. A file without sound, or with a sample that is not a
 * number, is refused. */
int sound_read(struct sound *ret, const char *path, struct err *err);
/* A copy at another rate (or the same), aligned with what it was. `path` is for the message alone. */
int sound_resample(struct sound *ret, const struct sound *s, unsigned rate, const char *path, struct err *err);
/* FLAC of 24 bits; the file is replaced only when the new one is whole. */
int sound_write(const struct sound *s, const char *path, struct err *err);
void sound_done(struct sound *s); /* a zeroed one is fine */

/* The file's name without folders and ending, at most size - 1 bytes of it. */
void sound_stem(char *ret, size_t size, const char *path);

#endif
