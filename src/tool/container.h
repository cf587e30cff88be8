/* container.h - determines how much sound a file really contains, and how to present it to libsndfile so that it reads
 * all of it. libsndfile trusts the header, and stops at the end of the first of several joined files, or at garbage.
 *
 * A file is a series of parts, usually one, each a sound file of its own. A part is a series of spans of the file, in
 * which a corrected header replaces a wrong one. A file of an unknown format is one part. Any thread. */
#ifndef PRIMEKNET_CONTAINER_H
#define PRIMEKNET_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

/* Why some of the sound is missing or unreliable. */
enum container_fault {
    CONTAINER_CUT = 1,     /* ends earlier than the header says, or without the last page or frame */
    CONTAINER_DAMAGED = 2, /* contains bytes that are not sound, or corrupted ones */
    CONTAINER_LONGER = 4,  /* has data after the sound that the header counts; it is read as sound */
    CONTAINER_CHANGES = 8  /* the rate or channels of a part differ from the first */
};

struct span {
    uint64_t at, n;         /* offset and length in the file ... */
    unsigned char *instead; /* ... or, if not NULL, n bytes that replace it */
};

struct part {
    struct span *spans;
    size_t n_spans;
    uint64_t size;   /* bytes in all spans */
    uint64_t frames; /* the header's count if libsndfile does not see it; else 0 */
};

struct container {
    struct part *parts; /* at least one */
    size_t n_parts;
    unsigned faults; /* enum container_fault */
};

/* Scans a file of this size. Returns 0 or a negative errno; -EFBIG: the header cannot be corrected. */
int container_read(struct container *ret, int fd, uint64_t size);
void container_done(struct container *c); /* c may be all zeros */

#endif
