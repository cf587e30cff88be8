/* enhance.h - the network on whole sound files: same rate, channels and length, no delay, the tags kept.
 *
 * An enhancer belongs to one thread; several may share a model. */
#ifndef PRIMEKNET_ENHANCE_H
#define PRIMEKNET_ENHANCE_H

#include "engine/engine.h"

#include <stdatomic.h>

struct enhancer {
    const struct model *model;
    const char *engine;     /* as engine_open has it */
    struct engine_controls controls;
    const atomic_int *stop; /* not 0: no further */
    struct engine *opened;  /* NULL at first; kept from file to file, with streams for the most channels so far */
};

/* The new file takes the old one's place when it is whole; it may be `in` itself. *share is how much of it is done, 0
 * to 1. Returns 0; 1, with the reason in *err, where `in` is cut short and all that is there of it was enhanced; or a
 * negative errno, -EINTR for *stop. */
int enhance_file(struct enhancer *e, const char *in, const char *out, _Atomic float *share, struct err *err);
void enhancer_done(struct enhancer *e);

#endif
