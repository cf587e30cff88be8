/* recall.h - who records from a node, or plays to it, noted in a file, so that the next process can bring them back
 * after a crash or an upgrade.
 *
 * One file per node in $XDG_RUNTIME_DIR/primeknet, which goes with the login, as PipeWire does. Nothing depends on
 * it: if it cannot be read or written, nobody is brought back. One thread at a time; not real-time safe. */
#ifndef PRIMEKNET_RECALL_H
#define PRIMEKNET_RECALL_H

#include "base/errands.h"

#include <stdbool.h>
#include <stdint.h>

enum { RECALL_STREAMS = 64 };

struct recall_stream {
    uint64_t serial;  /* object.serial, which PipeWire never uses again */
    char target[128]; /* target.object in the metadata: what the user chose for it last, or "" */
    bool misled;      /* made to follow the default while this was it for want of another: to be given back */
};

struct recall {
    uint32_t instance; /* the cookie of their PipeWire */
    unsigned n;
    struct recall_stream streams[RECALL_STREAMS];
};

/* Reads the note of a node; an empty one if there is none or it is unusable. */
void recall_read(struct recall *ret, const char *node);
void recall_write(struct errands *e, const struct recall *r, const char *node);
/* Beyond RECALL_STREAMS it does nothing. */
void recall_add(struct recall *r, const struct recall_stream *s);
/* Whether the stream is among them, and as it was. */
bool recall_has(const struct recall *r, uint32_t instance, const struct recall_stream *s);
bool recall_same(const struct recall *a, const struct recall *b);

#endif
