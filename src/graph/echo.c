#include "config.h"

#include "graph/echo.h"

#include "live/pump.h"

#include <spa/utils/names.h>

#include <errno.h>
#include <string.h>

#define PLUGIN "aec/libspa-aec-webrtc"

enum {
    PAUSE_MS = 1000,      /* after a failure, doubled from here ... */
    PAUSE_MAX_MS = 64000, /* ... to here */
    /* Blocks of noise with which the plugin's delay is measured, and the last of them, which are evaluated: by then the
     * plugin has settled. */
    MEASURED = 40,
    LOOKED_AT = 10,
};

/* ---- the plugin -------------------------------------------------------------------------------------------------- */

static void release(struct echo *e) {
    if (e->handle)
        pw_unload_spa_handle(e->handle);
    e->handle = NULL;
    e->aec = NULL;
}

/* Initialises the plugin without any state. Switches off its noise suppression, which the network does, and its gain
 * control: it must only remove echo. Returns 0 or -errno. */
static int begin(struct echo *e) {
    const struct spa_dict_item items[] = {
        SPA_DICT_ITEM_INIT("webrtc.noise_suppression", "false"),
        SPA_DICT_ITEM_INIT("webrtc.gain_control", "false"),
        SPA_DICT_ITEM_INIT("webrtc.high_pass_filter", "false"),
    };
    const struct spa_audio_info_raw mono = SPA_AUDIO_INFO_RAW_INIT(.format = SPA_AUDIO_FORMAT_F32P, .rate = PUMP_RATE,
                                                                   .channels = 1, .position = {SPA_AUDIO_CHANNEL_MONO});
    const int r = spa_audio_aec_init(e->aec, &SPA_DICT_INIT_ARRAY(items), &mono);
    if (r >= 0)
        spa_audio_aec_activate(e->aec); /* WebRTC's plugin does not need it, and returns an error */
    return r;
}

static int acquire(struct echo *e) {
    const struct spa_dict_item library = SPA_DICT_ITEM_INIT(SPA_KEY_LIBRARY_NAME, PLUGIN);
    void *aec;
    e->handle = pw_context_load_spa_handle(e->context, SPA_NAME_AEC, &SPA_DICT_INIT(&library, 1));
    if (!e->handle)
        return errno ? -errno : -ENOENT;
    const int r = spa_handle_get_interface(e->handle, SPA_TYPE_INTERFACE_AUDIO_AEC, &aec);
    if (r < 0)
        return r;
    e->aec = aec;
    return begin(e);
}

static void run(void *data, const float *mic, const float *played, float *out) {
    struct echo *const e = data;
    spa_audio_aec_run(e->aec, &mic, &played, &out, CANCELLER_BLOCK);
}

static void renew(void *data) {
    begin(data);
}

/* Returns the delay of the plugin in samples, at which noise in and noise out match best. */
static unsigned measure_delay(struct echo *e) {
    static const float silence[CANCELLER_BLOCK];
    enum { N = MEASURED * CANCELLER_BLOCK, FIRST = (MEASURED - LOOKED_AT) * CANCELLER_BLOCK };
    float in[N], out[N];
    uint32_t random = 1;
    for (unsigned i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u; /* Numerical Recipes' */
        in[i] = 0.1f * ((float)(random >> 8) / (1 << 23) - 1);
    }
    for (unsigned i = 0; i < N; i += CANCELLER_BLOCK)
        run(e, in + i, silence, out + i);
    unsigned delay = 0;
    double most = 0;
    for (unsigned lag = 0; lag < CANCELLER_DELAY_MAX; lag++) {
        float agreement = 0;
        for (unsigned i = FIRST; i < N; i++)
            agreement += in[i - lag] * out[i];
        if (agreement > most) {
            most = agreement;
            delay = lag;
        }
    }
    return delay;
}

static void on_delay(void *data) { /* on the canceller's thread */
    struct echo *const e = data;
    pw_loop_signal_event(e->loop, e->delayed);
}

/* ---- the owner --------------------------------------------------------------------------------------------------- */

/* Loads the plugin twice: the instance that processed the noise is discarded. */
static int try_to_load(struct echo *e) {
    int r = acquire(e);
    const unsigned delay = r < 0 ? 0 : measure_delay(e);
    release(e);
    if (r >= 0)
        r = acquire(e);
    if (r >= 0) {
        const struct aec aec = {.data = e, .run = run, .renew = renew, .delay = delay, .changed = on_delay};
        r = canceller_open(&e->canceller, &e->rt, &aec);
    }
    if (r < 0)
        release(e);
    return r;
}

void echo_load(struct echo *e) {
    e->problem.text[0] = '\0';
    const int r = try_to_load(e);
    if (r >= 0) {
        e->pause_ms = 0;
        return;
    }
    e->pause_ms = !e->pause_ms ? PAUSE_MS : e->pause_ms < PAUSE_MAX_MS ? 2 * e->pause_ms : PAUSE_MAX_MS;
    struct timespec in = {.tv_sec = e->pause_ms / 1000};
    pw_loop_update_timer(e->loop, e->timer, &in, NULL, false);
    err_set(&e->problem, r, "PipeWire's echo canceller cannot be loaded (" PLUGIN "): %s; the next attempt is in %u s",
            strerror(-r), e->pause_ms / 1000);
}

void echo_unload(struct echo *e) {
    canceller_close(e->canceller);
    e->canceller = NULL;
    release(e);
    pw_loop_update_timer(e->loop, e->timer, NULL, NULL, false);
    e->pause_ms = 0;
    e->problem.text[0] = '\0';
}

static void on_pause_end(void *data, uint64_t expirations) {
    (void)expirations;
    struct echo *const e = data;
    echo_load(e);
    e->changed(e->data);
}

static void on_delayed(void *data, uint64_t count) {
    (void)count;
    struct echo *const e = data;
    e->changed(e->data);
}

int echo_init(struct echo *e, struct pw_loop *loop, struct pw_context *context, const struct rt *rt) {
    e->loop = loop;
    e->context = context;
    e->rt = *rt;
    e->timer = pw_loop_add_timer(loop, on_pause_end, e);
    e->delayed = pw_loop_add_event(loop, on_delayed, e);
    return e->timer && e->delayed ? 0 : -errno;
}
