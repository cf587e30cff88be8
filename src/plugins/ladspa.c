/* ladspa.c - the core as LADSPA plugins, one channel and two. */
#include "plugins/ports.h"

#include <ladspa.h>

enum {
    CONTROL = LADSPA_PORT_INPUT | LADSPA_PORT_CONTROL,
    REPORT = LADSPA_PORT_OUTPUT | LADSPA_PORT_CONTROL,
    IN = LADSPA_PORT_INPUT | LADSPA_PORT_AUDIO,
    OUT = LADSPA_PORT_OUTPUT | LADSPA_PORT_AUDIO,
    BOUNDED = LADSPA_HINT_BOUNDED_BELOW | LADSPA_HINT_BOUNDED_ABOVE,
};

/* clang-format off */
#define NAMES "Strength", "Floor (dB)", "Low cut (Hz)", "Model", "Bypass", "latency"
#define KINDS CONTROL, CONTROL, CONTROL, CONTROL, CONTROL, REPORT
#define HINTS \
    {BOUNDED | LADSPA_HINT_DEFAULT_1, 0, 1}, \
    {BOUNDED | LADSPA_HINT_DEFAULT_MINIMUM, CORE_FLOOR_MIN_DB, 0}, \
    {BOUNDED | LADSPA_HINT_DEFAULT_LOW, 0, CORE_LOW_CUT_MAX_HZ}, \
    {BOUNDED | LADSPA_HINT_INTEGER | LADSPA_HINT_DEFAULT_0, 0, CORE_MODELS - 1}, \
    {LADSPA_HINT_TOGGLED | LADSPA_HINT_DEFAULT_0, 0, 1}, \
    {LADSPA_HINT_INTEGER, 0, 0}
/* After the audio ports. */
#define LATER_NAMES "Level", "Level target (LUFS)"
#define LATER_KINDS CONTROL, CONTROL
#define LATER_HINTS \
    {LADSPA_HINT_TOGGLED | LADSPA_HINT_DEFAULT_0, 0, 1}, \
    {BOUNDED | LADSPA_HINT_DEFAULT_MIDDLE, PRIMEKNET_LEVEL_TARGET_MIN, PRIMEKNET_LEVEL_TARGET_MAX}
/* clang-format on */

static LADSPA_Handle instantiate(const LADSPA_Descriptor *descriptor, unsigned long rate) {
    return plugin_open((unsigned)(descriptor->PortCount - N_CONTROLS) / 2, (double)rate, false);
}

static void connect_port(LADSPA_Handle handle, unsigned long port, LADSPA_Data *at) {
    plugin_connect(handle, port, at);
}

#define FUNCTIONS \
    .Maker = "PrimeKnet", .Copyright = "GPL-3.0-or-later", .instantiate = instantiate, .connect_port = connect_port, \
    .activate = plugin_activate, .run = plugin_run, .cleanup = plugin_close

static const LADSPA_Descriptor mono = {
    .UniqueID = 5570041,
    .Label = "primeknet_mono",
    .Name = "PrimeKnet speech enhancement (mono)",
    .PortCount = N_CONTROLS + 2,
    .PortDescriptors = (const LADSPA_PortDescriptor[]){KINDS, IN, OUT, LATER_KINDS},
    .PortNames = (const char *const[]){NAMES, "In", "Out", LATER_NAMES},
    .PortRangeHints = (const LADSPA_PortRangeHint[]){HINTS, {0, 0, 0}, {0, 0, 0}, LATER_HINTS},
    FUNCTIONS,
};

static const LADSPA_Descriptor stereo = {
    .UniqueID = 5570042,
    .Label = "primeknet_stereo",
    .Name = "PrimeKnet speech enhancement (stereo)",
    .PortCount = N_CONTROLS + 4,
    .PortDescriptors = (const LADSPA_PortDescriptor[]){KINDS, IN, IN, OUT, OUT, LATER_KINDS},
    .PortNames = (const char *const[]){NAMES, "In left", "In right", "Out left", "Out right", LATER_NAMES},
    .PortRangeHints = (const LADSPA_PortRangeHint[]){HINTS, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, LATER_HINTS},
    FUNCTIONS,
};

const LADSPA_Descriptor *ladspa_descriptor(unsigned long i) {
    return i == 0 ? &mono : i == 1 ? &stereo : NULL;
}
