#include "config.h"

#include "graph/node.h"

#include "graph/microphone.h"
#include "graph/recall.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's macros and inline functions are GNU C */
#include <pipewire/impl.h>
#include <pipewire/pipewire.h>
#include <pipewire/extensions/metadata.h>
#include <pipewire/filter.h>
#include <pipewire/thread.h>
#include <spa/debug/types.h>
#include <spa/param/audio/format-utils.h>
#include <spa/param/audio/type-info.h>
#include <spa/param/latency-utils.h>
#include <spa/param/props.h>
#include <spa/pod/builder.h>
#include <spa/pod/parser.h>
#include <spa/support/thread.h>

#define MIC "enhanced_mic"          /* the first's node.name; the others' begin ... */
#define MORE_MIC MIC "."            /* ... so, and end with what their microphones are called */
#define RECONNECT_FIRST_MS 100      /* pauses between attempts to reach PipeWire: doubled from here ... */
#define RECONNECT_MAX_MS 2000       /* ... to here */
#define ANSWER_MS 5000              /* after which a connection that was never served is given up */
#define SILENT_CYCLES 3             /* without the capture stream before the pacer takes its part */
#define RTKIT_MOST 20               /* the highest priority that rtkit gives, unless it is told otherwise */
#define MUTED_MS 400                /* that a change of microphone waits for the fade: two of the longest quanta */

/* What is kept of the graph: enough to know who is linked to us, what to call it and which channels it has. */
struct object {
    struct spa_list list;
    enum { OBJECT_NODE, OBJECT_PORT, OBJECT_LINK } type;
    uint32_t id;
    uint32_t from, to;     /* LINK: its nodes; PORT: its node and its number there */
    uint32_t channel;      /* PORT: enum spa_audio_channel */
    bool microphone;       /* NODE */
    bool sink;             /* NODE: what it gives is what it plays */
    bool meter;            /* NODE: a stream that only shows levels */
    bool streams;          /* NODE: it may be linked to this one */
    struct recall_stream stream; /* NODE of those: what is noted of it ... */
    bool linked, awaited, brought_back; /* ... it is linked to this one; it was asked back, and is not yet; it was, and is */
    const char *led_away;  /* NODE: the key by which the session manager has it follow the default; see on_metadata */
    bool active;           /* LINK to a speaker: samples come */
    struct pw_proxy *proxy; /* NODE of a stream that records, LINK to a speaker: to learn that; else NULL */
    struct spa_hook listener;
    struct node *node;
    char name[128], description[128], application[128]; /* NODE: the last for who it belongs to, or "" */
};

struct node {
    enum node_kind kind;
    char name[288], title[288]; /* node.name and node.description of what others see */
    struct pw_loop *loop;
    struct pw_context *context;
    struct pw_data_loop *data_loop;
    struct spa_thread_utils *threads;
    struct worker *worker, *own_worker; /* the second: NULL, or the same */
    struct pump *pump;
    struct spa_source *pump_source, *reconnect_timer, *mute_timer;
    void (*changed)(void *data);
    void (*controls)(void *data, float strength, bool bypass);
    float strength;
    bool bypass;
    void *data;
    char group[320], latency[32];
    char *microphone, *channel;
    char target[256];        /* node.name or object.serial that the capture stream asks for, or "" */

    struct pw_core *core;
    struct pw_registry *registry;
    /* The session manager's defaults, or NULL, on a connection of their own. PipeWire reads no more of a connection while
     * another owes it an answer: to who sets a node's parameters, the node's owner; to who binds metadata, theirs. Were the
     * nodes on the one that binds, the session manager and this one could wait for each other for ever, and all others too. */
    struct pw_core *manager;
    struct pw_metadata *metadata;
    uint32_t metadata_id;
    char default_name[256];       /* the node.name of the default source, of a speaker the default sink; or "" */
    bool told;                    /* all that the session manager keeps */
    struct recall noted;          /* those who record from this node, or did before it was gone */
    uint32_t instance;            /* PipeWire's cookie */
    uint64_t recalled;            /* our own serial with which they were asked back */
    bool deaf;                    /* what comes in is not to be heard */
    bool is_chosen_default;       /* people have made this node the default */
    struct spa_hook metadata_listener, manager_listener, core_listener, registry_listener, capture_listener, source_listener,
        pacer_listener;
    struct spa_list objects;
    /* Samples come in by the one and go out by the other. Others see the source, or of a speaker the capture stream,
     * which is a sink then. */
    struct pw_stream *capture, *source;
    struct pw_filter *pacer;
    struct spa_latency_info beyond; /* of the microphone and what is before it, or of the output and what is after */
    uint32_t position;       /* enum spa_audio_channel that the capture stream asks for; MONO is the mix */
    unsigned pause_ms;
    int asked;               /* the connection's first question */
    bool answered;
    bool broken;             /* the connection is gone: take it down once its callbacks are left */
    bool stale;              /* the graph has changed: survey it once its callbacks are left */
    bool changing;           /* the mute timer runs: then the capture stream is opened anew */
    bool mending;            /* the reconnect timer runs: then what is missing is opened */
    bool pacing;
    bool dirty;              /* tell */
    bool entered;
    uint64_t published_ns;   /* least latency; 0: none yet */
    uint32_t microphone_id;  /* node linked to the capture stream, or SPA_ID_INVALID; of a speaker the output */

    /* for the data loop */
    struct pw_stream *feeding;         /* = capture; changed on the data loop only */
    struct spa_io_position *clock;     /* of the source; changed on the data loop */
    uint64_t cycle;                    /* that the source last ran in */
    uint64_t duration;                 /* of that cycle */
    unsigned n_silent;                 /* cycles of the pacer since the capture stream's last */
    bool idle;
    _Atomic bool begin;                /* somebody records who did not before */
    _Atomic bool running;              /* the source's converter is set up: before, a trigger would run it half-made */
    _Atomic unsigned n_consumers, rate;
    unsigned n_recorders;              /* of the consumers: those that are no meters */
};

static struct pw_stream *face(const struct node *n) {
    return n->kind == NODE_SPEAKER ? n->capture : n->source;
}

/* ---- the data loop ----------------------------------------------------------------------------------------------- */

static unsigned n_samples(const struct pw_buffer *b) {
    return b->buffer->datas[0].chunk->size / (unsigned)sizeof(float);
}

static const float *samples(const struct pw_buffer *b) {
    const struct spa_data *const d = &b->buffer->datas[0];
    return SPA_PTROFF(d->data, d->chunk->offset, const float);
}

/* Once a cycle, after the capture stream, or instead of it where no microphone sends. */
static void on_source_process(void *data) {
    struct node *const n = data;
    if (!n->clock || n->clock->clock.position == n->cycle)
        return;
    const struct spa_io_clock *const clock = &n->clock->clock;
    const bool same_quantum = clock->duration == n->duration;
    n->cycle = clock->position;
    n->duration = clock->duration;
    atomic_store_explicit(&n->rate, clock->rate.denom, memory_order_relaxed);

    const bool wanted = atomic_load(&n->n_consumers) > 0;
    if (wanted && (atomic_exchange(&n->begin, false) || n->idle))
        pump_restart(n->pump);
    n->idle = !wanted;

    struct pw_buffer *in = NULL, *newer;
    while (n->feeding && (newer = pw_stream_dequeue_buffer(n->feeding))) {
        if (in) { /* left over from a cycle that the source missed: it must not delay what follows */
            if (wanted)
                pump_process(n->pump, samples(in), n_samples(in), NULL, 0);
            pw_stream_queue_buffer(n->feeding, in);
        }
        in = newer;
    }
    unsigned n_in = in ? n_samples(in) : 0;
    const float *from = n_in ? samples(in) : NULL;
    struct pw_buffer *const out = wanted ? pw_stream_dequeue_buffer(n->source) : NULL;
    if (out) {
        /* What is asked for was worked out in the last cycle, so where the quantum changed it is of the old one. */
        struct spa_data *const d = &out->buffer->datas[0];
        const unsigned room = d->maxsize / (unsigned)sizeof(float);
        const unsigned due = (unsigned)(clock->duration * PUMP_RATE / clock->rate.denom);
        unsigned n_out = same_quantum && out->requested ? (unsigned)out->requested : n_in ? n_in : due;
        if (n_out > room)
            n_out = room;
        if (!n_in)
            n_in = n_out;
        pump_process(n->pump, from, n_in, d->data, n_out);
        d->chunk->offset = 0;
        d->chunk->stride = sizeof(float);
        d->chunk->size = n_out * (unsigned)sizeof(float);
        pw_stream_queue_buffer(n->source, out);
    } else if (wanted && n_in) {
        pump_process(n->pump, from, n_in, NULL, 0);
    }
    if (in)
        pw_stream_queue_buffer(n->feeding, in);
}

static void trigger(struct node *n) {
    if (atomic_load(&n->running))
        pw_stream_trigger_process(n->source);
}

static void on_capture_process(void *data) {
    struct node *const n = data;
    if (!n->feeding)
        return;
    n->n_silent = 0;
    trigger(n);
}

/* Runs in every cycle while somebody records, before the capture stream or after it. Where that stays away no
 * microphone sends, and without a trigger those who record would stand still; a cycle that it only missed is not worth
 * one. */
static void on_pacer_process(void *data, struct spa_io_position *position) {
    (void)position;
    struct node *const n = data;
    if (!n->feeding || n->n_silent > SILENT_CYCLES)
        trigger(n);
    else
        n->n_silent++;
}

static int clock_from(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)size;
    struct node *const n = user;
    n->clock = *(struct spa_io_position *const *)data;
    return 0;
}

/* PipeWire says it on the main thread; when this is over the area before is no longer looked at, and may go. */
static void on_source_io(void *data, uint32_t id, void *area, uint32_t size) {
    struct node *const n = data;
    (void)size;
    if (id == SPA_IO_Position)
        pw_data_loop_invoke(n->data_loop, clock_from, 0, &area, sizeof area, true, n);
}

static int feed_from(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)size;
    struct node *const n = user;
    n->feeding = *(struct pw_stream *const *)data;
    return 0;
}

/* Waits until the data loop has done it: the stream before is no longer looked at. */
static void set_feeding(struct node *n, struct pw_stream *stream) {
    pw_data_loop_invoke(n->data_loop, feed_from, 0, &stream, sizeof stream, true, n);
}

/* ---- latency ----------------------------------------------------------------------------------------------------- */

static uint64_t to_ns(uint64_t samples, uint64_t rate) {
    return (samples * 1000000000 + rate / 2) / rate;
}

/* What lies beyond and ours, where it is not what was published last. */
static void publish_latency(struct node *n) {
    if (!n->source || !face(n))
        return;
    struct pump_stats stats;
    pump_stats(n->pump, &stats);
    struct spa_latency_info latency = n->beyond;
    /* Where the graph has another rate both streams hold samples in their resamplers, counted at the rate of what goes
     * in. */
    struct pw_time in = {0}, out = {0};
    if (n->capture)
        pw_stream_get_time_n(n->capture, &in, sizeof in);
    pw_stream_get_time_n(n->source, &out, sizeof out);
    uint64_t ns = to_ns(stats.delay + out.buffered, PUMP_RATE);
    if (in.rate.denom)
        ns += to_ns(in.buffered * in.rate.num, in.rate.denom);
    latency.min_ns += ns;
    latency.max_ns += ns;
    if ((uint64_t)latency.min_ns == n->published_ns) /* signed since PipeWire 1.2 */
        return;
    n->published_ns = latency.min_ns;
    uint8_t buffer[512];
    struct spa_pod_builder builder = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    const struct spa_pod *param = spa_latency_build(&builder, SPA_PARAM_Latency, &latency);
    pw_stream_update_params(face(n), &param, 1);
}

static void on_beyond_param(struct node *n, uint32_t id, const struct spa_pod *param) {
    struct spa_latency_info info;
    if (id != SPA_PARAM_Latency || !param || spa_latency_parse(param, &info) < 0 ||
        info.direction != n->beyond.direction)
        return;
    n->beyond = info;
    publish_latency(n);
}

/* ---- controls ---------------------------------------------------------------------------------------------------- */

static const struct spa_pod *build_props(const struct node *n, struct spa_pod_builder *b) {
    struct spa_pod_frame object, list;
    spa_pod_builder_push_object(b, &object, SPA_TYPE_OBJECT_Props, SPA_PARAM_Props);
    spa_pod_builder_prop(b, SPA_PROP_params, 0);
    spa_pod_builder_push_struct(b, &list);
    spa_pod_builder_string(b, "strength");
    spa_pod_builder_float(b, n->strength);
    spa_pod_builder_string(b, "bypass");
    spa_pod_builder_bool(b, n->bypass);
    spa_pod_builder_pop(b, &list);
    return spa_pod_builder_pop(b, &object);
}

static const struct spa_pod *build_strength_info(const struct node *n, struct spa_pod_builder *b) {
    return spa_pod_builder_add_object(b, SPA_TYPE_OBJECT_PropInfo, SPA_PARAM_PropInfo, SPA_PROP_INFO_name,
            SPA_POD_String("strength"), SPA_PROP_INFO_description, SPA_POD_String("How much of the noise is taken away"),
            SPA_PROP_INFO_type, SPA_POD_CHOICE_RANGE_Float(n->strength, 0.0f, 1.0f), SPA_PROP_INFO_params,
            SPA_POD_Bool(true));
}

static const struct spa_pod *build_bypass_info(const struct node *n, struct spa_pod_builder *b) {
    return spa_pod_builder_add_object(b, SPA_TYPE_OBJECT_PropInfo, SPA_PARAM_PropInfo, SPA_PROP_INFO_name,
            SPA_POD_String("bypass"), SPA_PROP_INFO_description, SPA_POD_String("The sound as it is"),
            SPA_PROP_INFO_type, SPA_POD_CHOICE_Bool(n->bypass), SPA_PROP_INFO_params, SPA_POD_Bool(true));
}

static void publish_controls(struct node *n) {
    uint8_t buffer[512];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    const struct spa_pod *props = build_props(n, &b);
    pw_stream_update_params(face(n), &props, 1);
}

/* Names that are not ours are the converter's; values that cannot be are passed over. */
static void read_controls(const struct spa_pod *list, float *strength, bool *bypass) {
    struct spa_pod_parser parser;
    struct spa_pod_frame frame;
    const char *name;
    struct spa_pod *value;
    spa_pod_parser_pod(&parser, list);
    if (spa_pod_parser_push_struct(&parser, &frame) < 0)
        return;
    while (spa_pod_parser_get_string(&parser, &name) >= 0 && spa_pod_parser_get_pod(&parser, &value) >= 0) {
        float number = NAN;
        double real;
        int32_t whole;
        bool yes;
        if (spa_pod_get_double(value, &real) == 0)
            number = (float)real;
        else if (spa_pod_get_int(value, &whole) == 0)
            number = (float)whole;
        else if (spa_pod_get_float(value, &number) < 0)
            number = NAN;
        if (strcmp(name, "strength") == 0 && number >= 0 && number <= 1)
            *strength = number;
        if (strcmp(name, "bypass") == 0 && spa_pod_get_bool(value, &yes) == 0)
            *bypass = yes;
    }
}

static void on_face_param(struct node *n, uint32_t id, const struct spa_pod *param) {
    if (id != SPA_PARAM_Props || !param || !spa_pod_is_object(param) || !n->controls)
        return;
    float strength = n->strength;
    bool bypass = n->bypass;
    const struct spa_pod_prop *prop;
    SPA_POD_OBJECT_FOREACH((const struct spa_pod_object *)param, prop) {
        if (prop->key == SPA_PROP_params && spa_pod_is_struct(&prop->value))
            read_controls(&prop->value, &strength, &bypass);
    }
    if (strength != n->strength || bypass != n->bypass)
        n->controls(n->data, strength, bypass);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void on_face_state(struct node *n, enum pw_stream_state state) {
    if (state == PW_STREAM_STATE_STREAMING)
        n->pause_ms = RECONNECT_FIRST_MS;
    if (state == PW_STREAM_STATE_PAUSED) { /* its ports are new */
        n->published_ns = 0;
        publish_latency(n);
    }
}

static void on_source_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)old, (void)error;
    struct node *const n = data;
    atomic_store(&n->running, state == PW_STREAM_STATE_STREAMING);
    n->stale = true;
    if (n->kind != NODE_SPEAKER)
        on_face_state(n, state);
}

static void on_capture_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)old, (void)error;
    struct node *const n = data;
    n->stale = true;
    if (state == PW_STREAM_STATE_PAUSED && n->source) /* blocks of before would come out as delay */
        pw_stream_flush(n->capture, false);
    if (n->kind == NODE_SPEAKER)
        on_face_state(n, state);
}

static void on_source_param(void *data, uint32_t id, const struct spa_pod *param) {
    struct node *const n = data;
    (n->kind == NODE_SPEAKER ? on_beyond_param : on_face_param)(n, id, param);
}

static void on_capture_param(void *data, uint32_t id, const struct spa_pod *param) {
    struct node *const n = data;
    (n->kind == NODE_SPEAKER ? on_face_param : on_beyond_param)(n, id, param);
}

static const struct pw_stream_events capture_events = {
    PW_VERSION_STREAM_EVENTS,
    .process = on_capture_process,
    .param_changed = on_capture_param,
    .state_changed = on_capture_state,
};

static const struct pw_stream_events source_events = {
    PW_VERSION_STREAM_EVENTS,
    .process = on_source_process,
    .io_changed = on_source_io,
    .param_changed = on_source_param,
    .state_changed = on_source_state,
};

static void on_pacer_state(void *data, enum pw_filter_state old, enum pw_filter_state state, const char *error) {
    (void)old, (void)state, (void)error;
    struct node *const n = data;
    n->stale = true;
}

static const struct pw_filter_events pacer_events = {
    PW_VERSION_FILTER_EVENTS,
    .process = on_pacer_process,
    .state_changed = on_pacer_state,
};

static int connect_stream(const struct node *n, struct pw_stream *stream, enum pw_direction direction, uint32_t position,
        enum pw_stream_flags flags) {
    const bool seen = stream == face(n);
    uint8_t buffer[2048];
    struct spa_pod_builder builder = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    struct spa_audio_info_raw info = SPA_AUDIO_INFO_RAW_INIT(
            .format = SPA_AUDIO_FORMAT_F32P, .rate = PUMP_RATE, .channels = 1, .position = {position});
    /* A block comes in and goes out again only after its stream's own turn, so one buffer would do for every other cycle. */
    const struct spa_pod *params[5] = {
        spa_format_audio_raw_build(&builder, SPA_PARAM_EnumFormat, &info),
        spa_pod_builder_add_object(&builder, SPA_TYPE_OBJECT_ParamBuffers, SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_buffers,
                SPA_POD_CHOICE_RANGE_Int(4, 2, 16))};
    if (seen) {
        params[2] = build_strength_info(n, &builder);
        params[3] = build_bypass_info(n, &builder);
        params[4] = build_props(n, &builder);
    }
    return pw_stream_connect(stream, direction, PW_ID_ANY,
            flags | PW_STREAM_FLAG_AUTOCONNECT | PW_STREAM_FLAG_MAP_BUFFERS | PW_STREAM_FLAG_RT_PROCESS, params,
            seen ? 5 : 2);
}

/* Properties that both streams and the pacer share: scheduled together, on one data loop where PipeWire (from 1.2 on) has
 * several, never linked to each other. part: "", or what this is of the node that others see. */
static struct pw_properties *properties(const struct node *n, const char *part, const char *part_title) {
    struct pw_properties *const p = pw_properties_new(PW_KEY_NODE_GROUP, n->group, PW_KEY_NODE_LINK_GROUP, n->group,
            PW_KEY_NODE_VIRTUAL, "true", "resample.prefill", "true", NULL);
    if (p) {
#if PW_CHECK_VERSION(1, 2, 0)
        pw_properties_set(p, PW_KEY_NODE_LOOP_NAME, pw_data_loop_get_loop(n->data_loop)->name);
#endif
        pw_properties_setf(p, PW_KEY_NODE_NAME, "%s%s", part, n->name);
        pw_properties_setf(p, PW_KEY_NODE_DESCRIPTION, "%s%s", n->title, part_title);
    }
    return p;
}

/* The microphone of the settings. Where that is the default, and the default is an Enhanced Mic of ours beside this one,
 * then that one's microphone: sound is enhanced once. NULL: what the session manager takes for the default. */
static const char *chosen_microphone(const struct node *n) {
    const size_t prefix = strlen(MORE_MIC);
    if (n->microphone || n->kind != NODE_MIC)
        return n->microphone;
    return strncmp(n->default_name, MORE_MIC, prefix) == 0 ? n->default_name + prefix : NULL;
}

/* The source that is the chosen microphone, whatever its name is now; NULL where there is none. */
static const struct object *find_microphone(const struct node *n) {
    const struct object *o, *found = NULL;
    const char *const chosen = chosen_microphone(n);
    int best = 0;
    if (!chosen)
        return NULL;
    spa_list_for_each(o, &n->objects, list) {
        const int fits = o->microphone ? microphone_fits(chosen, o->name, o->description) : 0;
        if (fits > best) {
            best = fits;
            found = o;
        }
    }
    return found;
}

static const char *wanted_target(const struct node *n) {
    const struct object *const microphone = find_microphone(n);
    const char *const chosen = chosen_microphone(n);
    return microphone ? microphone->name : chosen ? chosen : "";
}

/* What others see. */
static struct pw_properties *face_properties(const struct node *n, const char *class) {
    struct pw_properties *const p = properties(n, "", "");
    if (p)
        pw_properties_set(p, PW_KEY_MEDIA_CLASS, class);
    return p;
}

/* The stream to the microphone, or to the output. */
static struct pw_properties *beyond_properties(struct node *n, const char *part, const char *part_title,
        const char *category) {
    struct pw_properties *const p = properties(n, part, part_title);
    if (!p)
        return NULL;
    pw_properties_set(p, PW_KEY_MEDIA_TYPE, "Audio");
    pw_properties_set(p, PW_KEY_MEDIA_CATEGORY, category);
    pw_properties_set(p, PW_KEY_MEDIA_ROLE, "DSP");
    pw_properties_set(p, PW_KEY_NODE_PASSIVE, "true");          /* alone it keeps no microphone awake, and no output */
    snprintf(n->target, sizeof n->target, "%s", wanted_target(n));
    if (n->target[0])
        pw_properties_set(p, PW_KEY_TARGET_OBJECT, n->target);
    return p;
}

static int open_capture(struct node *n) {
    const bool speaker = n->kind == NODE_SPEAKER;
    struct pw_properties *const p = speaker ? face_properties(n, "Audio/Sink")
                                            : beyond_properties(n, "capture.", "'s input", "Capture");
    if (!p)
        return -ENOMEM;
    pw_properties_set(p, "channelmix.normalize", "true");       /* or two channels add up */
    if (n->position != SPA_AUDIO_CHANNEL_MONO)
        pw_properties_set(p, PW_KEY_STREAM_DONT_REMIX, "true"); /* this channel alone */
    if (!speaker)
        n->beyond = SPA_LATENCY_INFO(SPA_DIRECTION_OUTPUT);
    n->capture = pw_stream_new(n->core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!n->capture)
        return -errno;
    pw_stream_add_listener(n->capture, &n->capture_listener, &capture_events, n);
    set_feeding(n, n->deaf ? NULL : n->capture);
    return connect_stream(n, n->capture, PW_DIRECTION_INPUT, n->position, PW_STREAM_FLAG_NONE);
}

static void close_capture(struct node *n) {
    if (!n->capture)
        return;
    set_feeding(n, NULL);
    spa_hook_remove(&n->capture_listener);
    pw_stream_destroy(n->capture);
    n->capture = NULL;
}

static int open_source(struct node *n) {
    const bool speaker = n->kind == NODE_SPEAKER;
    struct pw_properties *const p = speaker ? beyond_properties(n, "playback.", "'s output", "Playback")
                                            : face_properties(n, "Audio/Source");
    if (!p)
        return -ENOMEM;
    if (speaker)
        n->beyond = SPA_LATENCY_INFO(SPA_DIRECTION_INPUT);
    else
        pw_properties_set(p, PW_KEY_NODE_LATENCY, n->latency);
    n->idle = true;
    n->source = pw_stream_new(n->core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!n->source)
        return -errno;
    pw_stream_add_listener(n->source, &n->source_listener, &source_events, n);
    return connect_stream(n, n->source, PW_DIRECTION_OUTPUT, SPA_AUDIO_CHANNEL_MONO, PW_STREAM_FLAG_TRIGGER);
}

static void close_source(struct node *n) {
    if (!n->source)
        return;
    spa_hook_remove(&n->source_listener);
    atomic_store(&n->running, false);
    set_feeding(n, n->deaf ? NULL : n->capture); /* a trigger that was under way is over */
    pw_stream_destroy(n->source);
    n->source = NULL;
    n->clock = NULL;
}

static int open_pacer(struct node *n) {
    struct pw_properties *const p = properties(n, "pacer.", "'s pace");
    if (!p)
        return -ENOMEM;
    pw_properties_set(p, PW_KEY_NODE_ALWAYS_PROCESS, "true");
    n->pacer = pw_filter_new(n->core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!n->pacer)
        return -errno;
    pw_filter_add_listener(n->pacer, &n->pacer_listener, &pacer_events, n);
    n->pacing = false;
    return pw_filter_connect(n->pacer, PW_FILTER_FLAG_INACTIVE | PW_FILTER_FLAG_RT_PROCESS, NULL, 0);
}

static void close_pacer(struct node *n) {
    if (!n->pacer)
        return;
    spa_hook_remove(&n->pacer_listener);
    pw_filter_destroy(n->pacer);
    n->pacer = NULL;
}

/* ---- the graph as it is told ------------------------------------------------------------------------------------- */

static uint32_t channel_by_name(const char *name) {
    for (const struct spa_type_info *t = spa_type_audio_channel; t->name; t++) {
        if (strcmp(spa_debug_type_short_name(t->name), name) == 0)
            return t->type;
    }
    return SPA_AUDIO_CHANNEL_UNKNOWN;
}

/* "mix" and NULL: 0; a number from 1 on: itself; a name: -1; neither: -EINVAL. */
static int channel_number(const char *channel) {
    if (!channel || strcmp(channel, "mix") == 0)
        return 0;
    char *end;
    const long number = strtol(channel, &end, 10);
    if (*channel && !*end)
        return number >= 1 && number <= SPA_AUDIO_MAX_CHANNELS ? (int)number : -EINVAL;
    return channel_by_name(channel) != SPA_AUDIO_CHANNEL_UNKNOWN ? -1 : -EINVAL;
}

/* The port of the microphone that is the channel that was chosen; NULL: it does not have it, or none was. */
static const struct object *find_channel(const struct node *n) {
    const int number = channel_number(n->channel);
    const uint32_t named = number < 0 ? channel_by_name(n->channel) : SPA_AUDIO_CHANNEL_UNKNOWN;
    const struct object *o;
    if (!number)
        return NULL;
    spa_list_for_each(o, &n->objects, list) {
        if (o->type == OBJECT_PORT && o->from == n->microphone_id &&
            (number < 0 ? o->channel == named : o->to + 1 == (uint32_t)number))
            return o;
    }
    return NULL;
}

/* What to ask for of the microphone: the channel that was chosen, where it has it, else the mix. */
static uint32_t wanted_position(const struct node *n) {
    const struct object *const channel = find_channel(n);
    return channel ? channel->channel : SPA_AUDIO_CHANNEL_MONO;
}

static void start_timer(struct node *n, struct spa_source *timer, unsigned ms) {
    struct timespec in = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    pw_loop_update_timer(n->loop, timer, &in, NULL, false);
}

static void reopen_capture(struct node *n) {
    const bool open = n->capture != NULL; /* else it is opened where it is missing */
    close_capture(n);
    pump_mute(n->pump, false); /* there is no input now, and what comes fades in */
    if (open && open_capture(n) < 0)
        n->broken = true;
}

static void on_muted(void *data, uint64_t expirations) {
    (void)expirations;
    struct node *const n = data;
    n->changing = false;
    n->position = wanted_position(n);
    reopen_capture(n);
}

/* Fades the input out, then opens the capture stream anew, with the microphone and channel of then. */
static void change_capture(struct node *n) {
    if (n->changing)
        return;
    n->changing = true;
    pump_mute(n->pump, true);
    start_timer(n, n->mute_timer, MUTED_MS);
}

/* The node of that number; NULL where it is not known. */
static struct object *find_node(const struct node *n, uint32_t id) {
    struct object *o;
    spa_list_for_each(o, &n->objects, list) {
        if (o->type == OBJECT_NODE && o->id == id)
            return o;
    }
    return NULL;
}

static bool is_meter(const struct node *n, uint32_t id) {
    const struct object *const o = find_node(n, id);
    return o && o->meter;
}

/* One of several has its microphone or none, where the first falls back on another one, and is called as it is. */
static void survey_more(struct node *n) {
    const struct object *const microphone = find_microphone(n);
    char title[sizeof n->title];
    if (!microphone) {
        close_capture(n);
        return;
    }
    if (!n->capture && !n->mending && open_capture(n) < 0)
        n->broken = true;
    snprintf(title, sizeof title, "Enhanced Mic: %s", microphone->description);
    if (strcmp(title, n->title) == 0 || !n->source)
        return;
    memcpy(n->title, title, sizeof n->title);
    const struct spa_dict_item item = SPA_DICT_ITEM_INIT(PW_KEY_NODE_DESCRIPTION, n->title);
    pw_stream_update_properties(n->source, &SPA_DICT_INIT(&item, 1));
}

/* A session manager that has no microphone may link us to what is played. Nobody wants to send that unasked. */
static bool is_played(const struct node *n, uint32_t id) {
    const struct object *const o = find_node(n, id);
    return o && o->sink && !(n->microphone && strcmp(n->microphone, o->name) == 0);
}

/* Who was linked to this node before it was gone, and is alive, is asked back by what people use to move a stream: the
 * session manager takes the node's new serial for another one. Those who follow a default are the session manager's, and
 * stay its: they are not noted while this node is the default. */
static void recall(struct node *n, const struct object *us) {
    char serial[24];
    struct object *o;
    if (!us || !n->told || !n->answered)
        return;
    if (n->recalled != us->stream.serial) {
        n->recalled = us->stream.serial;
        snprintf(serial, sizeof serial, "%" PRIu64, us->stream.serial);
        spa_list_for_each(o, &n->objects, list) {
            o->awaited = o->streams && !o->linked && recall_has(&n->noted, n->instance, &o->stream);
            if (o->awaited)
                pw_metadata_set_property(n->metadata, o->id, "target.object", "Spa:Id", serial);
        }
    }
    struct recall now = {.instance = n->instance};
    const bool is_default = strcmp(n->default_name, n->name) == 0;
    spa_list_for_each(o, &n->objects, list) {
        if (o->streams && !is_default && ((o->linked && !o->meter) || o->awaited))
            recall_add(&now, &o->stream);
    }
    if (recall_same(&now, &n->noted))
        return;
    n->noted = now;
    recall_write(&now, n->name);
}

/* Draws the conclusions from the list of objects. */
static void survey(struct node *n) {
    if (n->kind == NODE_MORE_MIC)
        survey_more(n);
    const bool speaker = n->kind == NODE_SPEAKER;
    const uint32_t source = n->source ? pw_stream_get_node_id(n->source) : SPA_ID_INVALID;
    const uint32_t capture = n->capture ? pw_stream_get_node_id(n->capture) : SPA_ID_INVALID;
    unsigned n_linked = 0, n_consumers = 0, n_recorders = 0;
    uint32_t microphone = SPA_ID_INVALID;
    struct object *o, *peer;
    spa_list_for_each(o, &n->objects, list)
        o->linked = false;
    spa_list_for_each(o, &n->objects, list) {
        if (o->type != OBJECT_LINK)
            continue;
        if (speaker ? o->to == capture : o->from == source) {
            peer = find_node(n, speaker ? o->from : o->to);
            if (peer)
                peer->linked = true;
            n_linked++;
            n_consumers += !speaker || o->active; /* those who play often stay linked when they pause */
            n_recorders += speaker ? o->active : !is_meter(n, o->to);
        }
        if (speaker ? o->from == source : n->capture && o->to == capture)
            microphone = speaker ? o->to : o->from;
    }
    spa_list_for_each(o, &n->objects, list) {
        o->brought_back = o->linked && (o->awaited || o->brought_back);
        o->awaited &= !o->linked;
    }
    recall(n, find_node(n, speaker ? capture : source));
    if (n_recorders != n->n_recorders) {
        n->n_recorders = n_recorders;
        n->dirty = true;
    }
    if (n_consumers != atomic_load(&n->n_consumers)) {
        if (!atomic_load(&n->n_consumers))
            atomic_store(&n->begin, true);
        atomic_store(&n->n_consumers, n_consumers);
        pump_rest(n->pump, n_consumers == 0);
        n->dirty = true;
    }
    const bool deaf = !speaker && is_played(n, microphone);
    if (deaf)
        microphone = SPA_ID_INVALID;
    if (deaf != n->deaf) {
        n->deaf = deaf;
        set_feeding(n, deaf ? NULL : n->capture);
    }
    if (microphone != n->microphone_id) {
        n->microphone_id = microphone;
        n->dirty = true;
    }
    if (!speaker && n->capture && ((microphone != SPA_ID_INVALID && wanted_position(n) != n->position) ||
            strcmp(n->target, wanted_target(n)) != 0))
        change_capture(n);
    /* The capture stream of a speaker never stays away, but without an output nobody sets the pace. */
    const bool pacing = n_linked && (!speaker || microphone == SPA_ID_INVALID);
    if (n->pacer && n->pacing != pacing) {
        n->pacing = pacing;
        pw_filter_set_active(n->pacer, pacing);
    }
}

/* A source of this program, this node's or another's. */
static bool is_ours(const char *name) {
    return strcmp(name, MIC) == 0 || strncmp(name, MORE_MIC, strlen(MORE_MIC)) == 0;
}

static uint32_t number_of(const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    return text ? (uint32_t)strtoul(text, NULL, 10) : SPA_ID_INVALID;
}

/* Cut where a character ends: what is told to others is UTF-8. */
static void copy_property(char ret[128], const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    size_t n = text ? strlen(text) : 0;
    if (n > 127)
        for (n = 127; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80; n--)
            ;
    memcpy(ret, text ? text : "", n);
    ret[n] = '\0';
}

static void on_stream_info(void *data, const struct pw_node_info *info) {
    struct object *const o = data;
    if (!(info->change_mask & PW_NODE_CHANGE_MASK_PROPS) || !info->props)
        return;
    const char *const monitor = spa_dict_lookup(info->props, PW_KEY_STREAM_MONITOR);
    const bool meter = monitor && spa_atob(monitor);
    o->node->stale |= meter != o->meter;
    o->meter = meter;
}

static const struct pw_node_events stream_events = {
    PW_VERSION_NODE_EVENTS,
    .info = on_stream_info,
};

static void on_target(struct node *n, uint32_t id, const char *key, const char *value) {
    if (!key || (strcmp(key, "target.node") != 0 && strcmp(key, "target.object") != 0))
        return;
    const bool led = value && strcmp(value, "-1") == 0 && strcmp(n->default_name, n->name) == 0 && !n->is_chosen_default;
    struct object *const o = find_node(n, id);
    if (o && strcmp(key, "target.object") == 0) { /* target.node is what the session manager sets by itself */
        snprintf(o->stream.target, sizeof o->stream.target, "%s", value ? value : "");
        n->stale = true;
    }
    if (o)
        o->led_away = !led ? NULL : strcmp(key, "target.node") == 0 ? "target.node" : "target.object";
}

/* While there is no microphone this node is the default, for want of another, and WirePlumber then takes who asked for
 * it for one who follows the default: with the next microphone it would be moved there, and its noise be back unasked.
 * Such a recorder is given back what it asked for. */
static void bring_back(struct node *n) {
    struct object *o;
    spa_list_for_each(o, &n->objects, list) {
        if (o->led_away)
            pw_metadata_set_property(n->metadata, o->id, o->led_away, NULL, NULL);
        o->led_away = NULL;
    }
}

/* The default source is told as { "name": "..." }. */
static int on_metadata(void *data, uint32_t subject, const char *key, const char *type, const char *value) {
    (void)type;
    struct node *const n = data;
    if (subject != PW_ID_CORE) {
        on_target(n, subject, key, value);
        return 0;
    }
    const bool speaker = n->kind == NODE_SPEAKER;
    const bool chosen = key && strcmp(key, speaker ? "default.configured.audio.sink" : "default.configured.audio.source") == 0;
    if (key && !chosen && strcmp(key, speaker ? "default.audio.sink" : "default.audio.source") != 0)
        return 0;
    json_t *const object = key && value ? json_loads(value, 0, NULL) : NULL;
    const char *const name = json_string_value(json_object_get(object, "name"));
    if (chosen) {
        n->is_chosen_default = name && strcmp(name, n->name) == 0;
    } else {
        snprintf(n->default_name, sizeof n->default_name, "%s", name ? name : "");
        if (n->default_name[0] && strcmp(n->default_name, n->name) != 0)
            bring_back(n);
    }
    json_decref(object);
    n->stale = true;
    return 0;
}

static const struct pw_metadata_events metadata_events = {
    PW_VERSION_METADATA_EVENTS,
    .property = on_metadata,
};

static void on_core_error(void *data, uint32_t id, int seq, int result, const char *message) {
    (void)seq, (void)message;
    struct node *const n = data;
    if (id == PW_ID_CORE && (result == -EPIPE || result == -ECONNRESET))
        n->broken = true;
}

static void on_manager_done(void *data, uint32_t id, int seq) {
    (void)id, (void)seq; /* there is one question */
    struct node *const n = data;
    n->told = n->stale = true;
}

static const struct pw_core_events manager_events = {
    PW_VERSION_CORE_EVENTS,
    .done = on_manager_done,
    .error = on_core_error,
};

static void leave_manager(struct node *n) {
    if (n->metadata) {
        spa_hook_remove(&n->metadata_listener);
        pw_proxy_destroy((struct pw_proxy *)n->metadata);
        n->metadata = NULL;
        n->is_chosen_default = n->told = false;
    }
    if (n->manager) {
        spa_hook_remove(&n->manager_listener);
        pw_core_disconnect(n->manager);
        n->manager = NULL;
    }
}

static void follow_manager(struct node *n, uint32_t id) {
    n->metadata_id = id;
    n->manager = pw_context_connect(n->context, NULL, 0);
    if (!n->manager)
        return;
    pw_core_add_listener(n->manager, &n->manager_listener, &manager_events, n);
    struct pw_registry *const registry = pw_core_get_registry(n->manager, PW_VERSION_REGISTRY, 0);
    if (!registry)
        return;
    n->metadata = pw_registry_bind(registry, id, PW_TYPE_INTERFACE_Metadata, PW_VERSION_METADATA, 0);
    pw_proxy_destroy((struct pw_proxy *)registry);
    if (!n->metadata)
        return;
    pw_metadata_add_listener(n->metadata, &n->metadata_listener, &metadata_events, n);
    pw_core_sync(n->manager, PW_ID_CORE, 0);
}

static void on_link_info(void *data, const struct pw_link_info *info) {
    struct object *const o = data;
    const bool active = info->state == PW_LINK_STATE_ACTIVE;
    o->node->stale |= active != o->active;
    o->active = active;
}

static const struct pw_link_events link_events = {
    PW_VERSION_LINK_EVENTS,
    .info = on_link_info,
};

static void forget(struct object *o) {
    spa_list_remove(&o->list);
    if (o->proxy) {
        spa_hook_remove(&o->listener);
        pw_proxy_destroy(o->proxy);
    }
    free(o);
}

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
        const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct node *const n = data;
    if (!props)
        return;
    struct object o = {.id = id, .node = n};
    bool records = false;
    if (strcmp(type, PW_TYPE_INTERFACE_Link) == 0) {
        o.type = OBJECT_LINK;
        o.from = number_of(props, PW_KEY_LINK_OUTPUT_NODE);
        o.to = number_of(props, PW_KEY_LINK_INPUT_NODE);
    } else if (strcmp(type, PW_TYPE_INTERFACE_Port) == 0) {
        const char *const direction = spa_dict_lookup(props, PW_KEY_PORT_DIRECTION);
        const char *const channel = spa_dict_lookup(props, PW_KEY_AUDIO_CHANNEL);
        if (!direction || strcmp(direction, "out") != 0 || !channel)
            return;
        o.type = OBJECT_PORT;
        o.from = number_of(props, PW_KEY_NODE_ID);
        o.to = number_of(props, PW_KEY_PORT_ID);
        o.channel = channel_by_name(channel);
    } else if (strcmp(type, PW_TYPE_INTERFACE_Node) == 0) {
        o.type = OBJECT_NODE;
        copy_property(o.name, props, PW_KEY_NODE_NAME);
        copy_property(o.description, props, PW_KEY_NODE_DESCRIPTION);
        copy_property(o.application, props, PW_KEY_APP_NAME);
        if (!o.description[0])
            memcpy(o.description, o.name, sizeof o.description);
        const char *const class = spa_dict_lookup(props, PW_KEY_MEDIA_CLASS);
        o.microphone = class && strncmp(class, "Audio/Source", strlen("Audio/Source")) == 0 && !is_ours(o.name);
        o.sink = class && strncmp(class, "Audio/Sink", strlen("Audio/Sink")) == 0;
        records = class && strcmp(class, "Stream/Input/Audio") == 0;
        o.streams = n->kind == NODE_SPEAKER ? class && strcmp(class, "Stream/Output/Audio") == 0 : records;
        const char *const serial = spa_dict_lookup(props, PW_KEY_OBJECT_SERIAL);
        o.stream.serial = serial ? strtoull(serial, NULL, 10) : 0;
    } else if (strcmp(type, PW_TYPE_INTERFACE_Metadata) == 0) {
        const char *const name = spa_dict_lookup(props, PW_KEY_METADATA_NAME);
        if (!n->manager && name && strcmp(name, "default") == 0)
            follow_manager(n, id);
        return;
    } else {
        return;
    }
    struct object *const kept = malloc(sizeof *kept);
    if (!kept)
        return;
    *kept = o;
    spa_list_append(&n->objects, &kept->list);
    const bool played = o.type == OBJECT_LINK && n->kind == NODE_SPEAKER && n->capture &&
                        o.to == pw_stream_get_node_id(n->capture);
    if (records || played)
        kept->proxy = pw_registry_bind(n->registry, id, type, records ? PW_VERSION_NODE : PW_VERSION_LINK, 0);
    if (kept->proxy && played)
        pw_link_add_listener((struct pw_link *)kept->proxy, &kept->listener, &link_events, kept);
    else if (kept->proxy)
        pw_node_add_listener((struct pw_node *)kept->proxy, &kept->listener, &stream_events, kept);
    n->stale = true;
}

static void on_global_remove(void *data, uint32_t id) {
    struct node *const n = data;
    struct object *o;
    if (n->manager && id == n->metadata_id) /* with the next session manager come others */
        leave_manager(n);
    spa_list_for_each(o, &n->objects, list) {
        if (o->id == id) {
            forget(o);
            n->stale = true;
            return;
        }
    }
}

static const struct pw_registry_events registry_events = {
    PW_VERSION_REGISTRY_EVENTS,
    .global = on_global,
    .global_remove = on_global_remove,
};

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void on_core_done(void *data, uint32_t id, int seq) {
    struct node *const n = data;
    if (id == PW_ID_CORE && seq == n->asked)
        n->answered = n->stale = true;
}

static void on_core_info(void *data, const struct pw_core_info *info) {
    struct node *const n = data;
    n->instance = info->cookie;
}

static const struct pw_core_events core_events = {
    PW_VERSION_CORE_EVENTS,
    .info = on_core_info,
    .done = on_core_done,
    .error = on_core_error,
};

static void take_down(struct node *n) {
    close_capture(n);
    close_pacer(n);
    close_source(n);
    struct object *o;
    spa_list_consume(o, &n->objects, list)
        forget(o);
    leave_manager(n);
    n->default_name[0] = '\0';
    if (n->registry) {
        spa_hook_remove(&n->registry_listener);
        pw_proxy_destroy((struct pw_proxy *)n->registry);
        n->registry = NULL;
    }
    if (n->core) {
        spa_hook_remove(&n->core_listener);
        pw_core_disconnect(n->core);
        n->core = NULL;
    }
    n->broken = false;
    n->microphone_id = SPA_ID_INVALID;
    atomic_store(&n->n_consumers, 0);
    n->n_recorders = 0;
    pump_rest(n->pump, true);
    atomic_store(&n->rate, 0);
    n->dirty = true;
}

static int connect_core(struct node *n) {
    n->core = pw_context_connect(n->context, NULL, 0);
    if (!n->core)
        return -errno;
    pw_core_add_listener(n->core, &n->core_listener, &core_events, n);
    n->registry = pw_core_get_registry(n->core, PW_VERSION_REGISTRY, 0);
    if (!n->registry)
        return -errno;
    pw_registry_add_listener(n->registry, &n->registry_listener, &registry_events, n);
    n->position = SPA_AUDIO_CHANNEL_MONO;
    n->answered = false;
    n->asked = pw_core_sync(n->core, PW_ID_CORE, 0);
    n->pause_ms = RECONNECT_FIRST_MS;
    return 0;
}

/* Opens what is missing. */
static int put_up(struct node *n) {
    int r = n->core ? 0 : connect_core(n);
    if (r >= 0 && !n->source)
        r = open_source(n);
    if (r >= 0 && !n->pacer)
        r = open_pacer(n);
    if (r >= 0 && !n->capture && n->kind != NODE_MORE_MIC) /* which waits for its microphone */
        r = open_capture(n);
    if (r < 0)
        return r;
    if (!n->answered)
        start_timer(n, n->reconnect_timer, ANSWER_MS);
    n->stale = n->dirty = true;
    return 0;
}

static void mend_later(struct node *n) {
    n->mending = true;
    start_timer(n, n->reconnect_timer, n->pause_ms);
    n->pause_ms = n->pause_ms * 2 < RECONNECT_MAX_MS ? n->pause_ms * 2 : RECONNECT_MAX_MS;
}

static void reconnect(struct node *n) {
    n->mending = false;
    if (put_up(n) < 0) {
        take_down(n);
        mend_later(n);
    }
}

static void on_reconnect(void *data, uint64_t expirations) {
    (void)expirations;
    struct node *const n = data;
    if (n->mending)
        reconnect(n);
    else if (!n->answered) /* who took the connection has never served it */
        n->broken = true;
}

/* Has PipeWire taken it away? One that waits for a microphone or an output may call that an error, which passes. */
static bool is_gone(struct pw_stream *stream, bool waits) {
    const enum pw_stream_state state = pw_stream_get_state(stream, NULL);
    return state == PW_STREAM_STATE_UNCONNECTED || (state == PW_STREAM_STATE_ERROR && !waits);
}

/* Somebody may destroy a node, and PipeWire may give one up. It is opened anew after a pause; the others go on. */
static void replace_gone(struct node *n) {
    const bool speaker = n->kind == NODE_SPEAKER, waits = n->microphone_id == SPA_ID_INVALID;
    const bool source = n->source && is_gone(n->source, speaker && waits);
    const bool capture = n->capture && is_gone(n->capture, !speaker && waits);
    const bool pacer = n->pacer && pw_filter_get_state(n->pacer, NULL) <= PW_FILTER_STATE_UNCONNECTED;
    if (source)
        close_source(n);
    if (capture)
        close_capture(n);
    if (pacer)
        close_pacer(n);
    if (source || capture || pacer) {
        mend_later(n);
        survey(n);
    }
}

/* ---- the worker's thread, made as PipeWire makes its own --------------------------------------------------------- */

static int rt_start(void *data, pthread_t *ret, void *(*run)(void *), void *arg) {
    struct node *const n = data;
    struct spa_thread *const thread = spa_thread_utils_create(n->threads, NULL, run, arg);
    if (!thread)
        return errno ? -errno : -EAGAIN;
    *ret = (pthread_t)thread;
    return 0;
}

/* The kernel knows it; the C library does not, where rtkit gave it. 0: none. */
static int loop_priority(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)data, (void)size;
    struct sched_param param = {0};
    sched_getparam(0, &param);
    *(int *)user = param.sched_priority;
    return 0;
}

/* rtkit may give the data loop its priority later; it gives none above RTKIT_MOST. */
static int rt_raise(void *data, pthread_t thread) {
    struct node *const n = data;
    int priority = 0;
    pw_data_loop_invoke(n->data_loop, loop_priority, 0, NULL, 0, true, &priority);
    priority = (priority ? priority : RTKIT_MOST) - 1;
    const int r = spa_thread_utils_acquire_rt(n->threads, (struct spa_thread *)thread, priority > 1 ? priority : 1);
    return r < 0 ? r : 0;
}

static void rt_join(void *data, pthread_t thread) {
    struct node *const n = data;
    spa_thread_utils_join(n->threads, (struct spa_thread *)thread, NULL);
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

static void on_pump(void *data, int fd, uint32_t mask) {
    (void)fd, (void)mask;
    struct node *const n = data;
    pump_dispatch(n->pump);
    publish_latency(n);
    n->dirty = true;
}

static char *copy(const char *text) {
    return text && *text ? strdup(text) : NULL;
}

static int set_microphone(struct node *n, const char *microphone, const char *channel, struct err *err) {
    if (channel_number(channel && *channel ? channel : NULL) == -EINVAL)
        return err_set(err, -EINVAL,
                "channel \"%s\" is neither mix, nor a number from 1 on, nor a channel's name (FL, FR, AUX0...)",
                channel);
    free(n->microphone);
    free(n->channel);
    n->microphone = copy(microphone);
    n->channel = copy(channel);
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
    spa_list_init(&n->objects);
    n->changed = options->changed;
    n->controls = options->controls;
    n->kind = options->kind;
    n->strength = 1;
    n->data = options->data;
    n->microphone_id = SPA_ID_INVALID;
    n->pause_ms = RECONNECT_FIRST_MS;
    n->cycle = UINT64_MAX;
    int r = set_microphone(n, options->microphone, options->channel, err);
    if (r < 0)
        goto fail;
    const bool speaker = n->kind == NODE_SPEAKER, more = n->kind == NODE_MORE_MIC;
    snprintf(n->name, sizeof n->name, "%s%s", speaker ? "enhanced_speaker" : more ? MORE_MIC : MIC,
            more ? options->microphone : "");
    snprintf(n->title, sizeof n->title, "%s%s%s", speaker ? "Enhanced Speaker" : "Enhanced Mic", more ? ": " : "",
            more ? options->microphone : "");
    recall_read(&n->noted, n->name);
    snprintf(n->group, sizeof n->group, "%s-%ld", n->name, (long)getpid());

    n->loop = pw_loop_new(NULL);
    if (!n->loop) {
        r = err_set(err, -EIO, "PipeWire's client library does not start: %s", strerror(errno));
        goto fail;
    }
    pw_loop_enter(n->loop);
    n->entered = true;
    n->context = pw_context_new(n->loop, pw_properties_new(PW_KEY_CONFIG_NAME, CLIENT_CONF, NULL), 0);
    n->data_loop = n->context ? pw_context_get_data_loop(n->context) : NULL;
    if (!n->data_loop) {
        r = err_set(err, -EIO, "PipeWire's client library does not start with its %s: %s", CLIENT_CONF,
                n->context ? "context.num-data-loops is 0" : strerror(errno));
        goto fail;
    }
    n->threads = pw_context_get_object(n->context, SPA_TYPE_INTERFACE_ThreadUtils);
    if (!n->threads)
        n->threads = pw_thread_utils_get();

    const struct rt rt = {.data = n, .start = rt_start, .raise = rt_raise, .raised = rt_raised, .join = rt_join};
    const struct worker_options worker_options = {
        .rt = &rt,
        .engine = options->engine,
        .hop_p99_us = options->hop_p99_us,
        .release = options->release,
        .data = options->data,
    };
    n->reconnect_timer = pw_loop_add_timer(n->loop, on_reconnect, n);
    n->mute_timer = pw_loop_add_timer(n->loop, on_muted, n);
    if (!n->reconnect_timer || !n->mute_timer) {
        r = err_set(err, -EIO, "PipeWire's client library gives no timers: %s", strerror(errno));
        goto fail;
    }
    r = options->worker ? 0 : worker_open(&n->own_worker, &worker_options);
    n->worker = options->worker ? options->worker : n->own_worker;
    if (r == 0)
        r = pump_open(&n->pump, n->worker);
    if (r < 0) {
        err_set(err, r, "the pump does not start: %s", strerror(-r));
        goto fail;
    }
    snprintf(n->latency, sizeof n->latency, "%u/%u", worker_hop(n->worker), PUMP_RATE);
    n->pump_source = pw_loop_add_io(n->loop, pump_fd(n->pump), SPA_IO_IN, false, on_pump, n);
    if (!n->pump_source) {
        r = err_set(err, -EIO, "the pump cannot be watched: %s", strerror(errno));
        goto fail;
    }
    reconnect(n);
    *ret = n;
    return 0;
fail:
    if (!options->worker && !n->own_worker)
        options->release(options->data, options->engine);
    node_close(n);
    return r;
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
    if (n->reconnect_timer)
        pw_loop_destroy_source(n->loop, n->reconnect_timer);
    if (n->mute_timer)
        pw_loop_destroy_source(n->loop, n->mute_timer);
    if (n->context)
        pw_context_destroy(n->context);
    if (n->entered)
        pw_loop_leave(n->loop);
    if (n->loop)
        pw_loop_destroy(n->loop);
    free(n->microphone);
    free(n->channel);
    free(n);
    pw_deinit();
}

int node_fd(const struct node *n) {
    return pw_loop_get_fd(n->loop);
}

int node_dispatch(struct node *n) {
    const int r = pw_loop_iterate(n->loop, 0);
    if (r < 0 && r != -EINTR)
        return r;
    if (n->stale) {
        n->stale = false;
        n->dirty = true; /* who could be chosen may be another, too */
        survey(n);
        replace_gone(n);
    }
    if (n->broken) {
        take_down(n);
        reconnect(n);
    }
    if (n->dirty) {
        n->dirty = false;
        if (n->changed)
            n->changed(n->data);
    }
    return 0;
}

int node_microphone(struct node *n, const char *microphone, const char *channel, struct err *err) {
    const int r = set_microphone(n, microphone, channel, err);
    if (r == 0)
        survey(n); /* changes to it, unless it is what is captured already */
    return r;
}

void node_controls(struct node *n, float strength, bool bypass) {
    if (strength == n->strength && bypass == n->bypass)
        return;
    n->strength = strength;
    n->bypass = bypass;
    if (face(n))
        publish_controls(n);
}

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

void node_status(const struct node *n, struct node_status *ret) {
    struct pump_stats stats;
    pump_stats(n->pump, &stats);
    *ret = (struct node_status){
        .connected = n->core != NULL,
        .has_microphone = n->microphone_id != SPA_ID_INVALID,
        .n_consumers = atomic_load(&n->n_consumers),
        .n_recorders = n->n_recorders,
        .rate = atomic_load(&n->rate),
        .delay = stats.delay,
        .lacks_channel = n->microphone_id != SPA_ID_INVALID && channel_number(n->channel) && !find_channel(n),
    };
    const struct object *const microphone = find_node(n, n->microphone_id);
    if (microphone) {
        memcpy(ret->microphone, microphone->description, sizeof ret->microphone);
        memcpy(ret->microphone_name, microphone->name, sizeof ret->microphone_name);
    }
}

bool node_knows(const struct node *n, enum node_kind kind, const char *device) {
    const struct object *o;
    if (!n->answered)
        return true;
    spa_list_for_each(o, &n->objects, list) {
        if (o->type == OBJECT_NODE && (kind == NODE_SPEAKER ? o->sink && strcmp(o->name, device) == 0
                                                            : o->microphone && microphone_fits(device, o->name, o->description)))
            return true;
    }
    return false;
}

void node_microphones(const struct node *n, node_each *each, void *data) {
    const struct object *o;
    spa_list_for_each(o, &n->objects, list) {
        if (o->type == OBJECT_NODE && o->microphone)
            each(data, &(struct node_peer){o->name, o->description, o->id == n->microphone_id, false});
    }
}

void node_recorders(const struct node *n, node_each *each, void *data) {
    const uint32_t us = face(n) ? pw_stream_get_node_id(face(n)) : SPA_ID_INVALID;
    const bool speaker = n->kind == NODE_SPEAKER;
    const struct object *link;
    spa_list_for_each(link, &n->objects, list) {
        if (link->type != OBJECT_LINK || (speaker ? link->to : link->from) != us)
            continue;
        const struct object *const o = find_node(n, speaker ? link->from : link->to);
        if (o)
            each(data, &(struct node_peer){o->name, o->application[0] ? o->application : o->description, false, o->brought_back});
    }
}
