/* A daemon whose streams fail like faulty PipeWire streams, until they are destroyed. When the file $FREEZE appears,
 * the source freezes: triggers no longer reach it. When $DEAFEN appears, the capture stream receives digital silence.
 * The program then removes the file. */
#include "graph/pipewire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic(struct pw_stream *) frozen, deaf;

int __real_pw_stream_trigger_process(struct pw_stream *stream);
int __wrap_pw_stream_trigger_process(struct pw_stream *stream);
int __wrap_pw_stream_trigger_process(struct pw_stream *stream) {
    if (unlink(getenv("FREEZE")) == 0)
        frozen = stream;
    return frozen == stream ? 0 : __real_pw_stream_trigger_process(stream);
}

void __real_pw_stream_destroy(struct pw_stream *stream);
void __wrap_pw_stream_destroy(struct pw_stream *stream);
void __wrap_pw_stream_destroy(struct pw_stream *stream) {
    if (frozen == stream)
        frozen = NULL;
    if (deaf == stream)
        deaf = NULL;
    __real_pw_stream_destroy(stream);
}

struct pw_buffer *__real_pw_stream_dequeue_buffer(struct pw_stream *stream);
struct pw_buffer *__wrap_pw_stream_dequeue_buffer(struct pw_stream *stream);
struct pw_buffer *__wrap_pw_stream_dequeue_buffer(struct pw_stream *stream) {
    struct pw_buffer *const b = __real_pw_stream_dequeue_buffer(stream);
    const char *const name = pw_properties_get(pw_stream_get_properties(stream), PW_KEY_NODE_NAME);
    if (!b || strcmp(name, "capture.enhanced_mic") != 0)
        return b;
    if (unlink(getenv("DEAFEN")) == 0)
        deaf = stream;
    struct spa_data *const d = &b->buffer->datas[0];
    if (deaf == stream)
        memset(SPA_PTROFF(d->data, d->chunk->offset, void), 0, d->chunk->size);
    return b;
}
