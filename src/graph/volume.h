/* volume.h - what may silence a node of PipeWire: its mute and its volume. Plain data. */
#ifndef PRIMEKNET_VOLUME_H
#define PRIMEKNET_VOLUME_H

#include <stdbool.h>

#define VOLUME_LEAST 1e-3 /* -60 dB: below it, a node is silent */

struct volume {
    bool muted;
    double level;        /* of the loudest channel, linear */
    bool hidden;         /* what silences it is none of the properties that mixers and wpctl set: see n_channels */
    unsigned n_channels; /* that softVolumes needs; 0: unknown */
};

#endif
