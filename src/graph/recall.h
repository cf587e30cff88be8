/* recall.h - who records from a node of this program, or plays to it, noted outside of the process, so that the next
 * one, after a crash or an upgrade, can bring them back.
 *
 * One file a node in $XDG_RUNTIME_DIR/primeknet, which ends with the login, as PipeWire does. Nothing depends on it:
 * where it cannot be read or written nobody is brought back. Any one thread; not real-time safe. */
#ifndef PRIMEKNET_RECALL_H
#define PRIMEKNET_RECALL_H

#include <stdbool.h>
#include <stdint.h>

enum { RECALL_STREAMS = 64 };

struct recall_stream {
    uint64_t serial;  /* object.serial, which no other object of this PipeWire ever has */
    char target[128]; /* the metadata target.object: what people chose for it last, or "" */
};

struct recall {
    uint32_t instance; /* the cookie of the PipeWire that they belong to */
    unsigned n;
    struct recall_stream streams[RECALL_STREAMS];
};

/* What was noted of that node last, or nothing. */
void recall_read(struct recall *ret, const char *node);
void recall_write(const struct recall *r, const char *node);
/* Further ones than RECALL_STREAMS are left out. */
void recall_add(struct recall *r, const struct recall_stream *s);
/* Whether the stream is among them, and nobody has chosen otherwise for it since. */
bool recall_has(const struct recall *r, uint32_t instance, const struct recall_stream *s);
bool recall_same(const struct recall *a, const struct recall *b);

#endif
