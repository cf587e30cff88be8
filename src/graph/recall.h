/* recall.h - stores which streams record from a node, or play to it, so that the next process can restore them after a
 * crash or an upgrade.
 *
 * One file per node in $XDG_RUNTIME_DIR/primeknet, which is removed at logout, when PipeWire ends, too. If the file
 * cannot be read or written, no stream is restored. One thread at a time; not real-time safe. */
#ifndef PRIMEKNET_RECALL_H
#define PRIMEKNET_RECALL_H

#include "base/errands.h"

#include <stdbool.h>
#include <stdint.h>

enum { RECALL_STREAMS = 64 };

struct recall_stream {
    uint64_t serial;  /* object.serial, which PipeWire never uses again */
    char target[128]; /* target.object in the metadata: the user's last choice, or "" */
    bool misled;      /* pinned to the default only because this node was the only source: to be released */
};

struct recall {
    uint32_t instance; /* PipeWire's cookie */
    unsigned n;
    struct recall_stream streams[RECALL_STREAMS];
};

/* Reads a node's file. *ret is empty if the file is missing or invalid. */
void recall_read(struct recall *ret, const char *node);
void recall_write(struct errands *e, const struct recall *r, const char *node);
/* Adds a stream, unless there are RECALL_STREAMS already. */
void recall_add(struct recall *r, const struct recall_stream *s);
/* Whether r has the stream with the same values. */
bool recall_has(const struct recall *r, uint32_t instance, const struct recall_stream *s);
bool recall_same(const struct recall *a, const struct recall *b);

#endif
