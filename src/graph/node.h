/* node.h - a virtual node of PipeWire's graph: a source "Enhanced Mic", with the capture stream that follows a
 * microphone, or the sink "Enhanced Speaker", with the playback stream that follows an output.
 *
 * The only file that knows PipeWire's graph. A node owns its connection (tried again with a growing pause while
 * PipeWire is away), and so a data loop, the two streams and the pump between them. Nothing here prints; node_status
 * tells.
 *
 * Threads: everything on the thread that opened the node, which calls node_dispatch whenever node_fd is readable.
 * Block the signals that the program handles before node_open: threads are started there. */
#ifndef PRIMEKNET_NODE_H
#define PRIMEKNET_NODE_H

#include "base/err.h"
#include "live/pump.h"

struct node;

/* Names that others see: "enhanced_mic"; "enhanced_mic." and the microphone's name; "enhanced_speaker". */
enum node_kind { NODE_MIC, NODE_MORE_MIC, NODE_SPEAKER };

struct node_options {
    enum node_kind kind;
    const char *microphone; /* node.name, node.description or object.serial of the microphone, as microphone.h has it;
                             * NULL or "": the system's default. Of a speaker: the output's node.name */
    const char *channel;    /* "mix" (or NULL), a channel's name such as "FR" or "AUX1", or its number from "1" */
    struct worker *worker;  /* that runs the network; NULL: the node opens one, with threads as PipeWire makes its
                             * own */
    struct engine *engine;  /* and the rest, down to data, as in worker_options: for the worker that it opens */
    unsigned hop_p99_us;
    void (*release)(void *data, struct engine *engine);
    void (*changed)(void *data); /* node_status or pump_stats changed in a way that people or service managers care for;
                                  * called from node_dispatch only. May be NULL. */
    /* Somebody has set these in the node's Props, "strength" and "bypass" among the params, from node_dispatch: any
     * numbers, whose validity is the receiver's business. May be NULL. */
    void (*controls)(void *data, float strength, bool bypass);
    double strength_least, strength_greatest; /* the bounds that the Props show */
    void *data;
};

struct node_status {
    bool connected;       /* to PipeWire */
    bool has_microphone;  /* it sends samples, or would if somebody recorded; of a speaker: there is an output */
    unsigned n_consumers; /* links that leave "Enhanced Mic"; of a speaker: those that bring it samples */
    unsigned n_brought_back; /* of these: links of those who were asked back, as they were linked before the node was
                              * gone */
    unsigned n_recorders; /* of these: to others than level meters (streams with stream.monitor) */
    unsigned rate;        /* of the graph, Hz; 0 while it stands */
    unsigned delay;       /* samples at 48 kHz, ours alone */
    bool lacks_channel;   /* the microphone does not have the channel that was chosen: its mix is taken */
    char microphone[128]; /* what the capture stream is linked to, for people: node.description, or ""; of a speaker:
                           * the output, what the playback stream is linked to */
    char microphone_name[128]; /* the same, its node.name */
};

/* Succeeds without PipeWire too: it is tried again. options.engine is released where this fails. Strings are copied. */
int node_open(struct node **ret, const struct node_options *options, struct err *err);
void node_close(struct node *n); /* NULL is fine; closes the worker that it opened, whose other nodes are gone by
                                  * then */

int node_fd(const struct node *n);
/* Does what is to be done and returns 0, or -errno when the loop itself is broken. Does not block. */
int node_dispatch(struct node *n);

/* Another microphone or channel, as in node_options: faded, consumers stay linked. -EINVAL where channel makes no
 * sense. Not for a speaker. */
int node_microphone(struct node *n, const char *microphone, const char *channel, struct err *err);

/* Another node of the graph, as long as the call that gives it lasts. */
struct node_peer {
    const char *name;        /* node.name */
    const char *description; /* for people */
    bool linked;             /* it is what we capture from */
    bool brought_back;       /* it was asked back, as it was linked to us before this node was gone */
};
typedef void node_each(void *data, const struct node_peer *peer);
/* Whether the graph has such a microphone, as microphone.h has it, that is none of our own, or NODE_SPEAKER: such an
 * output. True as long as that is not known. */
bool node_knows(const struct node *n, enum node_kind kind, const char *device);
/* The microphones there are but for our own, and who records from us or plays to us, one call each. */
void node_microphones(const struct node *n, node_each *each, void *data);
void node_recorders(const struct node *n, node_each *each, void *data);

/* What the node's Props show. */
void node_controls(struct node *n, float strength, bool bypass);

enum node_kind node_kind(const struct node *n);
const char *node_name(const struct node *n);  /* what others see: its node.name ... */
const char *node_title(const struct node *n); /* ... and what people call it, "Enhanced Mic" or the like */
struct pump *node_pump(const struct node *n); /* for pump_control, pump_stats, pump_alive */
struct worker *node_worker(const struct node *n);
void node_status(const struct node *n, struct node_status *ret);

#endif
