/* bench/first [TIMES [PAUSE_MS]]: how long a recorder of Enhanced Mic waits for sound. Records TIMES (50) times with
 * pauses of PAUSE_MS (3000), from pw_stream_connect on, and prints the 50th and 99th percentile of the time to the
 * first block, to the first sample that is not 0, and of what WirePlumber took to link the recorder, in ms. LATENCY
 * (480/48000) is what it asks for. Run it inside tests/pipewire-session, with a daemon and noise in the
 * microphone. */
#include <pipewire/pipewire.h>
#include <spa/param/audio/format-utils.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMES_MAX = 10000 };

static struct pw_main_loop *loop;
static struct pw_stream *stream;
static double began, linked, block, sound; /* ms; 0: not yet */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void on_process(void *data) {
    (void)data;
    struct pw_buffer *const b = pw_stream_dequeue_buffer(stream);
    if (!b)
        return;
    const struct spa_data *const d = &b->buffer->datas[0];
    const float *const x = SPA_PTROFF(d->data, d->chunk->offset, const float);
    if (block == 0)
        block = now();
    for (unsigned i = 0; sound == 0 && i < d->chunk->size / sizeof *x; i++)
        if (x[i] != 0)
            sound = now();
    pw_stream_queue_buffer(stream, b);
    if (sound != 0)
        pw_main_loop_quit(loop);
}

static void on_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error) {
    (void)data, (void)old, (void)error;
    if (state == PW_STREAM_STATE_STREAMING && linked == 0)
        linked = now();
}

static const struct pw_stream_events events = {
    PW_VERSION_STREAM_EVENTS,
    .process = on_process,
    .state_changed = on_state,
};

static void on_timeout(void *data, uint64_t n) {
    (void)data, (void)n;
    pw_main_loop_quit(loop);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, double *ms, int n) {
    qsort(ms, n, sizeof *ms, compare);
    printf("%s\tp50 %.1f\tp99 %.1f\tleast %.1f\tmost %.1f\n", what, ms[n / 2], ms[(n * 99 - 1) / 100], ms[0],
           ms[n - 1]);
}

static void record(struct pw_core *core) {
    uint8_t buffer[1024];
    struct spa_pod_builder builder = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    const struct spa_pod *const param = spa_format_audio_raw_build(
        &builder, SPA_PARAM_EnumFormat,
        &SPA_AUDIO_INFO_RAW_INIT(.format = SPA_AUDIO_FORMAT_F32, .rate = 48000, .channels = 1));
    const char *const latency = getenv("LATENCY");
    stream = pw_stream_new(core, "first",
                           pw_properties_new(PW_KEY_MEDIA_TYPE, "Audio", PW_KEY_MEDIA_CATEGORY, "Capture",
                                             PW_KEY_MEDIA_ROLE, "Communication", PW_KEY_TARGET_OBJECT, "enhanced_mic",
                                             PW_KEY_NODE_LATENCY, latency ? latency : "480/48000", NULL));
    static struct spa_hook listener;
    spa_zero(listener);
    pw_stream_add_listener(stream, &listener, &events, NULL);
    linked = block = sound = 0;
    began = now();
    pw_stream_connect(stream, PW_DIRECTION_INPUT, PW_ID_ANY, PW_STREAM_FLAG_AUTOCONNECT | PW_STREAM_FLAG_MAP_BUFFERS,
                      (const struct spa_pod **)&param, 1);
}

int main(int argc, char **argv) {
    const int times = argc > 1 ? atoi(argv[1]) : 50, pause_ms = argc > 2 ? atoi(argv[2]) : 3000;
    static double blocks[TIMES_MAX], sounds[TIMES_MAX], links[TIMES_MAX];
    int n = 0, silent = 0;
    pw_init(&argc, &argv);
    loop = pw_main_loop_new(NULL);
    struct pw_context *const context = pw_context_new(pw_main_loop_get_loop(loop), NULL, 0);
    struct pw_core *const core = pw_context_connect(context, NULL, 0);
    if (!core || times < 1 || times > TIMES_MAX)
        return 1;
    struct spa_source *const timer = pw_loop_add_timer(pw_main_loop_get_loop(loop), on_timeout, NULL);
    for (int i = 0; i < times; i++) {
        struct timespec wait = {.tv_sec = 10}, none = {0};
        record(core);
        pw_loop_update_timer(pw_main_loop_get_loop(loop), timer, &wait, NULL, false);
        pw_main_loop_run(loop);
        if (sound != 0) {
            links[n] = linked - began;
            blocks[n] = block - began;
            sounds[n++] = sound - began;
        } else {
            silent++;
        }
        pw_stream_destroy(stream);
        wait.tv_sec = pause_ms / 1000;
        wait.tv_nsec = pause_ms % 1000 * 1000000L + rand() % 10 * 1000000L;
        pw_loop_update_timer(pw_main_loop_get_loop(loop), timer, &wait, NULL, false);
        pw_main_loop_run(loop);
        pw_loop_update_timer(pw_main_loop_get_loop(loop), timer, &none, NULL, false);
    }
    if (n) {
        print("linked", links, n);
        print("block", blocks, n);
        print("sound", sounds, n);
    }
    printf("%d recordings, %d of them silent for 10 s\n", times, silent);
    return silent > 0;
}
