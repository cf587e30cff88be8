/* params.h - the parameters of a node's visible stream: Props that others may set ("strength", "bypass"), and the
 * latency that it publishes. The thread of the node's owner. */
#ifndef PRIMEKNET_PARAMS_H
#define PRIMEKNET_PARAMS_H

#include "graph/pipewire.h"

#include <stdbool.h>
#include <stdint.h>

struct params {
    float strength, least, greatest; /* what it is; its bounds as others see them */
    bool bypass;
    void (*controls)(void *data, float strength, bool bypass); /* as in node_options; may be NULL */
    void *data;
    struct spa_latency_info device; /* of the microphone and what is before it, or of the output and what is after */
    uint64_t published_ns;          /* least latency; 0: none yet */
};

enum { PARAMS_CONTROLS = 3 };

/* What a visible stream is connected with, so that others know its Props. The pods lie in the builder's memory. */
void params_build(const struct params *p, struct spa_pod_builder *b, const struct spa_pod *ret[PARAMS_CONTROLS]);

/* Publishes Props. */
void params_publish(const struct params *p, struct pw_stream *visible);

/* Somebody has set a parameter of the visible stream. Names in Props that are not this program's are PipeWire's, and
 * values of another type are passed over. */
void params_set(struct params *p, uint32_t id, const struct spa_pod *param);

/* The device stream has another parameter. True: the device's latency is another one, to be published. */
bool params_device(struct params *p, uint32_t id, const struct spa_pod *param);

/* Publishes the device's latency and the node's own, in ns, where it is not what was published last. */
void params_publish_latency(struct params *p, struct pw_stream *visible, uint64_t own_ns);

#endif
