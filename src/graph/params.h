/* params.h - the parameters of a node's visible stream: Props that other programs may set ("strength", "bypass"), and
 * the latency that it reports. Call everything on the node owner's thread. */
#ifndef PRIMEKNET_PARAMS_H
#define PRIMEKNET_PARAMS_H

#include "graph/pipewire.h"
#include "graph/volume.h"

#include <stdbool.h>
#include <stdint.h>

struct params {
    float strength, least, greatest; /* the value, and the bounds to show */
    bool bypass;
    void (*controls)(void *data, float strength, bool bypass); /* as in node_options; may be NULL */
    void *data;
    struct spa_latency_info device; /* upstream of the capture stream; speaker: downstream of the source */
    uint64_t published_ns;          /* the last reported minimum latency; 0: none yet */
};

enum { PARAMS_CONTROLS = 3 };

/* Builds the parameters with which a visible stream is connected; they describe its Props. The pods are in the
 * builder's memory. */
void params_build(const struct params *p, struct spa_pod_builder *b, const struct spa_pod *ret[PARAMS_CONTROLS]);

/* Publishes the Props. */
void params_publish(const struct params *p, struct pw_stream *visible);

/* Handles a parameter of the visible stream that another program has set. Passes numbers to `controls` unchecked.
 * Ignores values of other types, and Props of PipeWire's own. */
void params_set(struct params *p, uint32_t id, const struct spa_pod *param);

/* Reads the volume from a node's Props; fields that they lack keep their values. A device's softVolumes are the part of
 * its channelVolumes that the hardware does not apply. */
void params_read_volume(const struct spa_pod *props, struct volume *volume);

/* Handles a changed parameter of the device stream. Returns true if it was the latency: publish it. */
bool params_device(struct params *p, uint32_t id, const struct spa_pod *param);

/* Reports the sum of the device's latency and the node's own to the graph, unless it is unchanged. */
void params_publish_latency(struct params *p, struct pw_stream *visible, uint64_t own_ns);

#endif
