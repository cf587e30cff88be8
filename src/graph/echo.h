/* echo.h - PipeWire's echo canceller (libpipewire-module-echo-cancel with its WebRTC engine) between the microphone and
 * a node's capture stream: what the outputs play is removed from what the microphone hears.
 *
 *   microphone -> ECHO_CAPTURE -> module -> ECHO_SOURCE -> the node's capture stream
 *   played's monitor -----------^
 *
 * The module has a context of its own, thus a connection and a data loop of its own: it shares nothing with the node's
 * streams. Applications do not see its source. One thread, the node owner's. */
#ifndef PRIMEKNET_ECHO_H
#define PRIMEKNET_ECHO_H

#include "base/err.h"
#include "graph/pipewire.h"

#include <stdbool.h>
#include <stdint.h>

struct echo {
    /* Set by the owner. */
    void (*changed)(void *data); /* module or problem has changed by itself */
    void *data;

    struct pw_loop *loop;
    struct spa_source *timer; /* runs while there is a problem: then it is loaded again */
    unsigned pause_ms;        /* before that; it doubles while it fails again and again */
    struct pw_context *context;
    struct pw_impl_module *module; /* NULL: not loaded */
    struct spa_hook listener;
    int64_t loaded_ms;
    char target[256], channel[16], played[256], link_group[320]; /* what it was loaded for */
    unsigned block;     /* samples at 48 kHz that it takes at a time */
    struct err problem; /* why it is not loaded, though it should be; or "" */
};

int echo_init(struct echo *e, struct pw_loop *loop);
void echo_done(struct echo *e);

/* Loads it, in place of one that is loaded. target and channel: as streams_open_capture takes them; played: the output
 * whose sound is the echo, or "": the default; link_group: of the node, to whose source it is not to be linked;
 * quantum: of the graph, in samples at 48 kHz, or 0. Where it cannot be loaded, and when it goes by itself, problem
 * says why, until it is loaded again. */
void echo_load(struct echo *e, const char *target, const char *channel, const char *played, const char *link_group,
        unsigned quantum);
void echo_unload(struct echo *e); /* fine where it is not loaded */

/* Whether it keeps up with that quantum. If not, it is to be loaded for it. */
bool echo_takes(const struct echo *e, unsigned quantum);
/* The samples at 48 kHz by which it delays the microphone, at least (PipeWire 1: give or take three quanta); 0 where it
 * is not loaded. After each cycle that it misses it is a quantum more, until nobody has recorded for a moment. */
unsigned echo_delay(const struct echo *e, unsigned quantum);

#endif
