/* container.h - how much sound a file holds, whatever its header says, and how it has to be shown to libsndfile to be
 * read whole: libsndfile believes the header, stops at the end of the first of several joined files, and at garbage.
 *
 * A file is a series of parts, each a sound file of its own; most have one. A part is a series of spans of the file,
 * with a corrected header in the place of a wrong one. Formats that this does not know are one part. Any thread. */
#ifndef PRIMEKNET_CONTAINER_H
#define PRIMEKNET_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

/* Why not all of the sound can be had, or relied on. */
enum container_fault {
    CONTAINER_CUT = 1,     /* it ends before its header says, or without its last page or frame */
    CONTAINER_DAMAGED = 2, /* bytes in it are no sound, or not as they were written */
    CONTAINER_LONGER = 4,  /* what follows the sound that the header counts is taken for sound */
    CONTAINER_CHANGES = 8  /* a part has another rate, or other channels, than the first */
};

struct span {
    uint64_t at, n;         /* bytes of the file ... */
    unsigned char *instead; /* ... unless not NULL: these n bytes */
};

struct part {
    struct span *spans;
    size_t n_spans;
    uint64_t size;   /* of all spans */
    uint64_t frames; /* what the header says, where libsndfile is not shown it; else 0 */
};

struct container {
    struct part *parts; /* at least one */
    size_t n_parts;
    unsigned faults; /* enum container_fault */
};

/* Looks through a file of that size. Returns 0 or a negative errno: -EFBIG if the header cannot be corrected. */
int container_read(struct container *ret, int fd, uint64_t size);
void container_done(struct container *c); /* c may be all zeros */

#endif
