/* lv2.c - the core as LV2 plugins, one channel and two; primeknet.ttl has their ports. */
#include "plugins/core.h"

#include <lv2/core/lv2.h>
#include <stdlib.h>
#include <string.h>

#define MONO "urn:primeknet:mono"
#define STEREO "urn:primeknet:stereo"

/* Control ports, then the audio ports: inputs, outputs. */
enum { STRENGTH, FLOOR, LOW_CUT, MODEL, ENABLED, LATENCY, N_CONTROLS, N_PORTS = N_CONTROLS + 2 * CORE_CHANNELS };

struct plugin {
    unsigned n_channels;
    struct core *core;
    float *ports[N_PORTS];
};

static struct core_controls controls(const struct plugin *p) {
    float *const *port = p->ports;
    return (struct core_controls){.strength = port[STRENGTH] ? *port[STRENGTH] : 1,
                                  .floor_db = port[FLOOR] ? *port[FLOOR] : -60,
                                  .low_cut_hz = port[LOW_CUT] ? *port[LOW_CUT] : 70,
                                  .model = port[MODEL] ? *port[MODEL] : 0,
                                  .bypass = port[ENABLED] && !(*port[ENABLED] > 0)};
}

static void report(const struct plugin *p) {
    if (p->ports[LATENCY])
        *p->ports[LATENCY] = (float)core_delay(p->core);
}

static LV2_Handle instantiate(const LV2_Descriptor *descriptor, double rate, const char *bundle,
                              const LV2_Feature *const *features) {
    (void)bundle, (void)features;
    struct plugin *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n_channels = strcmp(descriptor->URI, STEREO) == 0 ? 2 : 1;
    p->core = core_open(p->n_channels, rate);
    if (!p->core) {
        free(p);
        return NULL;
    }
    return p;
}

static void connect_port(LV2_Handle handle, uint32_t port, void *at) {
    ((struct plugin *)handle)->ports[port] = at;
}

static void activate(LV2_Handle handle) {
    const struct plugin *p = handle;
    const struct core_controls now = controls(p);
    core_activate(p->core, &now);
    report(p);
}

static void run(LV2_Handle handle, uint32_t n) {
    const struct plugin *p = handle;
    const struct core_controls now = controls(p);
    float *const *audio = p->ports + N_CONTROLS;
    core_run(p->core, &now, (const float *const *)audio, audio + p->n_channels, n);
    report(p);
}

static void cleanup(LV2_Handle handle) {
    struct plugin *p = handle;
    core_close(p->core);
    free(p);
}

static const LV2_Descriptor descriptors[] = {
    {MONO, instantiate, connect_port, activate, run, NULL, cleanup, NULL},
    {STEREO, instantiate, connect_port, activate, run, NULL, cleanup, NULL},
};

const LV2_Descriptor *lv2_descriptor(uint32_t i) {
    return i < 2 ? &descriptors[i] : NULL;
}
