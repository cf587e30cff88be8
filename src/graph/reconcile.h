/* reconcile.h - computes what a node should do from its mirror of the graph.
 *
 * node.c calls it after every dispatch that changed the mirror. Idempotent, except that each target is emitted once; if
 * the array was full, the next call emits the rest. Independent of PipeWire; one thread. */
#ifndef PRIMEKNET_RECONCILE_H
#define PRIMEKNET_RECONCILE_H

#include "graph/mirror.h"

struct wishes {
    /* The links. */
    unsigned n_consumers, n_recorders, n_brought_back; /* as in node_status */
    uint32_t microphone; /* the node to which the device stream is linked, or MIRROR_NONE */
    uint32_t expected;   /* that node, or the one to which a capture stream would probably be linked;
                                        * MIRROR_NONE: none */
    bool quiet;          /* ignore the capture stream: it is linked to an output's monitor, unrequested */

    /* The streams. */
    bool capture;       /* the capture stream may be open ... */
    bool needed;        /* ... and should be: a stream is linked to the visible stream, or about to be */
    char target[256];   /* the device stream's target: node.name or object.serial, or "": the session manager chooses */
    char channel[16];   /* the capture stream's channel; "MONO" is the mix */
    unsigned n_inputs;  /* the capture stream mixes this many channels, from AUX0 on; 0: uses `channel` */
    char played[256];   /* NODE_MIC: node.name of the output that Enhanced Speaker plays on, or "" */
    char refused[128];  /* node.description of the microphone that would be the target but carries this node's own
                         * sound, or of the output whose sound returns to this node, or "" */
    bool lacks_channel; /* the linked microphone lacks the chosen channel */
    bool forgotten;     /* a microphone exists, but the session manager does not link it: reopen the capture stream
                         * after a while */
    bool link_failed;   /* PipeWire could not set up a link of the visible stream: reopen that after a while */
    bool stream_failed; /* PipeWire could not start one of the streams: reopen them */
    bool pacing;        /* run the pacer */
    char filtered[256]; /* node.name of the microphone in front of which the visible stream is a filter, or "" */
    char title[288];    /* node.description of the visible stream, or "": unchanged */

    /* Requests to the session manager. */
    uint32_t metadata; /* the metadata object to listen to, or MIRROR_NONE */
    bool more;         /* the array was full: call again */
    unsigned n_targets;
    struct wishes_target {
        uint32_t node;
        const char *key;
        uint64_t serial; /* the value; 0: remove the property */
    } targets[RECALL_STREAMS];
    bool in_vain; /* a stream should be linked, or moved, and is not: set mirror.ask_anew after a while */
    bool noted;   /* mirror.noted has changed: save it */
    bool chosen;  /* mirror.choices has changed: save it */
};

void reconcile(struct mirror *m, struct wishes *ret);

#endif
