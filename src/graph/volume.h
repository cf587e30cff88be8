/* volume.h - the mute switch and the volume of a PipeWire node, either of which may silence it. Plain data. */
#ifndef PRIMEKNET_VOLUME_H
#define PRIMEKNET_VOLUME_H

#include <stdbool.h>

#define VOLUME_LEAST 1e-3 /* -60 dB: below it, a node is silent */

struct volume {
    bool muted;
    double level;        /* of the loudest channel, linear */
    bool hidden;         /* a property that mixers and wpctl do not set silences it: see n_channels */
    unsigned n_channels; /* the number of channels that softVolumes needs; 0: unknown */
};

#endif
