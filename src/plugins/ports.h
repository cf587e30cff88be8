/* ports.h - a core with ports, for LADSPA and LV2. The host connects memory to the ports, then activates and runs the
 * plugin. An unconnected port has its default. Threads: as in core.h. */
#ifndef PRIMEKNET_PORTS_H
#define PRIMEKNET_PORTS_H

#include "lib/primeknet.h"
#include "plugins/core.h"

#include <stdlib.h>

/* Control ports. The audio ports, inputs and outputs, precede LEVEL. Append new ports at the end: some hosts and their
 * saved sessions identify ports by number. */
enum { STRENGTH, FLOOR, LOW_CUT, MODEL, SWITCH, LATENCY, LEVEL, TARGET, N_CONTROLS };

struct plugin {
    unsigned n_channels;
    bool enables; /* SWITCH enables the plugin; otherwise it bypasses it */
    struct core *core;
    float *ports[N_CONTROLS], *audio[2 * CORE_CHANNELS];
};

static inline struct plugin *plugin_open(unsigned n_channels, double rate, bool enables) {
    struct core *const core = core_open(n_channels, rate);
    struct plugin *const p = core ? calloc(1, sizeof *p) : NULL;
    if (p)
        *p = (struct plugin){.n_channels = n_channels, .enables = enables, .core = core};
    else if (core)
        core_close(core);
    return p;
}

static inline void plugin_connect(struct plugin *p, unsigned long port, void *at) {
    const unsigned long n_audio = 2 * p->n_channels;
    if (port >= LEVEL && port < LEVEL + n_audio)
        p->audio[port - LEVEL] = at;
    else
        p->ports[port < LEVEL ? port : port - n_audio] = at;
}

/* Accepts NULL: some hosts clean up after a failed instantiation. */
static inline void plugin_close(void *handle) {
    struct plugin *const p = handle;
    if (!p)
        return;
    core_close(p->core);
    free(p);
}

static inline struct core_controls plugin_controls(const struct plugin *p) {
    float *const *port = p->ports;
    return (struct core_controls){.strength = port[STRENGTH] ? *port[STRENGTH] : 1,
                                  .floor_db = port[FLOOR] ? *port[FLOOR] : CORE_FLOOR_MIN_DB,
                                  .low_cut_hz = port[LOW_CUT] ? *port[LOW_CUT] : 70,
                                  .levels = port[LEVEL] && *port[LEVEL] > 0,
                                  .target = port[TARGET] ? *port[TARGET] : PRIMEKNET_LEVEL_TARGET,
                                  .model = port[MODEL] ? *port[MODEL] : 0,
                                  .bypass = port[SWITCH] && (*port[SWITCH] > 0) != p->enables};
}

static inline void plugin_report(const struct plugin *p) {
    if (p->ports[LATENCY])
        *p->ports[LATENCY] = (float)core_delay(p->core);
}

static inline void plugin_activate(void *handle) {
    const struct plugin *const p = handle;
    const struct core_controls controls = plugin_controls(p);
    core_activate(p->core, &controls);
    plugin_report(p);
}

static inline void plugin_run(void *handle, unsigned long n) {
    const struct plugin *const p = handle;
    const struct core_controls controls = plugin_controls(p);
    core_run(p->core, &controls, (const float *const *)p->audio, p->audio + p->n_channels, (unsigned)n);
    plugin_report(p);
}

#endif
