/* echo.h - PipeWire's echo canceller (libpipewire-module-echo-cancel with its WebRTC engine) between the microphone and
 * a node's capture stream: what the outputs play is removed from what the microphone hears.
 *
 *   microphone -> ECHO_CAPTURE -> module -> ECHO_SOURCE -> the node's capture stream
 *   default output's monitor -------^
 *
 * The module has a context of its own, thus a connection and a data loop of its own: it shares nothing with the node's
 * streams. Applications do not see its source. One thread, the node owner's. */
#ifndef PRIMEKNET_ECHO_H
#define PRIMEKNET_ECHO_H

#include "base/err.h"
#include "graph/pipewire.h"

#include <stdbool.h>

struct echo {
    void (*changed)(void *data); /* the module went by itself, as PipeWire did */
    void *data;
    struct pw_context *context;
    struct pw_impl_module *module; /* NULL: not loaded */
    struct spa_hook listener;
    char target[256], channel[16]; /* what it was loaded for */
    struct err problem;            /* why it could not be loaded last, or "" */
};

/* Loads it. target and channel: as streams_open_capture takes them; link_group: of the node, to whose source it is not
 * to be linked. Where it cannot be loaded, problem says why. */
void echo_load(struct echo *e, struct pw_loop *loop, const char *target, const char *channel, const char *link_group);
void echo_unload(struct echo *e); /* fine where it is not loaded */

#endif
