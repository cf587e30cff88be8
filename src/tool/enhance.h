/* enhance.h - enhances whole sound files. Keeps rate, channels, length and tags, and adds no delay.
 *
 * Use an enhancer on one thread at a time. */
#ifndef PRIMEKNET_ENHANCE_H
#define PRIMEKNET_ENHANCE_H

#include "base/err.h"
#include "lib/primeknet.h"

#include <stdatomic.h>
#include <stdbool.h>

struct enhancer {
    const struct primeknet *like; /* has the model and engine to use */
    struct primeknet_controls controls;
    bool cold;                /* starts each file as a live stream, without hearing its beginning first */
    const atomic_int *stop;   /* a nonzero value stops enhance_file */
    struct primeknet *opened; /* NULL at first; kept from file to file ... */
    unsigned n_streams;       /* ... with enough streams for the files so far */
};

/* Enhances the file `in` and writes `out`, which may be `in`; replaces `out` only when the new file is complete.
 * Updates *share, the share done, 0 to 1. Returns 0; 1 if `in` could not be read completely: the rest is enhanced, and
 * *err has the reason; or a negative errno, -EINTR after *stop. */
int enhance_file(struct enhancer *e, const char *in, const char *out, _Atomic float *share, struct err *err);
void enhancer_done(struct enhancer *e);

#endif
