/* A daemon whose source freezes for good when the file $FREEZE appears, as PipeWire may freeze one: no trigger reaches
 * it any more, until it is destroyed. The file is then removed. */
#include "graph/pipewire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic(struct pw_stream *) frozen;

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
    __real_pw_stream_destroy(stream);
}
