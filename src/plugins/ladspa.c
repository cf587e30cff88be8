/* ladspa.c - the core as LADSPA plugins, one channel and two. */
#include "plugins/core.h"

#include <ladspa.h>
#include <stdlib.h>

/* Control ports, then the audio ports: inputs, outputs. */
enum { STRENGTH, FLOOR, LOW_CUT, MODEL, BYPASS, LATENCY, N_CONTROLS, N_PORTS = N_CONTROLS + 2 * CORE_CHANNELS };

enum {
    CONTROL = LADSPA_PORT_INPUT | LADSPA_PORT_CONTROL,
    REPORT = LADSPA_PORT_OUTPUT | LADSPA_PORT_CONTROL,
    IN = LADSPA_PORT_INPUT | LADSPA_PORT_AUDIO,
    OUT = LADSPA_PORT_OUTPUT | LADSPA_PORT_AUDIO,
    BOUNDED = LADSPA_HINT_BOUNDED_BELOW | LADSPA_HINT_BOUNDED_ABOVE,
};

#define CONTROL_NAMES "Strength", "Floor (dB)", "Low cut (Hz)", "Model", "Bypass", "latency"
#define CONTROL_KINDS CONTROL, CONTROL, CONTROL, CONTROL, CONTROL, REPORT
#define CONTROL_HINTS                                                                                                  \
    {BOUNDED | LADSPA_HINT_DEFAULT_1, 0, 1}, {BOUNDED | LADSPA_HINT_DEFAULT_MINIMUM, -60, 0},                         \
        {BOUNDED | LADSPA_HINT_DEFAULT_LOW, 0, 280}, {BOUNDED | LADSPA_HINT_INTEGER | LADSPA_HINT_DEFAULT_0, 0, 3},   \
        {LADSPA_HINT_TOGGLED | LADSPA_HINT_DEFAULT_0, 0, 1}, {LADSPA_HINT_INTEGER, 0, 0}

struct plugin {
    unsigned n_channels;
    struct core *core;
    LADSPA_Data *ports[N_PORTS];
};

static struct core_controls controls(const struct plugin *p) {
    LADSPA_Data *const *port = p->ports;
    return (struct core_controls){.strength = port[STRENGTH] ? *port[STRENGTH] : 1,
                                  .floor_db = port[FLOOR] ? *port[FLOOR] : -60,
                                  .low_cut_hz = port[LOW_CUT] ? *port[LOW_CUT] : 70,
                                  .model = port[MODEL] ? *port[MODEL] : 0,
                                  .bypass = port[BYPASS] && *port[BYPASS] > 0};
}

static void report(const struct plugin *p) {
    if (p->ports[LATENCY])
        *p->ports[LATENCY] = (LADSPA_Data)core_delay(p->core);
}

static LADSPA_Handle instantiate(const LADSPA_Descriptor *descriptor, unsigned long rate) {
    struct plugin *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n_channels = (unsigned)(descriptor->PortCount - N_CONTROLS) / 2;
    p->core = core_open(p->n_channels, (double)rate);
    if (!p->core) {
        free(p);
        return NULL;
    }
    return p;
}

static void connect_port(LADSPA_Handle handle, unsigned long port, LADSPA_Data *at) {
    ((struct plugin *)handle)->ports[port] = at;
}

static void activate(LADSPA_Handle handle) {
    const struct plugin *p = handle;
    const struct core_controls now = controls(p);
    core_activate(p->core, &now);
    report(p);
}

static void run(LADSPA_Handle handle, unsigned long n) {
    const struct plugin *p = handle;
    const struct core_controls now = controls(p);
    LADSPA_Data *const *audio = p->ports + N_CONTROLS;
    core_run(p->core, &now, (const float *const *)audio, audio + p->n_channels, (unsigned)n);
    report(p);
}

static void cleanup(LADSPA_Handle handle) {
    struct plugin *p = handle;
    core_close(p->core);
    free(p);
}

#define FUNCTIONS                                                                                                      \
    .Maker = "PrimeKnet", .Copyright = "GPL-3.0-or-later", .instantiate = instantiate, .connect_port = connect_port,   \
    .activate = activate, .run = run, .cleanup = cleanup

static const LADSPA_Descriptor mono = {
    .UniqueID = 5570041,
    .Label = "primeknet_mono",
    .Name = "PrimeKnet speech enhancement (mono)",
    .PortCount = N_CONTROLS + 2,
    .PortDescriptors = (const LADSPA_PortDescriptor[]){CONTROL_KINDS, IN, OUT},
    .PortNames = (const char *const[]){CONTROL_NAMES, "In", "Out"},
    .PortRangeHints = (const LADSPA_PortRangeHint[]){CONTROL_HINTS, {0, 0, 0}, {0, 0, 0}},
    FUNCTIONS,
};

static const LADSPA_Descriptor stereo = {
    .UniqueID = 5570042,
    .Label = "primeknet_stereo",
    .Name = "PrimeKnet speech enhancement (stereo)",
    .PortCount = N_CONTROLS + 4,
    .PortDescriptors = (const LADSPA_PortDescriptor[]){CONTROL_KINDS, IN, IN, OUT, OUT},
    .PortNames = (const char *const[]){CONTROL_NAMES, "In left", "In right", "Out left", "Out right"},
    .PortRangeHints = (const LADSPA_PortRangeHint[]){CONTROL_HINTS, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    FUNCTIONS,
};

const LADSPA_Descriptor *ladspa_descriptor(unsigned long i) {
    return i == 0 ? &mono : i == 1 ? &stereo : NULL;
}
