#include "graph/streams.h"

#include "base/busfault.h"
#include "graph/channel.h"
#include "graph/guard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SILENT_CYCLES 3 /* without the capture stream before the pacer drives the source */
/* Triggers in a row at the same clock, of which a cycle has two at most. Before 1.0.4, PipeWire finds memory that it
 * shares by its file descriptor's number: where a new driver has the number of one that is gone, the streams get the
 * old one's clock. */
#define FROZEN_TRIGGERS 32
#define INAUDIBLE 1e-10f        /* a tenth of a 32-bit sample's last bit: what a resampler's filter leaves of silence */
#define VOICE "primeknet.voice" /* a property of the visible node */

struct pw_stream *streams_visible(const struct streams *s) {
    return s->kind == NODE_SPEAKER ? s->capture : s->source;
}

/* ---- the data loop ----------------------------------------------------------------------------------------------- */

static unsigned n_samples(const struct pw_buffer *b) {
    const unsigned n = b->buffer->datas[0].chunk->size / (unsigned)sizeof(float);
    return b->buffer->n_datas > 1 && n > MIXED_MAX ? MIXED_MAX : n;
}

static const float *samples(const struct pw_buffer *b, unsigned input) {
    const struct spa_data *const d = &b->buffer->datas[input];
    return SPA_PTROFF(d->data, d->chunk->offset, const float);
}

/* Mixes at equal power, so that a single used input stays audible. */
static const float *mix_inputs(struct streams *s, const struct pw_buffer *b, unsigned n) {
    const unsigned n_inputs = b->buffer->n_datas;
    const float gain = 1 / sqrtf((float)n_inputs);
    memset(s->mixed, 0, n * sizeof *s->mixed);
    for (unsigned input = 0; input < n_inputs; input++) {
        const float *const from = samples(b, input);
        for (unsigned i = 0; i < n; i++)
            s->mixed[i] += gain * from[i];
    }
    return s->mixed;
}

static void follow_sound(struct streams *s, const float *from, unsigned n) {
    bool sounds = atomic_load_explicit(&s->sounds, memory_order_relaxed);
    for (unsigned i = 0; i < n && !sounds; i++)
        if ((sounds = fabsf(from[i]) > INAUDIBLE))
            atomic_store_explicit(&s->sounds, true, memory_order_relaxed);
}

/* Returns a block of the capture stream, without echo if echo cancellation is on. */
static const float *heard(struct streams *s, const struct pw_buffer *b) {
    struct canceller *c = s->loop.canceller;
    const unsigned n = n_samples(b);
    const float *const from = b->buffer->n_datas > 1 ? mix_inputs(s, b, n) : samples(b, 0);
    follow_sound(s, from, n);
    return c ? canceller_process(c, s->loop.nsec, from, n) : from;
}

/* Returns the samples of a graph cycle at PUMP_RATE; 0: unknown. */
static unsigned cycle_samples(const struct spa_io_clock *clock) {
    return clock->rate.denom ? (unsigned)(clock->duration * PUMP_RATE / clock->rate.denom) : 0;
}

/* Returns the samples that the source's converter requests in a call. PipeWire 0.3.65 computes `requested` at the end
 * of the cycle before, so after a change of quantum it may be too large (the rest would stay in the converter, as
 * delay) or too small (then the converter asks for the rest in another call). */
static unsigned wanted_samples(const struct pw_buffer *out, bool changed, unsigned due) {
    const unsigned room = out->buffer->datas[0].maxsize / (unsigned)sizeof(float);
    uint64_t n = out->requested ? out->requested : due;
    if (changed && due && n > due)
        n = due;
    return n < room ? (unsigned)n : room;
}

/* Notes the cycle's clock. Returns whether the graph has another quantum or rate than in the last cycle. */
static bool follow_clock(struct streams *s) {
    const struct spa_io_clock *const clock = &s->loop.clock->clock;
    const bool changed = clock->duration != s->loop.duration || clock->rate.denom != s->loop.rate;
    s->loop.duration = clock->duration;
    s->loop.rate = clock->rate.denom;
    atomic_store_explicit(&s->rate, clock->rate.denom, memory_order_relaxed);
    return changed;
}

/* The newest block of the capture stream, or NULL. Older ones are left from cycles that the source missed: they must
 * not delay what follows. */
static struct pw_buffer *take_input(struct streams *s, bool wanted) {
    struct pw_buffer *in = NULL, *newer;
    while (s->loop.input && (newer = pw_stream_dequeue_buffer(s->loop.input))) {
        if (in) {
            if (wanted)
                pump_process(s->pump, heard(s, in), n_samples(in), NULL, 0);
            pw_stream_queue_buffer(s->loop.input, in);
        }
        in = newer;
    }
    return in;
}

static void give(struct streams *s, struct pw_buffer *out, unsigned n) {
    struct spa_data *const d = &out->buffer->datas[0];
    d->chunk->offset = 0;
    d->chunk->stride = sizeof(float);
    d->chunk->size = n * (unsigned)sizeof(float);
    pw_stream_queue_buffer(s->source, out);
}

/* Whether somebody records. Restarts the pump when that becomes true. */
static bool is_wanted(struct streams *s, bool *begins) {
    const bool wanted = atomic_load(&s->n_consumers) > 0;
    *begins = wanted && (atomic_exchange(&s->begin, false) || s->loop.idle);
    if (*begins)
        pump_restart(s->pump);
    s->loop.idle = !wanted;
    return wanted;
}

/* A cycle's first call: moves the captured block, or silence while no microphone sends, into the pump. out may be NULL.
 * Returns the samples written to it. */
static unsigned first_part(struct streams *s, struct pw_buffer *out) {
    bool begins;
    const bool changed = follow_clock(s), wanted = is_wanted(s, &begins);
    const unsigned due = cycle_samples(&s->loop.clock->clock);
    const unsigned n_out = out ? wanted_samples(out, changed, due) : 0;
    struct pw_buffer *const in = take_input(s, wanted);
    const unsigned n_in = in ? n_samples(in) : 0;
    if (s->loop.canceller && (begins || !n_in))
        canceller_restart(s->loop.canceller);
    const float *const from = n_in ? heard(s, in) : NULL;
    float *const to = out ? out->buffer->datas[0].data : NULL;
    if (wanted)
        pump_process(s->pump, from, n_in ? n_in : n_out, to, n_out);
    else if (out)
        memset(to, 0, n_out * sizeof *to);
    if (in)
        pw_stream_queue_buffer(s->loop.input, in);
    if (wanted && n_in && n_out)
        atomic_fetch_add_explicit(&s->n_blocks, 1, memory_order_relaxed);
    return n_out;
}

/* The converter asks again in the same cycle for what the first call left out. */
static unsigned next_part(struct streams *s, struct pw_buffer *out) {
    float *const to = out->buffer->datas[0].data;
    const unsigned n = wanted_samples(out, false, 0);
    if (s->loop.idle)
        memset(to, 0, n * sizeof *to);
    else
        pump_process(s->pump, NULL, 0, to, n);
    return n;
}

/* Gives the source's converter everything that it requests, in each call: it keeps a part that does not fill a cycle,
 * and if the next quantum is not longer than this part, PipeWire (0.3.65, 1.4) never runs the stream again. So a
 * recorder that is not known yet gets silence rather than nothing. */
static void on_source_process(void *data) {
    struct streams *const s = data;
    struct pw_buffer *const out = pw_stream_dequeue_buffer(s->source);
    unsigned n = 0;
    if (s->loop.begins && s->loop.clock)
        n = first_part(s, out);
    else if (out)
        n = next_part(s, out);
    s->loop.begins = false;
    if (out)
        give(s, out, n);
}

static void on_echo_process(void *data) {
    struct streams *const s = data;
    struct pw_buffer *b;
    while ((b = pw_stream_dequeue_buffer(s->echo))) {
        if (s->loop.canceller && s->loop.clock)
            canceller_played(s->loop.canceller, s->loop.clock->clock.nsec, samples(b, 0), n_samples(b));
        pw_stream_queue_buffer(s->echo, b);
    }
}

/* Runs the source once in a cycle: after the capture stream, or in its place while no microphone sends. */
static void trigger(struct streams *s) {
    if (!atomic_load(&s->running) || !s->loop.clock)
        return;
    const struct spa_io_clock *const clock = &s->loop.clock->clock;
    if (clock->position == s->loop.position && clock->nsec == s->loop.nsec) {
        if (++s->loop.n_repeats == FROZEN_TRIGGERS)
            pw_loop_signal_event(s->owner_loop, s->frozen);
        return;
    }
    s->loop.n_repeats = 0;
    s->loop.position = clock->position;
    s->loop.nsec = clock->nsec;
    s->loop.begins = true;
    pw_stream_trigger_process(s->source);
}

static void on_capture_process(void *data) {
    struct streams *const s = data;
    if (!s->loop.input)
        return;
    s->loop.n_silent = 0;
    trigger(s);
}

/* Runs in every cycle while somebody records, before the capture stream or after it. If that stays away, no microphone
 * sends, and without a trigger the recorders would stall. A single missed cycle needs none. */
static void on_pacer_process(void *data, struct spa_io_position *position) {
    (void)position;
    struct streams *const s = data;
    atomic_fetch_add_explicit(&s->n_cycles, 1, memory_order_relaxed);
    if (!s->loop.input || s->loop.n_silent > SILENT_CYCLES)
        trigger(s);
    else
        s->loop.n_silent++;
}

static int clock_from(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)size;
    struct streams *const s = user;
    s->loop.clock = *(struct spa_io_position *const *)data;
    busfault_survive(); /* nothing runs here before the source has a clock */
    return 0;
}

/* Called on the main thread. When it returns, the data loop no longer reads the former area, which may go. */
static void set_clock(struct streams *s, void *area) {
    pw_data_loop_invoke(s->data_loop, clock_from, 0, &area, sizeof area, true, s);
}

static void on_source_io(void *data, uint32_t id, void *area, uint32_t size) {
    (void)size;
    if (id == SPA_IO_Position)
        set_clock(data, area);
}

static int input_from(struct spa_loop *loop, bool async, uint32_t seq, const void *data, size_t size, void *user) {
    (void)loop, (void)async, (void)seq, (void)size;
    struct streams *const s = user;
    s->loop.input = *(struct pw_stream *const *)data;
    s->loop.canceller = s->loop.input ? s->canceller : NULL;
    return 0;
}

/* When it returns, the data loop no longer reads the former stream. */
static void set_input(struct streams *s, struct pw_stream *stream) {
    pw_data_loop_invoke(s->data_loop, input_from, 0, &stream, sizeof stream, true, s);
}

/* ---- reports of the pump ----------------------------------------------------------------------------------------- */

void streams_stats(const struct streams *s, struct pump_stats *ret) {
    pump_stats(s->pump, ret);
    if (s->canceller)
        ret->delay += canceller_delay(s->canceller);
}

/* As node.latency; false: it is the same as before. A speaker leaves it to the output. */
static bool wanted_quantum(struct streams *s, unsigned hop, char latency[32]) {
    const bool same = s->kind == NODE_SPEAKER || s->quantum == hop;
    s->quantum = hop;
    snprintf(latency, 32, "%u/%u", hop, PUMP_RATE);
    return !same;
}

static uint64_t to_ns(uint64_t samples, uint64_t rate) {
    return (samples * 1000000000 + rate / 2) / rate;
}

/* If the graph has another rate, both streams hold samples in their resamplers, counted at the input's rate. */
static uint64_t latency_ns(const struct streams *s, unsigned delay) {
    struct pw_time in = {0}, out = {0};
    if (s->capture)
        pw_stream_get_time_n(s->capture, &in, sizeof in);
    pw_stream_get_time_n(s->source, &out, sizeof out);
    const uint64_t ns = to_ns(delay + out.buffered, PUMP_RATE);
    return in.rate.denom ? ns + to_ns(in.buffered * in.rate.num, in.rate.denom) : ns;
}

static void publish(struct pw_stream *stream, const char *key, const char *value) {
    const struct spa_dict_item item = SPA_DICT_ITEM_INIT(key, value);
    if (stream)
        pw_stream_update_properties(stream, &SPA_DICT_INIT(&item, 1));
}

void streams_set_title(struct streams *s) {
    publish(streams_visible(s), PW_KEY_NODE_DESCRIPTION, s->title);
}

void streams_publish(struct streams *s) {
    struct pw_stream *const visible = streams_visible(s);
    struct pump_stats stats;
    char latency[32];
    streams_stats(s, &stats);
    const bool known = atomic_load(&s->n_consumers) && isfinite(stats.speech);
    const char *const voice = !known ? "unknown" : stats.speaks ? "true" : "false";
    if (s->source && wanted_quantum(s, stats.hop, latency))
        publish(s->source, PW_KEY_NODE_LATENCY, latency);
    if (s->source && visible)
        params_publish_latency(s->params, visible, latency_ns(s, stats.delay));
    if (visible && strcmp(s->voice, voice) != 0) {
        s->voice = voice;
        publish(visible, VOICE, voice);
    }
}

/* ---- states and parameters --------------------------------------------------------------------------------------- */

static void publish_anew(struct streams *s) {
    s->params->published_ns = 0;
    streams_publish(s);
}

/* After a client has suspended the visible stream alone, as pactl suspend-source and suspend-sink do, PipeWire 0.3.65
 * allocates buffers only for one of its clients: the others would be silent for good. A change of the graph's rate
 * suspends every node, and PipeWire then allocates buffers for all clients. */
static void follow_suspension(struct streams *s, struct pw_stream *stream, enum pw_stream_state state) {
    if (stream != streams_visible(s) || state != PW_STREAM_STATE_STREAMING)
        return;
    if (s->suspended.visible && !s->suspended.device && s->capture && s->source)
        s->renews = true;
    s->suspended.visible = s->suspended.device = false;
}

static void on_state(struct streams *s, struct pw_stream *stream, enum pw_stream_state state) {
    follow_suspension(s, stream, state);
    if (stream == streams_visible(s) && state == PW_STREAM_STATE_PAUSED) /* its ports are new */
        publish_anew(s);
    s->changed(s->data);
}

static void on_param(struct streams *s, struct pw_stream *stream, uint32_t id, const struct spa_pod *param) {
    const bool visible = stream == streams_visible(s);
    if (id == SPA_PARAM_Format && !visible)
        s->suspended.formatless = !param;
    else if (id == SPA_PARAM_Format && !param)
        s->suspended.visible |= atomic_load(&s->n_consumers) > 0;
    s->suspended.device |= s->suspended.visible && s->suspended.formatless;
    if (visible) {
        params_set(s->params, id, param);
        if (id == SPA_PARAM_Format && param) /* PipeWire 1.4 may have made its ports after the pause began */
            publish_anew(s);
    } else if (params_device(s->params, id, param)) {
        streams_publish(s);
    }
}

static void on_source_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)old, (void)error;
    struct streams *const s = data;
    atomic_store(&s->running, state == PW_STREAM_STATE_STREAMING);
    on_state(s, s->source, state);
}

static void on_source_param(void *data, uint32_t id, const struct spa_pod *param) {
    struct streams *const s = data;
    on_param(s, s->source, id, param);
}

static void on_capture_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)old, (void)error;
    struct streams *const s = data;
    if (state == PW_STREAM_STATE_PAUSED && s->source) /* old blocks would add to the delay */
        pw_stream_flush(s->capture, false);
    if (state == PW_STREAM_STATE_STREAMING)
        atomic_store(&s->sounds, false);
    on_state(s, s->capture, state);
}

static void on_capture_param(void *data, uint32_t id, const struct spa_pod *param) {
    struct streams *const s = data;
    on_param(s, s->capture, id, param);
}

static void on_echo_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)old, (void)error;
    struct streams *const s = data;
    if (state == PW_STREAM_STATE_PAUSED) /* the far end before the pause causes no echo after it */
        pw_stream_flush(s->echo, false);
    s->changed(s->data);
}

static void on_pacer_state(void *data, enum pw_filter_state old, enum pw_filter_state state, const char *error) {
    (void)old, (void)state, (void)error;
    struct streams *const s = data;
    s->changed(s->data);
}

static const struct pw_stream_events capture_events = {
    PW_VERSION_STREAM_EVENTS,
    .process = on_capture_process,
    .param_changed = on_capture_param,
    .state_changed = on_capture_state,
};

static const struct pw_stream_events source_events = {
    PW_VERSION_STREAM_EVENTS,         .process = on_source_process,     .io_changed = on_source_io,
    .param_changed = on_source_param, .state_changed = on_source_state,
};

static const struct pw_stream_events echo_events = {
    PW_VERSION_STREAM_EVENTS,
    .process = on_echo_process,
    .state_changed = on_echo_state,
};

static const struct pw_filter_events pacer_events = {
    PW_VERSION_FILTER_EVENTS,
    .process = on_pacer_process,
    .state_changed = on_pacer_state,
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int connect_stream(const struct streams *s, struct pw_stream *stream, enum pw_direction direction,
                          uint32_t channel, unsigned n_inputs, enum pw_stream_flags flags) {
    const bool visible = stream == streams_visible(s);
    uint8_t buffer[2048];
    struct spa_pod_builder builder = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    struct spa_audio_info_raw info = SPA_AUDIO_INFO_RAW_INIT(.format = SPA_AUDIO_FORMAT_F32P, .rate = PUMP_RATE,
                                                             .channels = 1, .position = {channel});
    for (unsigned i = 0; i < n_inputs; i++)
        info.position[i] = SPA_AUDIO_CHANNEL_AUX0 + i;
    if (n_inputs)
        info.channels = n_inputs;
    /* A block is returned only after its stream's own turn, so a single buffer would serve every other cycle. */
    const struct spa_pod *params[2 + PARAMS_CONTROLS] = {
        spa_format_audio_raw_build(&builder, SPA_PARAM_EnumFormat, &info),
        spa_pod_builder_add_object(&builder, SPA_TYPE_OBJECT_ParamBuffers, SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_buffers,
                                   SPA_POD_CHOICE_RANGE_Int(4, 2, 16))};
    if (visible)
        params_build(s->params, &builder, params + 2);
    const int r = pw_stream_connect(stream, direction, PW_ID_ANY,
                                    flags | PW_STREAM_FLAG_AUTOCONNECT | PW_STREAM_FLAG_MAP_BUFFERS |
                                        PW_STREAM_FLAG_RT_PROCESS,
                                    params, visible ? 2 + PARAMS_CONTROLS : 2);
    guard_add(pw_stream_get_core(stream), true);
    return r;
}

/* Adds the properties that both streams and the pacer share: they are scheduled together, run on one data loop even
 * where PipeWire (from 1.2 on) has several, and are never linked to each other. part: "" for the visible stream. */
static struct pw_properties *share(const struct streams *s, const char *part, const char *part_title,
                                   struct pw_properties *p) {
    if (!p)
        return NULL;
    pw_properties_set(p, PW_KEY_NODE_GROUP, s->name);
    pw_properties_set(p, PW_KEY_NODE_LINK_GROUP, s->name);
    pw_properties_set(p, PW_KEY_NODE_VIRTUAL, "true");
    pw_properties_set(p, "resample.prefill", "true");
#if PW_CHECK_VERSION(1, 2, 0)
    pw_properties_set(p, PW_KEY_NODE_LOOP_NAME, pw_data_loop_get_loop(s->data_loop)->name);
#endif
    pw_properties_setf(p, PW_KEY_NODE_NAME, "%s%s", part, s->name);
    pw_properties_setf(p, PW_KEY_NODE_DESCRIPTION, "%s%s", s->title, part_title);
    return p;
}

static struct pw_properties *visible_properties(struct streams *s, const char *class) {
    s->voice = "unknown";
    s->suspended.visible = s->suspended.device = s->renews = false;
    return share(s, "", "", pw_properties_new(PW_KEY_MEDIA_CLASS, class, VOICE, s->voice, NULL));
}

/* Of a stream that people do not choose, for which the session manager finds a device: target, or "" for the default.
 * Passive: alone it keeps no microphone awake, and no output. */
static struct pw_properties *hidden_properties(const struct streams *s, const char *part, const char *part_title,
                                               const char *category, const char *target) {
    return share(s, part, part_title,
                 pw_properties_new(PW_KEY_MEDIA_TYPE, "Audio", PW_KEY_MEDIA_CATEGORY, category, PW_KEY_MEDIA_ROLE,
                                   "DSP", PW_KEY_NODE_PASSIVE, "true", PW_KEY_TARGET_OBJECT, target[0] ? target : NULL,
                                   NULL));
}

static struct pw_properties *device_properties(struct streams *s, const char *part, const char *part_title,
                                               const char *category, const char *target) {
    snprintf(s->target, sizeof s->target, "%s", target);
    s->suspended.formatless = true;
    s->suspended.device |= s->suspended.visible;
    return hidden_properties(s, part, part_title, category, s->target);
}

int streams_open_capture(struct streams *s, struct pw_core *core, const char *target, const char *channel,
                         unsigned n_inputs, struct canceller *canceller) {
    const bool speaker = s->kind == NODE_SPEAKER;
    struct pw_properties *const p = speaker ? visible_properties(s, "Audio/Sink")
                                            : device_properties(s, "capture.", "'s input", "Capture", target);
    if (!p)
        return -ENOMEM;
    snprintf(s->channel, sizeof s->channel, "%s", channel);
    s->n_inputs = n_inputs;
    atomic_store(&s->sounds, false);
    const uint32_t position = channel_position(s->channel);
    pw_properties_set(p, "channelmix.normalize", "true"); /* or two channels add up */
    if (position != SPA_AUDIO_CHANNEL_MONO || n_inputs)
        pw_properties_set(p, PW_KEY_STREAM_DONT_REMIX, "true"); /* these channels alone */
    if (!speaker)
        s->params->device = SPA_LATENCY_INFO(SPA_DIRECTION_OUTPUT);
    s->capture = pw_stream_new(core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!s->capture)
        return -errno;
    pw_stream_add_listener(s->capture, &s->capture_listener, &capture_events, s);
    s->canceller = canceller;
    set_input(s, s->quiet ? NULL : s->capture);
    return connect_stream(s, s->capture, PW_DIRECTION_INPUT, position, n_inputs, PW_STREAM_FLAG_NONE);
}

static void close_echo(struct streams *s) {
    if (!s->echo)
        return;
    spa_hook_remove(&s->echo_listener);
    pw_stream_destroy(s->echo);
    s->echo = NULL;
}

int streams_follow_played(struct streams *s, struct pw_core *core, const char *played) {
    const bool wanted = s->capture && s->canceller;
    if (wanted && s->echo && strcmp(s->played, played) == 0)
        return 0;
    close_echo(s);
    if (!wanted)
        return 0;
    snprintf(s->played, sizeof s->played, "%s", played);
    struct pw_properties *const p = hidden_properties(s, "echo.", "'s echo", "Capture", s->played);
    if (!p)
        return -ENOMEM;
    pw_properties_set(p, PW_KEY_STREAM_CAPTURE_SINK, "true");
    pw_properties_set(p, "channelmix.normalize", "true");
    s->echo = pw_stream_new(core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!s->echo)
        return -errno;
    pw_stream_add_listener(s->echo, &s->echo_listener, &echo_events, s);
    return connect_stream(s, s->echo, PW_DIRECTION_INPUT, SPA_AUDIO_CHANNEL_MONO, 0, PW_STREAM_FLAG_NONE);
}

void streams_close_capture(struct streams *s) {
    close_echo(s);
    if (!s->capture)
        return;
    set_input(s, NULL);
    spa_hook_remove(&s->capture_listener);
    pw_stream_destroy(s->capture);
    s->capture = NULL;
    s->canceller = NULL;
}

int streams_open_source(struct streams *s, struct pw_core *core, const char *target) {
    const bool speaker = s->kind == NODE_SPEAKER;
    struct pw_properties *const p = speaker ? device_properties(s, "playback.", "'s output", "Playback", target)
                                            : visible_properties(s, "Audio/Source");
    if (!p)
        return -ENOMEM;
    if (!speaker) /* PipeWire 0.3.65 runs what wants a driver, linked or not */
        pw_properties_set(p, PW_KEY_NODE_WANT_DRIVER, "false");
    if (speaker)
        s->params->device = SPA_LATENCY_INFO(SPA_DIRECTION_INPUT);
    s->quantum = 0;
    struct pump_stats stats;
    char latency[32];
    streams_stats(s, &stats);
    if (wanted_quantum(s, stats.hop, latency))
        pw_properties_set(p, PW_KEY_NODE_LATENCY, latency);
    s->loop.idle = true;
    s->source = pw_stream_new(core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!s->source)
        return -errno;
    pw_stream_add_listener(s->source, &s->source_listener, &source_events, s);
    return connect_stream(s, s->source, PW_DIRECTION_OUTPUT, SPA_AUDIO_CHANNEL_MONO, 0, PW_STREAM_FLAG_TRIGGER);
}

static void close_source(struct streams *s) {
    if (!s->source)
        return;
    spa_hook_remove(&s->source_listener);
    atomic_store(&s->running, false);
    set_clock(s, NULL); /* waits for a trigger that is under way */
    pw_stream_destroy(s->source);
    s->source = NULL;
}

/* The pacer wants a driver, as libpipewire's filters do, and so runs when a recorder does. With node.always-process it
 * would also run while PipeWire restarts a graph for a forced quantum. PipeWire would take this for the end of the
 * force, restore the old quantum, find the force again, and start over, for seconds. */
int streams_open_pacer(struct streams *s, struct pw_core *core) {
    struct pw_properties *const p = share(s, "pacer.", "'s pace", pw_properties_new(NULL, NULL));
    if (!p)
        return -ENOMEM;
    s->pacer = pw_filter_new(core, pw_properties_get(p, PW_KEY_NODE_DESCRIPTION), p);
    if (!s->pacer)
        return -errno;
    pw_filter_add_listener(s->pacer, &s->pacer_listener, &pacer_events, s);
    s->pacing = false;
    const int r = pw_filter_connect(s->pacer, PW_FILTER_FLAG_INACTIVE | PW_FILTER_FLAG_RT_PROCESS, NULL, 0);
    guard_add(core, false);
    return r;
}

static void close_pacer(struct streams *s) {
    if (!s->pacer)
        return;
    spa_hook_remove(&s->pacer_listener);
    pw_filter_destroy(s->pacer);
    s->pacer = NULL;
}

void streams_close(struct streams *s) {
    streams_close_capture(s);
    close_pacer(s);
    close_source(s);
    atomic_store(&s->rate, 0);
}

/* PipeWire may report an error while a stream waits for a microphone or an output; that passes. */
static bool is_lost(struct pw_stream *stream, bool waits) {
    const enum pw_stream_state state = stream ? pw_stream_get_state(stream, NULL) : PW_STREAM_STATE_PAUSED;
    return state == PW_STREAM_STATE_UNCONNECTED || (state == PW_STREAM_STATE_ERROR && !waits);
}

bool streams_close_lost(struct streams *s, bool waits) {
    const bool speaker = s->kind == NODE_SPEAKER;
    const bool source = is_lost(s->source, speaker && waits) || (s->source && s->renews && !speaker);
    const bool capture = is_lost(s->capture, !speaker && waits) || (s->capture && s->renews && speaker);
    const bool echo = is_lost(s->echo, true);
    const bool pacer = s->pacer && pw_filter_get_state(s->pacer, NULL) <= PW_FILTER_STATE_UNCONNECTED;
    s->renews = false;
    if (source)
        close_source(s);
    if (capture)
        streams_close_capture(s);
    if (echo)
        close_echo(s);
    if (pacer)
        close_pacer(s);
    return source || capture || echo || pacer;
}

/* ---- while they are open ----------------------------------------------------------------------------------------- */

uint32_t streams_capture_id(const struct streams *s) {
    return s->capture ? pw_stream_get_node_id(s->capture) : SPA_ID_INVALID;
}

uint32_t streams_source_id(const struct streams *s) {
    return s->source ? pw_stream_get_node_id(s->source) : SPA_ID_INVALID;
}

static bool runs(struct pw_stream *stream) {
    return stream && pw_stream_get_state(stream, NULL) == PW_STREAM_STATE_STREAMING;
}

bool streams_run(const struct streams *s) {
    return runs(s->capture) && runs(s->source);
}

void streams_set_quiet(struct streams *s, bool quiet) {
    if (s->quiet == quiet)
        return;
    s->quiet = quiet;
    set_input(s, quiet ? NULL : s->capture);
}

void streams_set_pacing(struct streams *s, bool pacing) {
    if (!s->pacer || s->pacing == pacing)
        return;
    s->pacing = pacing;
    pw_filter_set_active(s->pacer, pacing);
}

void streams_set_consumers(struct streams *s, unsigned n) {
    const unsigned before = atomic_load(&s->n_consumers);
    if (n == before)
        return;
    if (before == 0)
        atomic_store(&s->begin, true);
    atomic_store(&s->n_consumers, n);
    pump_rest(s->pump, n == 0);
}

void streams_flush(struct streams *s) {
    if (s->capture)
        pw_stream_flush(s->capture, false);
    if (s->source)
        pw_stream_flush(s->source, false);
}

unsigned streams_blocks(const struct streams *s) {
    return atomic_load(&s->n_blocks);
}

bool streams_sound(const struct streams *s) {
    return atomic_load(&s->sounds);
}

unsigned streams_cycles(struct streams *s) {
    return s->kind == NODE_SPEAKER ? atomic_fetch_add(&s->n_cycles, 1) : atomic_load(&s->n_cycles);
}
