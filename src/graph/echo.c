#include "config.h"

#include "graph/echo.h"

#include "base/text.h"
#include "graph/mirror.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODULE "libpipewire-module-echo-cancel"

static void on_destroy(void *data) {
    struct echo *const e = data;
    spa_hook_remove(&e->listener);
    e->module = NULL;
    e->changed(e->data);
}

static const struct pw_impl_module_events module_events = {
    PW_VERSION_IMPL_MODULE_EVENTS,
    .destroy = on_destroy,
};

/* A string of SPA's JSON. */
static void quote(char *ret, size_t size, const char *text) {
    size_t n = 0;
    ret[n++] = '"';
    for (; *text && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            ret[n++] = '\\';
        ret[n++] = *text;
    }
    ret[n++] = '"';
    ret[n] = '\0';
}

/* The network removes noise, and the microphone's level stays: echo is all that the engine is to remove. Passive
 * streams keep neither the microphone nor the output awake. */
static void print_arguments(const struct echo *e, const char *link_group, char *ret, size_t size) {
    char target[2 * sizeof e->target + 3], group[700];
    const bool mix = strcmp(e->channel, "MONO") == 0;
    quote(target, sizeof target, e->target);
    quote(group, sizeof group, link_group);
    snprintf(ret, size,
            "{ monitor.mode = true audio.rate = 48000 audio.position = [ %s ]"
            " aec.args = { webrtc.noise_suppression = false webrtc.gain_control = false"
            " webrtc.high_pass_filter = false }"
            " capture.props = { node.name = " ECHO_CAPTURE " node.description = \"Enhanced Mic's echo canceller\""
            " node.passive = true node.link-group = %s channelmix.normalize = true stream.dont-remix = %s %s%s }"
            " source.props = { node.name = " ECHO_SOURCE " media.class = Audio/Source/Internal }"
            " sink.props = { node.name = monitor." ECHO_SOURCE " node.passive = true } }",
            e->channel, group, mix ? "false" : "true", e->target[0] ? "target.object = " : "",
            e->target[0] ? target : "");
}

void echo_load(struct echo *e, struct pw_loop *loop, const char *target, const char *channel, const char *link_group) {
    char arguments[2048];
    text_copy(e->target, sizeof e->target, target);
    text_copy(e->channel, sizeof e->channel, channel);
    print_arguments(e, link_group, arguments, sizeof arguments);
    e->problem.text[0] = '\0';
    if (!e->context)
        e->context = pw_context_new(loop, pw_properties_new(PW_KEY_CONFIG_NAME, CLIENT_CONF, NULL), 0);
    if (e->context)
        e->module = pw_context_load_module(e->context, MODULE, arguments, NULL);
    if (e->module)
        pw_impl_module_add_listener(e->module, &e->listener, &module_events, e);
    else
        err_set(&e->problem, -errno,
                "PipeWire's echo canceller cannot be loaded (" MODULE ", aec/libspa-aec-webrtc): %s", strerror(errno));
}

void echo_unload(struct echo *e) {
    if (e->module) {
        spa_hook_remove(&e->listener);
        pw_impl_module_destroy(e->module);
        e->module = NULL;
    }
    if (e->context)
        pw_context_destroy(e->context);
    e->context = NULL;
    e->problem.text[0] = '\0';
}
