/* echo.h - the echo canceller of a microphone's node: WebRTC's, from PipeWire's SPA plugin aec/libspa-aec-webrtc. The
 * plugin is loaded when it is wanted; where that fails, it is tried again after a pause. PipeWire's own module around
 * it (libpipewire-module-echo-cancel) is not used: before 1.6 its delay grows with each cycle that is missed, for good.
 *
 * Threads: one, the node owner's; the plugin then runs on canceller.h's. */
#ifndef PRIMEKNET_ECHO_H
#define PRIMEKNET_ECHO_H

#include "base/err.h"
#include "graph/pipewire.h"
#include "live/canceller.h"

#include <spa/interfaces/audio/aec.h>

struct echo {
    /* Set by the owner. */
    void (*changed)(void *data); /* canceller, problem or the canceller's delay has changed by itself */
    void *data;

    struct pw_loop *loop;
    struct pw_context *context;
    struct rt rt;
    struct spa_source *timer;   /* runs while there is a problem: then it is loaded again */
    struct spa_source *delayed; /* an event: the canceller's delay has changed */
    unsigned pause_ms;          /* before that; it doubles while it fails again and again */
    struct spa_handle *handle;
    struct spa_audio_aec *aec;
    struct canceller *canceller; /* NULL: not loaded */
    struct err problem;          /* why it is not loaded, though it should be; or "" */
};

/* rt makes the canceller's thread. The loop keeps the timer and the event. -errno. */
int echo_init(struct echo *e, struct pw_loop *loop, struct pw_context *context, const struct rt *rt);

/* Loads it. Where that fails, problem says why, until it is loaded after all. */
void echo_load(struct echo *e);
/* Nobody uses the canceller any more. Fine where it is not loaded. */
void echo_unload(struct echo *e);

#endif
