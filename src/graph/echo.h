/* echo.h - the echo canceller of a microphone's node: WebRTC's, through PipeWire's SPA plugin aec/libspa-aec-webrtc.
 * Loads the plugin when it is needed, and retries after a pause if that fails. PipeWire's module for this plugin
 * (libpipewire-module-echo-cancel) is unsuitable: before 1.6, each missed cycle permanently increases its delay.
 *
 * Threads: call everything on the node owner's thread; the plugin runs on the thread of canceller.h. */
#ifndef PRIMEKNET_ECHO_H
#define PRIMEKNET_ECHO_H

#include "base/err.h"
#include "graph/pipewire.h"
#include "live/canceller.h"

#include <spa/interfaces/audio/aec.h>

struct echo {
    /* Set by the owner. */
    void (*changed)(void *data); /* canceller, problem or the canceller's delay has changed outside a call */
    void *data;

    struct pw_loop *loop;
    struct pw_context *context;
    struct rt rt;
    struct spa_source *timer;   /* runs while there is a problem, and loads the plugin again */
    struct spa_source *delayed; /* an event: the canceller's delay has changed */
    unsigned pause_ms;          /* until the next attempt; doubles after each failure */
    struct spa_handle *handle;
    struct spa_audio_aec *aec;
    struct canceller *canceller; /* NULL: not loaded */
    struct err problem;          /* why the plugin could not be loaded, or "" */
};

/* rt creates the canceller's thread. The loop owns the timer and the event. Returns 0 or -errno. */
int echo_init(struct echo *e, struct pw_loop *loop, struct pw_context *context, const struct rt *rt);

/* Loads the plugin. On failure, `problem` says why until a later attempt succeeds. */
void echo_load(struct echo *e);
/* Unloads the plugin, if it is loaded. Nothing may use the canceller any more. */
void echo_unload(struct echo *e);

#endif
