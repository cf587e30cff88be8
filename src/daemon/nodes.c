#include "daemon/nodes.h"

#include "control/protocol.h"

#include <math.h>
#include <string.h>

static const char *device_or_null(const char *device) {
    return strcmp(device, "default") == 0 ? NULL : device;
}

int nodes_open(struct nodes *s, const struct settings *settings, const struct node_options *options, struct err *err) {
    struct node_options first = *options;
    first.microphone = device_or_null(settings->microphone);
    first.channel = settings->channel;
    settings_bounds(SETTING_strength, &first.strength_least, &first.strength_greatest);
    *s = (struct nodes){.options = first};
    int res = node_open(&s->all[0].node, &first, err);
    if (res)
        return res;
    s->n = 1;
    s->options.worker = node_worker(s->all[0].node);
    s->options.engine = NULL;
    s->options.channel = NULL;
    return 0;
}

int nodes_microphone(struct nodes *s, const struct settings *settings, struct err *err) {
    struct err why = {0};
    int res = node_microphone(s->all[0].node, device_or_null(settings->microphone), settings->channel, &why);
    return res ? settings_refuse(settings, SETTING_channel, res, why.text, err) : 0;
}

/* Closes the first node last, because it owns the worker. */
void nodes_close(struct nodes *s) {
    while (s->n)
        node_close(s->all[--s->n].node);
}

static bool is_wanted(const struct settings *settings, enum node_kind kind, const char *device) {
    char name[256];
    if (kind == NODE_SPEAKER)
        return strcmp(settings->speaker, device) == 0;
    for (unsigned i = 0; settings_more_microphone(settings, i, name); i++)
        if (strcmp(name, device) == 0)
            return true;
    return false;
}

/* Opens a node, unless it is open already. */
static int open_one(struct nodes *s, enum node_kind kind, const char *device, struct err *err) {
    for (unsigned i = 1; i < s->n; i++)
        if (node_kind(s->all[i].node) == kind && strcmp(s->all[i].device, device) == 0)
            return 0;
    struct node_options options = s->options;
    options.kind = kind;
    options.microphone = device_or_null(device);
    int res = node_open(&s->all[s->n].node, &options, err);
    if (res)
        return res;
    s->all[s->n].told[0] = s->all[s->n].refused[0] = '\0';
    strcpy(s->all[s->n++].device, device);
    return 0;
}

static int follow_devices(struct nodes *s, const struct settings *settings, struct err *err) {
    char name[256];
    int res = 0;
    for (unsigned i = s->n - 1; i > 0; i--) {
        if (is_wanted(settings, node_kind(s->all[i].node), s->all[i].device))
            continue;
        node_close(s->all[i].node);
        s->n--;
        memmove(&s->all[i], &s->all[i + 1], (s->n - i) * sizeof s->all[0]);
    }
    if (strcmp(settings->speaker, "off") != 0)
        res = open_one(s, NODE_SPEAKER, settings->speaker, err);
    for (unsigned i = 0; res == 0 && settings_more_microphone(settings, i, name); i++)
        res = open_one(s, NODE_MORE_MIC, name, err);
    return res;
}

static void set_controls(struct nodes *s, const struct in_force *now) {
    const struct settings *settings = &now->settings;
    struct engine_controls controls = {0}; /* bypass */
    if (!now->bypass)
        controls = (struct engine_controls){.strength = (float)settings->strength,
                                            .floor = (float)pow(10.0, settings->floor_db / 20.0),
                                            .low_cut_hz = (float)settings->low_cut_hz};
    const float level = isfinite(settings->level) ? (float)settings->level : NAN;
    for (unsigned i = 0; i < s->n; i++) {
        node_controls(s->all[i].node, (float)settings->strength, now->bypass);
        pump_control(node_pump(s->all[i].node), controls);
        pump_level(node_pump(s->all[i].node), level);
    }
}

int nodes_follow(struct nodes *s, const struct in_force *now, struct err *err) {
    int res = follow_devices(s, &now->settings, err);
    node_echo(s->all[0].node, now->settings.echo_cancel);
    node_transparent(s->all[0].node, now->settings.transparent);
    set_controls(s, now);
    return res;
}

struct engines_load nodes_load(const struct nodes *s) {
    struct engines_load load = {0};
    for (unsigned i = 0; i < s->n; i++) {
        struct node_status n;
        node_status(s->all[i].node, &n);
        load.heard |= n.n_consumers > 0;
        load.recording |= n.n_recorders > 0;
        load.engine_lost |= n.pump.engine_lost && !n.pump.swapping;
        load.swapping |= n.pump.swapping;
        load.late_hops += n.pump.late_hops;
        load.n_stalls += n.n_stalls;
        load.hop = n.pump.hop > load.hop ? n.pump.hop : load.hop;
        load.share = fmaxf(load.share, (float)n.pump.hop_p50_us * PUMP_RATE / 1e6f / (float)n.pump.hop);
    }
    return load;
}

const char *nodes_state(const struct node *n, bool bypass) {
    struct node_status s;
    node_status(n, &s);
    return !s.connected         ? STATE_NO_PIPEWIRE
           : !s.has_microphone  ? node_kind(n) == NODE_SPEAKER ? STATE_NO_OUTPUT : STATE_NO_MICROPHONE
           : !s.n_consumers     ? STATE_IDLE
           : !s.passes          ? STATE_WAITING
           : s.pump.engine_lost ? STATE_ENGINE_LOST
           : bypass             ? STATE_BYPASSED
                                : STATE_ENHANCING;
}

bool nodes_settled(const struct nodes *s) {
    bool settled = true;
    for (unsigned i = 0; i < s->n; i++) {
        struct node_status status;
        node_status(s->all[i].node, &status);
        settled &= status.settled;
    }
    return settled;
}

bool nodes_alive(const struct nodes *s) {
    bool alive = true;
    for (unsigned i = 0; i < s->n; i++)
        alive &= pump_alive(node_pump(s->all[i].node));
    return alive;
}
