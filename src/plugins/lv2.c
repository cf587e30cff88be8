/* lv2.c - the core as LV2 plugins, one channel and two; primeknet.ttl has their ports. */
#include "plugins/ports.h"

#include <lv2/core/lv2.h>
#include <string.h>

#define MONO "urn:primeknet:mono"
#define STEREO "urn:primeknet:stereo"

static LV2_Handle instantiate(const LV2_Descriptor *descriptor, double rate, const char *bundle,
                              const LV2_Feature *const *features) {
    (void)bundle, (void)features;
    return plugin_open(strcmp(descriptor->URI, STEREO) == 0 ? 2 : 1, rate, true);
}

static void connect_port(LV2_Handle handle, uint32_t port, void *at) {
    plugin_connect(handle, port, at);
}

static void run(LV2_Handle handle, uint32_t n) {
    plugin_run(handle, n);
}

static const LV2_Descriptor descriptors[] = {
    {MONO, instantiate, connect_port, plugin_activate, run, NULL, plugin_close, NULL},
    {STEREO, instantiate, connect_port, plugin_activate, run, NULL, plugin_close, NULL},
};

const LV2_Descriptor *lv2_descriptor(uint32_t i) {
    return i < 2 ? &descriptors[i] : NULL;
}
