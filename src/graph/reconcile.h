/* reconcile.h - what a node should do, computed from what the graph has.
 *
 * Called once after every dispatch that changed the mirror. Without new events a second call gives the same, except
 * that it gives each target once, and the next ones if there was no room. No PipeWire here; one thread. */
#ifndef PRIMEKNET_RECONCILE_H
#define PRIMEKNET_RECONCILE_H

#include "graph/mirror.h"

struct wishes {
    /* Who is linked. */
    unsigned n_consumers, n_recorders, n_brought_back; /* as in node_status */
    uint32_t microphone;               /* the node that the device stream is linked to, or MIRROR_NONE */
    uint32_t expected;                 /* that node, or the one that a capture stream would be linked to, as far as one
                                        * can tell; MIRROR_NONE: none */
    bool quiet;                        /* ignore the capture stream: it is linked to an output's monitor unasked */

    /* What the streams should be. */
    bool capture;       /* the capture stream may be open ... */
    bool needed;        /* ... and is to be: somebody is linked to the visible stream, or comes to be */
    char target[256];   /* the device stream's target: node.name or object.serial, or "": the session manager chooses */
    char channel[16];   /* the channel that the capture stream asks for; "MONO" is the mix */
    unsigned n_inputs;  /* the capture stream asks for so many channels, AUX0 and on, and mixes them; 0: for the above */
    char played[256];   /* NODE_MIC: node.name of the output that Enhanced Speaker plays on, or "" */
    char refused[128];  /* node.description of the microphone that would be the target but gives out this node's own
                         * sound, or of the output whose sound comes back to this node, or "" */
    bool lacks_channel; /* the linked microphone does not have the chosen channel */
    bool forgotten;     /* a microphone is there, but the session manager does not link it: open the capture stream anew
                         * in a while */
    bool portless, device_portless; /* another program has taken the visible stream's ports, or the device stream's:
                                     * open it anew in a while */
    bool failed;        /* PipeWire could not set up a link of the visible stream: open that anew in a while */
    bool pacing;        /* run the pacer */
    char title[288];    /* node.description of the visible stream, or "": as it is */

    /* What to tell the session manager. */
    uint32_t metadata; /* the metadata object to listen to, or MIRROR_NONE */
    bool more; /* targets that found no room: call again */
    unsigned n_targets;
    struct wishes_target {
        uint32_t node;
        const char *key;
        uint64_t serial; /* the value; 0: remove the property */
    } targets[RECALL_STREAMS];
    bool in_vain; /* a stream that was asked to move is linked to nothing, or is to be asked: set mirror.ask_anew in a
                   * while */
    bool noted;  /* mirror.noted has changed: write it */
    bool chosen; /* mirror.choices has: likewise */
};

void reconcile(struct mirror *m, struct wishes *ret);

#endif
