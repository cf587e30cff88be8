/* reconcile.h - what a node wants of the graph, computed from what the graph has.
 *
 * Once after every dispatch that changed the mirror. Without new events a second call wants the same, but for the
 * targets: these are given once. Knows nothing of PipeWire; one thread. */
#ifndef PRIMEKNET_RECONCILE_H
#define PRIMEKNET_RECONCILE_H

#include "graph/mirror.h"

struct wishes {
    /* Who is linked. */
    unsigned n_consumers, n_recorders; /* as in node_status */
    uint32_t microphone;               /* what the device stream is linked to, or MIRROR_NONE */
    bool quiet;                        /* the capture stream hears only what is played, which nobody asked for */

    /* What the streams should be. */
    bool capture;      /* the capture stream is wanted */
    char target[256];  /* the device stream's target: node.name or object.serial, or "": the session manager's choice */
    char channel[16];  /* that the capture stream asks for; "MONO" is the mix */
    bool lacks_channel; /* the linked microphone does not have the channel that was chosen */
    bool pacing;       /* the pacer runs */
    char title[288];   /* node.description of the visible stream, or "": as it is */

    /* What the session manager should know. */
    uint32_t metadata; /* the object to listen to, or MIRROR_NONE */
    unsigned n_targets;
    struct wishes_target {
        uint32_t node;
        const char *key;
        uint64_t serial; /* the value; 0: the property is to be removed */
    } targets[RECALL_STREAMS];
    bool noted; /* mirror.noted has changed: write it */
};

void reconcile(struct mirror *m, struct wishes *ret);

/* "mix" and NULL: 0; a number from 1 on: itself; any other text: -1, a name. */
int channel_number(const char *channel);

#endif
