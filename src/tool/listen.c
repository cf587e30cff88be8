#include "config.h"

#include "tool/listen.h"

#include <errno.h>

#ifdef HAVE_DAEMON

#include "base/rttime.h"
#include "graph/pipewire.h"
#include "graph/survey.h"

#include <stdlib.h>

/* dont-reconnect: when Enhanced Mic disappears the loopback ends, instead of playing another microphone. */
static const char arguments[] =
    "{ node.description = \"Listening to Enhanced Mic\" node.latency = 256/48000 audio.position = [ MONO ]"
    "  capture.props = { node.name = listen.enhanced_mic target.object = enhanced_mic node.dont-reconnect = true }"
    "  playback.props = { node.name = listen.output media.role = Music } }";

struct listen {
    struct pw_thread_loop *loop;
    struct pw_context *context;
};

/* Fails if Enhanced Mic is missing; PipeWire would then play another microphone. */
static int find_enhanced(struct err *err) {
    struct survey *d;
    int res = survey_open(&d, err);
    if (res)
        return res;
    if (!survey_find(d, "enhanced_mic"))
        res = err_set(err, -ENOENT, "Enhanced Mic is missing; primeknet doctor says why");
    survey_close(d);
    return res;
}

int listen_open(struct listen **ret, struct err *err) {
    int res = find_enhanced(err);
    if (res)
        return res;
    struct listen *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(err, -ENOMEM, "out of memory");
    pw_init(NULL, NULL);
    res = err_set(err, -EIO, "PipeWire's loopback did not start");
    l->loop = pw_thread_loop_new("listen", NULL);
    if (l->loop)
        l->context = pw_context_new(pw_thread_loop_get_loop(l->loop),
                                    pw_properties_new(PW_KEY_CONFIG_NAME, CLIENT_CONF, NULL), 0);
    rttime_check();
    if (!l->context || !pw_context_load_module(l->context, "libpipewire-module-loopback", arguments, NULL) ||
        pw_thread_loop_start(l->loop) < 0) {
        listen_close(l);
        return res;
    }
    *ret = l;
    return 0;
}

void listen_close(struct listen *l) {
    if (!l)
        return;
    if (l->loop)
        pw_thread_loop_stop(l->loop);
    if (l->context)
        pw_context_destroy(l->context);
    if (l->loop)
        pw_thread_loop_destroy(l->loop);
    free(l);
    pw_deinit();
}

#else

int listen_open(struct listen **ret, struct err *err) {
    (void)ret;
    return err_set(err, -ENOTSUP, "this primeknet was built without PipeWire, so it cannot play Enhanced Mic");
}

void listen_close(struct listen *l) {
    (void)l;
}

#endif
