#include "config.h"

#include "graph/echo.h"

#include "base/clock.h"
#include "base/text.h"
#include "graph/mirror.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MODULE "libpipewire-module-echo-cancel"

enum {
    RATE = 48000,
    BLOCK = 480,          /* the engine takes multiples of it */
    /* Samples that WebRTC's engine takes and quanta that the module takes above what follows from its blocks, measured:
     * of PipeWire 1.4 with WebRTC 1.3, where they differ from start to start, and of 0.3.65 with 0.3. */
#if PW_CHECK_VERSION(1, 0, 0)
    ENGINE_DELAY = 974,
    MORE_QUANTA = 1,
#else
    ENGINE_DELAY = 382,
    MORE_QUANTA = 0,
#endif
    PAUSE_MS = 1000,      /* after a failure, doubled from here ... */
    PAUSE_MAX_MS = 64000, /* ... to here, unless it had run for ... */
    STEADY_MS = 10000,    /* ... so long */
};

/* Notes a failure; the module is loaded again after a pause. */
static void fail(struct echo *e, int error, const char *what, bool had_run) {
    const unsigned doubled = e->pause_ms < PAUSE_MAX_MS ? 2 * e->pause_ms : PAUSE_MAX_MS;
    e->pause_ms = doubled && !had_run ? doubled : PAUSE_MS;
    struct timespec in = {.tv_sec = e->pause_ms / 1000};
    pw_loop_update_timer(e->loop, e->timer, &in, NULL, false);
    err_set(&e->problem, -error, "PipeWire's echo canceller %s (" MODULE ", aec/libspa-aec-webrtc)%s%s, and is loaded "
            "again after %u s", what, error ? ": " : "", error ? strerror(error) : "", e->pause_ms / 1000);
}

static void on_destroy(void *data) {
    struct echo *const e = data;
    spa_hook_remove(&e->listener);
    e->module = NULL;
    fail(e, 0, "has ended", now_ms() - e->loaded_ms > STEADY_MS);
    e->changed(e->data);
}

static const struct pw_impl_module_events module_events = {
    PW_VERSION_IMPL_MODULE_EVENTS,
    .destroy = on_destroy,
};

/* The network removes noise, and the microphone's level stays: echo is all that the engine is to remove. Passive
 * streams keep neither the microphone nor the output awake. NULL: no memory. */
static char *print_arguments(const struct echo *e) {
    const bool mix = strcmp(e->channel, "MONO") == 0;
    json_t *const capture = json_pack("{s:s, s:s, s:b, s:s, s:b, s:b, s:s*}", "node.name", ECHO_CAPTURE,
            "node.description", "Enhanced Mic's echo canceller", "node.passive", true, "node.link-group", e->link_group,
            "channelmix.normalize", true, "stream.dont-remix", !mix, "target.object", e->target[0] ? e->target : NULL);
    json_t *const all = json_pack("{s:b, s:i, s:[s], s:o, s:{s:b, s:b, s:b}, s:o, s:{s:s, s:s}, s:{s:s, s:b, s:s*}}",
            "monitor.mode", true, "audio.rate", RATE, "audio.position", e->channel,
            "node.latency", json_sprintf("%u/%u", e->block, RATE),
            "aec.args", "webrtc.noise_suppression", false, "webrtc.gain_control", false,
            "webrtc.high_pass_filter", false,
            "capture.props", capture,
            "source.props", "node.name", ECHO_SOURCE, "media.class", "Audio/Source/Internal",
            "sink.props", "node.name", "monitor." ECHO_SOURCE, "node.passive", true,
            "target.object", e->played[0] ? e->played : NULL);
    char *const text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

/* The module and its connection. */
static void release(struct echo *e) {
    if (e->module) {
        spa_hook_remove(&e->listener);
        pw_impl_module_destroy(e->module);
        e->module = NULL;
    }
    if (e->context)
        pw_context_destroy(e->context);
    e->context = NULL;
}

static void load(struct echo *e) {
    release(e);
    e->problem.text[0] = '\0';
    e->context = pw_context_new(e->loop, pw_properties_new(PW_KEY_CONFIG_NAME, CLIENT_CONF, NULL), 0);
    char *const arguments = e->context ? print_arguments(e) : NULL;
    if (arguments)
        e->module = pw_context_load_module(e->context, MODULE, arguments, NULL);
    const int error = e->module ? 0 : errno;
    free(arguments);
    e->loaded_ms = now_ms();
    if (e->module)
        pw_impl_module_add_listener(e->module, &e->listener, &module_events, e);
    else
        fail(e, error, "cannot be loaded", false);
}

static void on_pause_end(void *data, uint64_t expirations) {
    (void)expirations;
    struct echo *const e = data;
    load(e);
    e->changed(e->data);
}

int echo_init(struct echo *e, struct pw_loop *loop) {
    e->loop = loop;
    e->timer = pw_loop_add_timer(loop, on_pause_end, e);
    return e->timer ? 0 : -errno;
}

void echo_done(struct echo *e) {
    if (!e->timer)
        return;
    release(e);
    pw_loop_destroy_source(e->loop, e->timer);
    e->timer = NULL;
}

void echo_load(struct echo *e, const char *target, const char *channel, const char *played,
        const char *link_group, unsigned quantum) {
    text_copy(e->target, sizeof e->target, target);
    text_copy(e->channel, sizeof e->channel, channel);
    text_copy(e->played, sizeof e->played, played);
    text_copy(e->link_group, sizeof e->link_group, link_group);
    e->block = quantum ? (quantum + BLOCK - 1) / BLOCK * BLOCK : BLOCK;
    load(e);
}

void echo_unload(struct echo *e) {
    release(e);
    pw_loop_update_timer(e->loop, e->timer, NULL, NULL, false);
    e->pause_ms = 0;
    e->problem.text[0] = '\0';
}

bool echo_takes(const struct echo *e, unsigned quantum) {
    return quantum <= e->block;
}

/* The module takes whole blocks and its source gives whole quanta, so that samples wait on both sides: as many quanta
 * as hold what may be left of a block, and the quantum that the source gives before the next one comes. */
unsigned echo_delay(const struct echo *e, unsigned quantum) {
    if (!e->module)
        return 0;
    const unsigned q = quantum ? quantum : e->block;
    unsigned common = e->block;
    for (unsigned rest = q, next; rest; common = rest, rest = next)
        next = common % rest;
    return ENGINE_DELAY + MORE_QUANTA * q + (e->block - common + 2 * q - 1) / q * q;
}
