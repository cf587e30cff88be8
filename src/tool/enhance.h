/* enhance.h - the network applied to whole sound files. Rate, channels, length and tags are kept; no delay is added.
 *
 * An enhancer belongs to one thread. */
#ifndef PRIMEKNET_ENHANCE_H
#define PRIMEKNET_ENHANCE_H

#include "base/err.h"
#include "lib/primeknet.h"

#include <stdatomic.h>

struct enhancer {
    const struct primeknet *like; /* of the model and engine to use */
    struct primeknet_controls controls;
    const atomic_int *stop;       /* stops enhance_file when it is not 0 */
    struct primeknet *opened;     /* NULL at first; reused from file to file ... */
    unsigned n_streams;           /* ... with streams for the most channels so far */
};

/* Enhances `in` to `out`, which is replaced only once the new file is complete and may be `in`. *share is the share
 * done, 0 to 1. Returns 0; 1 if `in` is cut short, after enhancing what is there, with the reason in *err; or a
 * negative errno, -EINTR after *stop. */
int enhance_file(struct enhancer *e, const char *in, const char *out, _Atomic float *share, struct err *err);
void enhancer_done(struct enhancer *e);

#endif
