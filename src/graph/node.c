#include "config.h"

#include "graph/node.h"

#include "base/busfault.h"
#include "base/rttime.h"
#include "graph/choices.h"
#include "graph/node_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECONNECT_FIRST_MS 100 /* the pause between attempts to reach PipeWire; doubles from here ... */
#define RECONNECT_MAX_MS 2000  /* ... to here */
#define ANSWER_MS 5000         /* a connection that PipeWire has not served for this long is closed */

static void start_timer(struct node *n, struct spa_source *timer, unsigned ms) {
    struct timespec in = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    pw_loop_update_timer(n->loop, timer, &in, NULL, false);
}

static unsigned doubled(unsigned ms, unsigned most) {
    return 2 * ms < most ? 2 * ms : most;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void repair_later(struct node *n) {
    n->repair.waiting = true;
    start_timer(n, n->repair.timer, n->repair.pause_ms);
    n->repair.pause_ms = doubled(n->repair.pause_ms, RECONNECT_MAX_MS);
}

static void open_anew(struct node *n) {
    streams_close(&n->streams);
    repair_later(n);
    n->stale = true;
}

static void end_use(struct node *n) {
    n->lingered = true;
}

static void close_capture(struct node *n) {
    streams_close_capture(&n->streams);
}

static void ask_anew(struct node *n) {
    n->registry.mirror.ask_anew = true;
}

static void end_fade(struct node *n) {
    n->fade = FADE_DONE;
}

/* Time limits: first_ms, doubled each time, at most most_ms. When one expires, `over` acts, and the node reconciles. */
static const struct wait_row {
    unsigned first_ms, most_ms;
    void (*over)(struct node *n);
} wait_rows[N_WAITS] = {
    [UNUSED] = {2000, 2000, end_use},           /* the capture stream without a recorder, because one may return */
    [FORGOTTEN] = {2000, 80000, close_capture}, /* the session manager does not link the capture stream */
    [IN_VAIN] = {200, 16000, ask_anew},         /* a stream that should be linked is not */
    [LINK_FAILED] = {300, 80000, open_anew},    /* PipeWire could not set up a link of the visible stream */
    [STREAM_FAILED] = {300, 80000, open_anew},  /* PipeWire could not start a stream */
    [DEAF] = {RECONNECT_FIRST_MS, RECONNECT_MAX_MS, NULL}, /* a part of the graph could not be read */
    [MUTED] = {400, 400, end_fade}, /* the fade before another microphone: two of the longest quanta */
};

static void on_wait(void *data, uint64_t expirations) {
    (void)expirations;
    struct wait *const w = data;
    struct node *const n = w->node;
    const struct wait_row *const row = &wait_rows[w - n->waits];
    w->runs = false;
    w->ms = doubled(w->ms, row->most_ms);
    n->stale = true;
    if (row->over)
        row->over(n);
}

/* Starts or stops a timer. renews: resets its time to the first one. */
static void set_wait(struct node *n, enum wait_for what, bool runs, bool renews) {
    struct wait *const w = &n->waits[what];
    if (renews)
        w->ms = wait_rows[what].first_ms;
    if (runs != w->runs)
        start_timer(n, w->timer, runs ? w->ms : 0); /* 0 stops it */
    w->runs = runs;
}

/* ---- following the graph ----------------------------------------------------------------------------------------- */

static struct canceller *canceller(const struct node *n) {
    return n->wants_echo ? n->echo.canceller : NULL;
}

/* Another target requires another stream, even if its microphone is linked already. WirePlumber 0.4 reads a stream's
 * target.object only when the stream appears: if the property changes later, the next default still moves the stream.
 * WirePlumber obeys its metadata, but stores that target for all streams with this media.role, those of other programs
 * too, and restores it when the default is to be used again. */
static bool is_wrong(const struct node *n) {
    const struct wishes *const w = &n->wishes;
    const struct streams *const s = &n->streams;
    if (n->kind == NODE_SPEAKER || !s->capture)
        return false;
    return strcmp(s->target, w->target) != 0 || s->canceller != canceller(n) ||
           (w->microphone != MIRROR_NONE && (strcmp(s->channel, w->channel) != 0 || s->n_inputs != w->n_inputs));
}

static bool is_unused(const struct node *n) {
    return n->streams.capture && !n->wishes.needed;
}

/* A recorder may arrive in the same dispatch in which the time expires. */
static void watch_use(struct node *n) {
    if (n->lingered && is_unused(n)) {
        streams_close_capture(&n->streams);
        stall_forget(&n->stall);
        stall_forget(&n->silence);
        set_wait(n, LINK_FAILED, false, true);
        set_wait(n, STREAM_FAILED, false, true);
    }
    n->lingered = false;
    set_wait(n, UNUSED, is_unused(n), true);
}

/* A microphone sends at least noise, except those muted in hardware, and a few that start with zeros. */
static void watch_silence(struct node *n) {
    const bool watched = n->stall.watched && n->kind != NODE_SPEAKER && !streams_sound(&n->streams) &&
                         !node_silenced(n);
    stall_watch(&n->silence, watched, 0, 0);
    if (streams_sound(&n->streams))
        stall_forget(&n->silence);
}

static void watch_sound(struct node *n) {
    const bool watched = n->wishes.n_consumers && n->wishes.microphone != MIRROR_NONE && n->streams.capture;
    const bool was = n->stall.watched;
    n->dirty |= stall_watch(&n->stall, watched, streams_blocks(&n->streams), streams_cycles(&n->streams));
    struct timespec tick = {.tv_nsec = watched ? STALL_TICK_MS * 1000000L : 0};
    if (watched != was)
        pw_loop_update_timer(n->loop, n->stall_timer, &tick, &tick, false);
    watch_silence(n);
}

/* After a microphone is gone, PipeWire before 1.0.4 may give its memory to this connection's new streams: recorders
 * would hear silence, or memory beyond its end would be replaced (base/busfault.h). So the node reconnects as soon as
 * nobody records. */
static void watch_driver(struct node *n) {
    const struct mirror *const m = &n->registry.mirror;
    const struct mirror_node *const microphone = mirror_node(m, n->wishes.microphone);
    if (n->driver && !mirror_serial(m, n->driver)) {
        n->driver = 0;
        n->stale_memory = strverscmp(pw_get_library_version(), "1.0.4") < 0;
    }
    if (microphone && n->streams.capture)
        n->driver = microphone->serial;
    n->broken |= n->stale_memory && n->registry.core && !n->streams.capture && !n->wishes.needed;
}

/* Keeps the capture stream open only while somebody records, because desktops then show that the microphone is in use.
 * To change the microphone, the channel or echo cancellation, fades the input out, then reopens the stream with the
 * latest wishes. */
static int follow_capture(struct node *n) {
    const struct wishes *const w = &n->wishes;
    const bool loaded = n->echo.canceller || n->echo.problem.text[0]; /* or tried in vain */
    if (n->wants_echo && !loaded)
        echo_load(&n->echo);
    if (!n->wants_echo && !n->streams.canceller && loaded)
        echo_unload(&n->echo);
    if (n->fade == FADE_DONE) {
        n->fade = FADE_NONE;
        if (is_wrong(n))
            streams_close_capture(&n->streams);
        pump_mute(n->pump, false); /* the next sound fades in */
    }
    if (!w->capture)
        streams_close_capture(&n->streams);
    else if (!n->streams.capture && w->needed && n->registry.core && !n->repair.waiting)
        return streams_open_capture(&n->streams, n->registry.core, w->target, w->channel, w->n_inputs, canceller(n));
    if (is_wrong(n) && n->fade == FADE_NONE) {
        n->fade = FADE_OUT;
        pump_mute(n->pump, true);
        set_wait(n, MUTED, true, true);
    }
    return 0;
}

/* Whether applications see the node, and get the right sound. */
static bool is_complete(const struct node *n) {
    const struct mirror *const m = &n->registry.mirror;
    const enum mirror_role role = n->kind == NODE_SPEAKER ? ROLE_OUTPUT : ROLE_MICROPHONE;
    const bool linked = n->wishes.microphone != MIRROR_NONE || !n->wishes.capture || !n->wishes.needed;
    return m->complete && mirror_node(m, mirror_visible(m)) && (linked || !mirror_has_role(m, role));
}

/* Computes the wishes from the mirror and carries them out. */
static int follow_graph(struct node *n) {
    struct mirror *const m = &n->registry.mirror;
    const struct wishes *const w = &n->wishes;
    bool hears;
    n->stale = false;
    m->own.microphone = n->microphone;
    m->own.channel = n->channel;
    m->own.capture = streams_capture_id(&n->streams);
    m->own.source = streams_source_id(&n->streams);
    m->own.target = n->streams.target;
    do {
        reconcile(m, &n->wishes);
        hears = registry_follow(&n->registry, w);
        if (w->noted)
            recall_write(n->errands, &m->noted, n->name);
        if (w->chosen)
            choices_write(n->errands, m->choices);
    } while (w->more);
    streams_set_consumers(&n->streams, w->n_consumers);
    streams_set_quiet(&n->streams, w->quiet);
    streams_set_pacing(&n->streams, w->pacing);
    if (w->title[0] && strcmp(w->title, n->title) != 0) {
        memcpy(n->title, w->title, sizeof n->title);
        streams_set_title(&n->streams);
    }
    n->settled |= is_complete(n);
    watch_use(n);
    set_wait(n, FORGOTTEN, w->forgotten, w->microphone != MIRROR_NONE || w->quiet || !n->streams.capture);
    set_wait(n, IN_VAIN, w->in_vain, !w->in_vain);
    set_wait(n, LINK_FAILED, w->link_failed, false);
    set_wait(n, STREAM_FAILED, w->stream_failed, !w->stream_failed && n->stall.passes);
    set_wait(n, DEAF, !hears, hears);
    watch_sound(n);
    watch_driver(n);
    int r = follow_capture(n);
    if (r >= 0 && !n->repair.waiting)
        r = streams_follow_played(&n->streams, n->registry.core, w->played);
    streams_publish(&n->streams);
    return r;
}

static void on_graph_changed(void *data) {
    struct node *const n = data;
    n->stale = true;
}

/* For calls outside a dispatch. Leaves failures and changes to the next dispatch, which it triggers. */
static void follow_now(struct node *n) {
    n->broken |= follow_graph(n) < 0;
    pw_loop_signal_event(n->loop, n->asked);
}

static void on_asked(void *data, uint64_t count) {
    (void)count;
    struct node *const n = data;
    n->dirty = true;
}

static void on_streams_changed(void *data) {
    struct node *const n = data;
    struct pw_stream *const visible = streams_visible(&n->streams);
    n->stale = true;
    if (visible && pw_stream_get_state(visible, NULL) == PW_STREAM_STATE_STREAMING)
        n->repair.pause_ms = RECONNECT_FIRST_MS;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void on_lost(void *data) {
    struct node *const n = data;
    n->broken = true;
}

static void on_frozen(void *data, uint64_t count) {
    (void)count;
    on_lost(data);
}

static void take_down(struct node *n) {
    streams_close(&n->streams);
    registry_disconnect(&n->registry);
    follow_graph(n);
    n->driver = 0;
    n->broken = n->stale_memory = false;
    n->dirty = true;
}

/* Opens what is missing. */
static int put_up(struct node *n) {
    int r = 0;
    if (!n->registry.core) {
        n->n_faults = busfault_count();
        r = registry_connect(&n->registry);
        if (r >= 0)
            n->repair.pause_ms = RECONNECT_FIRST_MS;
    }
    if (r >= 0 && !n->streams.source)
        r = streams_open_source(&n->streams, n->registry.core, n->microphone ? n->microphone : "");
    if (r >= 0 && !n->streams.pacer)
        r = streams_open_pacer(&n->streams, n->registry.core);
    if (r >= 0)
        r = follow_graph(n);
    if (r < 0)
        return r;
    if (!n->registry.mirror.complete)
        start_timer(n, n->repair.timer, ANSWER_MS);
    n->stale = n->dirty = true;
    return 0;
}

/* Only flushes a speaker whose streams run: the node cannot know whether its graph runs, and reopening them would
 * disconnect its players. */
static void on_stall_tick(void *data, uint64_t expirations) {
    (void)expirations;
    struct node *const n = data;
    const bool passed = n->stall.passes;
    const enum stall_action action = stall_tick(&n->stall, streams_blocks(&n->streams), streams_cycles(&n->streams));
    if (action == STALL_REOPEN && (n->kind != NODE_SPEAKER || !streams_run(&n->streams)))
        open_anew(n);
    else if (action != STALL_WAIT)
        streams_flush(&n->streams);
    n->dirty |= action != STALL_WAIT || n->stall.passes != passed;
    n->broken |= n->n_faults != busfault_count(); /* of stale memory, which a new connection does not have */
    watch_silence(n);
    /* Reopens the capture stream, whose link PipeWire may have set up wrongly. */
    if (n->silence.watched && stall_tick(&n->silence, 0, 0) != STALL_WAIT) {
        streams_close_capture(&n->streams);
        n->stale = true;
    }
}

static void repair(struct node *n) {
    n->repair.waiting = false;
    if (put_up(n) < 0) {
        take_down(n);
        repair_later(n);
    }
}

static void on_repair(void *data, uint64_t expirations) {
    (void)expirations;
    struct node *const n = data;
    n->settled = n->dirty = true;
    if (n->repair.waiting)
        repair(n);
    else if (!n->registry.mirror.complete) /* the connection was accepted but never served */
        n->broken = true;
}

int node_dispatch(struct node *n) {
    const int r = pw_loop_iterate(n->loop, 0);
    if (r < 0 && r != -EINTR)
        return r;
    rttime_check(); /* a stream may begin */
    if (n->stale) {
        n->dirty = true; /* the list of microphones may have changed, too */
        n->broken |= follow_graph(n) < 0;
    }
    /* Reopens, after a pause, a stream that a user has destroyed or PipeWire has removed; the others continue. */
    if (streams_close_lost(&n->streams, n->wishes.microphone == MIRROR_NONE)) {
        repair_later(n);
        n->stale = true;
    }
    if (n->broken) {
        take_down(n);
        repair(n);
    }
    if (n->dirty) {
        n->dirty = false;
        if (n->changed)
            n->changed(n->data);
    }
    return 0;
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

static void on_pump(void *data, int fd, uint32_t mask) {
    (void)fd, (void)mask;
    struct node *const n = data;
    pump_dispatch(n->pump);
    streams_publish(&n->streams);
    n->dirty = true;
}

static char *copy(const char *text) {
    return text && *text ? strdup(text) : NULL;
}

static int set_microphone(struct node *n, const char *microphone, const char *channel, struct err *err) {
    struct channel chosen;
    if (!channel_parse(&chosen, channel))
        return err_set(
            err, -EINVAL,
            "channel \"%s\" is neither mix, nor a number from 1 to %d, nor a channel's name (FL, FR, AUX0...)", channel,
            CHANNEL_GREATEST);
    free(n->microphone);
    n->microphone = copy(microphone);
    n->channel = chosen;
    return 0;
}

static void set_parts(struct node *n, const struct node_options *options) {
    n->params = (struct params){.strength = 1,
                                .least = (float)options->strength_least,
                                .greatest = (float)options->strength_greatest,
                                .controls = options->controls,
                                .data = options->data};
    n->streams = (struct streams){
        .kind = n->kind,
        .name = n->name,
        .title = n->title,
        .params = &n->params,
        .changed = on_streams_changed,
        .data = n,
        .loop.position = UINT64_MAX,
    };
    n->echo = (struct echo){.changed = on_graph_changed, .data = n};
    n->registry = (struct registry){
        .changed = on_graph_changed,
        .lost = on_lost,
        .data = n,
        .mirror.own = {.kind = n->kind, .name = n->name, .capture = MIRROR_NONE, .source = MIRROR_NONE},
    };
    registry_init(&n->registry);
    recall_read(&n->registry.mirror.noted, n->name);
    if (n->kind == NODE_MIC)
        n->registry.mirror.choices = choices_read();
}

static int open_pump(struct node *n, const struct node_options *options, struct err *err) {
    const struct rt rt = threads_rt(&n->threads);
    const struct worker_options worker_options = {
        .rt = &rt,
        .engine = options->engine,
        .hop_p99_us = options->hop_p99_us,
        .release = options->release,
        .data = options->data,
    };
    int r = options->worker ? 0 : worker_open(&n->own_worker, &worker_options);
    n->worker = options->worker ? options->worker : n->own_worker;
    if (r == 0)
        r = pump_open(&n->pump, n->worker);
    if (r < 0)
        return err_set(err, r, "the pump does not start: %s", strerror(-r));
    n->streams.pump = n->pump;
    n->pump_source = pw_loop_add_io(n->loop, pump_fd(n->pump), SPA_IO_IN, false, on_pump, n);
    return n->pump_source ? 0 : err_set(err, -EIO, "the pump cannot be watched: %s", strerror(errno));
}

/* Starts PipeWire's client library: this thread's loop, the context, the data loop, timers. */
static int open_library(struct node *n, struct err *err) {
    n->loop = pw_loop_new(NULL);
    if (!n->loop)
        return err_set(err, -EIO, "PipeWire's client library does not start: %s", strerror(errno));
    pw_loop_enter(n->loop);
    n->context = pw_context_new(n->loop, pw_properties_new(PW_KEY_CONFIG_NAME, CLIENT_CONF, AS_MANAGER, NULL), 0);
    rttime_check();
    n->threads.data_loop = n->context ? pw_context_get_data_loop(n->context) : NULL;
    if (!n->threads.data_loop)
        return err_set(err, -EIO, "PipeWire's client library does not start with its %s: %s", CLIENT_CONF,
                       n->context ? "context.num-data-loops is 0" : strerror(errno));
    n->threads.utils = pw_context_get_object(n->context, SPA_TYPE_INTERFACE_ThreadUtils);
    if (!n->threads.utils)
        n->threads.utils = pw_thread_utils_get();
    n->streams.data_loop = n->threads.data_loop;
    n->streams.owner_loop = n->loop;
    n->streams.frozen = pw_loop_add_event(n->loop, on_frozen, n);
    n->registry.context = n->context;
    n->repair.timer = pw_loop_add_timer(n->loop, on_repair, n);
    n->asked = pw_loop_add_event(n->loop, on_asked, n);
    n->stall_timer = pw_loop_add_timer(n->loop, on_stall_tick, n);
    bool ok = n->streams.frozen && n->repair.timer && n->asked && n->stall_timer;
    for (unsigned i = 0; i < N_WAITS; i++) {
        struct wait *const w = &n->waits[i];
        *w = (struct wait){.node = n, .timer = pw_loop_add_timer(n->loop, on_wait, w), .ms = wait_rows[i].first_ms};
        ok &= w->timer != NULL;
    }
    const struct rt rt = threads_rt(&n->threads);
    if (echo_init(&n->echo, n->loop, n->context, &rt) < 0 || !ok)
        return err_set(err, -EIO, "PipeWire's client library gives no timers or events: %s", strerror(errno));
    return 0;
}

int node_open(struct node **ret, const struct node_options *options, struct err *err) {
    pw_init(NULL, NULL);
    struct node *const n = calloc(1, sizeof *n);
    if (!n) {
        if (!options->worker)
            options->release(options->data, options->engine);
        return err_set(err, -ENOMEM, "PipeWire node: out of memory");
    }
    n->kind = options->kind;
    n->changed = options->changed;
    n->data = options->data;
    n->errands = options->errands;
    n->repair.pause_ms = RECONNECT_FIRST_MS;
    const bool speaker = n->kind == NODE_SPEAKER, more = n->kind == NODE_MORE_MIC;
    snprintf(n->name, sizeof n->name, "%s%s",
             speaker ? ENHANCED_SPEAKER
             : more  ? MORE_MIC
                     : ENHANCED_MIC,
             more ? options->microphone : "");
    snprintf(n->title, sizeof n->title, "%s%s%s", speaker ? "Enhanced Speaker" : "Enhanced Mic", more ? ": " : "",
             more ? options->microphone : "");
    set_parts(n, options);
    int r = set_microphone(n, options->microphone, options->channel, err);
    if (r == 0)
        r = open_library(n, err);
    if (r == 0)
        r = open_pump(n, options, err);
    if (r < 0) {
        if (!options->worker && !n->own_worker)
            options->release(options->data, options->engine);
        node_close(n);
        return r;
    }
    repair(n);
    *ret = n;
    return 0;
}

void node_close(struct node *n) {
    if (!n)
        return;
    if (n->pump)
        take_down(n);
    if (n->pump_source)
        pw_loop_destroy_source(n->loop, n->pump_source);
    pump_close(n->pump);
    worker_close(n->own_worker);
    if (n->echo.timer)
        echo_unload(&n->echo);
    close_loop(n->loop, n->context);
    json_decref(n->registry.mirror.choices);
    free(n->microphone);
    free(n);
    pw_deinit();
}

int node_fd(const struct node *n) {
    return pw_loop_get_fd(n->loop);
}

int node_microphone(struct node *n, const char *microphone, const char *channel, struct err *err) {
    const int r = set_microphone(n, microphone, channel, err);
    if (r == 0) /* changes to it, unless it is what is captured already */
        follow_now(n);
    return r;
}

void node_echo(struct node *n, bool wanted) {
    if (n->wants_echo == wanted)
        return;
    n->wants_echo = wanted;
    follow_now(n);
}

void node_transparent(struct node *n, bool wanted) {
    if (n->registry.mirror.own.transparent == wanted)
        return;
    n->registry.mirror.own.transparent = wanted;
    follow_now(n);
}

void node_controls(struct node *n, float strength, bool bypass) {
    if (strength == n->params.strength && bypass == n->params.bypass)
        return;
    n->params.strength = strength;
    n->params.bypass = bypass;
    if (streams_visible(&n->streams))
        params_publish(&n->params, streams_visible(&n->streams));
}

int node_choose(struct node *n, const char *application, const char *choice, struct err *err) {
    struct mirror *const m = &n->registry.mirror;
    bool known = choices_find(m->choices, application);
    for (unsigned i = 0; i < m->n_nodes && !known; i++)
        known = m->nodes[i].listens && strcmp(mirror_application(&m->nodes[i]), application) == 0;
    if (!known)
        return err_set(err, -ENOENT, "no application \"%s\" records", application);
    if (n->wishes.filtered[0] && strcmp(choice, CHOICE_OFF) == 0)
        return err_set(err, -ENOTSUP, "%s hears Enhanced Mic like all applications: \"transparent\" is true",
                       application);
    int res = mirror_choose(m, application, choice);
    if (res)
        return err_set(err, res, "\"%s\" is not kept: %s", choice, strerror(-res));
    choices_write(n->errands, m->choices);
    follow_now(n);
    return 0;
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

enum node_kind node_kind(const struct node *n) {
    return n->kind;
}

const char *node_name(const struct node *n) {
    return n->name;
}

const char *node_title(const struct node *n) {
    return n->title;
}

struct pump *node_pump(const struct node *n) {
    return n->pump;
}

struct worker *node_worker(const struct node *n) {
    return n->worker;
}
