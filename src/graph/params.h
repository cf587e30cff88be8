/* params.h - the parameters of a node's visible stream: Props that other programs may set ("strength", "bypass"), and
 * the latency that it publishes. One thread, the node owner's. */
#ifndef PRIMEKNET_PARAMS_H
#define PRIMEKNET_PARAMS_H

#include "graph/pipewire.h"
#include "graph/volume.h"

#include <stdbool.h>
#include <stdint.h>

struct params {
    float strength, least, greatest; /* its value, and the bounds that are shown */
    bool bypass;
    void (*controls)(void *data, float strength, bool bypass); /* as in node_options; may be NULL */
    void *data;
    struct spa_latency_info device; /* upstream of the capture stream; speaker: downstream of the source */
    uint64_t published_ns;          /* the least latency; 0: none yet */
};

enum { PARAMS_CONTROLS = 3 };

/* The parameters to connect a visible stream with, so that others know its Props. The pods lie in the builder's
 * memory. */
void params_build(const struct params *p, struct spa_pod_builder *b, const struct spa_pod *ret[PARAMS_CONTROLS]);

/* Publishes the Props. */
void params_publish(const struct params *p, struct pw_stream *visible);

/* Another program has set a parameter of the visible stream. Numbers go to controls as they are; values of another type
 * are ignored, as are names in Props that belong to PipeWire. */
void params_set(struct params *p, uint32_t id, const struct spa_pod *param);

/* Reads some node's Props; what they do not say stays. A device's softVolumes are the part of its channelVolumes that
 * its hardware does not do. */
void params_read_volume(const struct spa_pod *props, struct volume *volume);

/* A parameter of the device stream has changed. True: it was the latency, which is to be published. */
bool params_device(struct params *p, uint32_t id, const struct spa_pod *param);

/* Publishes the sum of the device's latency and the node's own, unless it was published last. */
void params_publish_latency(struct params *p, struct pw_stream *visible, uint64_t own_ns);

#endif
