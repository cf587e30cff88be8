/* node.h - a virtual node of PipeWire's graph: the source "Enhanced Mic", whose capture stream follows a microphone,
 * or the sink "Enhanced Speaker", whose playback stream follows an output.
 *
 * A node owns a connection to PipeWire (retried with a growing pause while PipeWire is away), a data loop, two
 * streams and the pump between them. Nothing here prints; node_status reports.
 *
 * Threads: call everything on the thread that opened the node, and node_dispatch whenever node_fd is readable. Block
 * the signals that the program handles before node_open, which starts threads. */
#ifndef PRIMEKNET_NODE_H
#define PRIMEKNET_NODE_H

#include "base/err.h"
#include "graph/names.h"
#include "live/pump.h"

struct errands;
struct node;

struct node_options {
    enum node_kind kind;
    const char *microphone; /* node.name, node.description or object.serial of the microphone, as microphone.h has it;
                             * NULL or "": the system's default. Of a speaker: the output's node.name */
    const char *channel;    /* "mix" (or NULL), a channel's name such as "FR" or "AUX1", or its number from "1" */
    struct errands *errands; /* files are written there; NULL: at once */
    struct worker *worker;  /* NULL: the node opens one, with threads made as PipeWire makes its own ... */
    struct engine *engine;  /* ... and with this and the next two, as in worker_options */
    unsigned hop_p99_us;
    void (*release)(void *data, struct engine *engine);
    void (*changed)(void *data); /* node_status or what node_microphones lists may have changed; called from
                                  * node_dispatch only. May be NULL. */
    /* Another program has set "strength" or "bypass" in the node's Props; called from node_dispatch only. strength is
     * what was set: out of bounds, infinite or NaN too. May be NULL. */
    void (*controls)(void *data, float strength, bool bypass);
    double strength_least, strength_greatest; /* the bounds that the Props show */
    void *data;
};

struct node_status {
    bool connected;       /* to PipeWire */
    bool settled;         /* its first attempt to join the graph has ended: it is there and linked to its device, or
                           * that takes too long, or PipeWire cannot be reached */
    bool has_microphone;  /* it sends samples, or would if somebody recorded; speaker: there is an output */
    unsigned n_consumers; /* links from the visible stream; speaker: links to it that carry samples */
    unsigned n_recorders; /* of these: not to level meters (streams with stream.monitor) */
    unsigned n_brought_back; /* applications that were linked before the node was gone, and are again at its wish */
    unsigned rate;        /* of the graph, Hz; 0 while it stands */
    const char *echo_problem; /* why the echo canceller that was asked for does not run; "": it does, or was not */
    bool lacks_channel;   /* the microphone does not have the chosen channel: its mix is taken */
    bool passes;          /* blocks of the microphone reach who records; speaker: of the players reach the output */
    unsigned n_stalls;    /* how often the node flushed or reopened its streams because none did (stall.h) */
    char refused[128];    /* node.description of the microphone that is not followed because it gives out this node's own
                           * sound, or of the output whose sound comes back to this speaker, or "" */
    char microphone[128]; /* node.description of the microphone that is linked, or would be if somebody recorded, or "";
                           * speaker: of the output */
    char microphone_name[128]; /* its node.name */
    /* What keeps silent that stands between the microphone and who records, the microphone first: it is muted, or its
     * volume is 0. */
    struct {
        uint32_t id;      /* PipeWire's; UINT32_MAX: nothing does */
        bool turned_down; /* its volume is 0 */
        char description[128];
    } silenced;
    bool is_default;      /* people have chosen it as the default */
    struct pump_stats pump; /* with the echo canceller's delay */
};

/* Succeeds without PipeWire, which is then tried again. On failure it releases options.engine. Copies all strings. */
int node_open(struct node **ret, const struct node_options *options, struct err *err);
/* NULL is fine. Closes the worker that the node opened: close the nodes that share it first. */
void node_close(struct node *n);

int node_fd(const struct node *n);
/* Handles all events without blocking. 0, or -errno when the loop itself is broken. */
int node_dispatch(struct node *n);

/* Changes to another microphone or channel, as in node_options, with a fade; applications stay linked. -EINVAL if
 * channel is none. Not for a speaker. */
int node_microphone(struct node *n, const char *microphone, const char *channel, struct err *err);

/* Whether the sound of the outputs is to be removed from the microphone (echo.h), with a fade. Where that cannot be
 * done, the microphone stays as it is, and node_status says why. Not for a speaker. */
void node_echo(struct node *n, bool wanted);

/* Another node of the graph; valid during the call. */
struct node_peer {
    const char *name;        /* node.name */
    const char *description; /* for people */
    bool linked;             /* it is the microphone in use */
    bool brought_back;       /* as in node_status */
};
/* An application that records, or for which there is a choice. */
struct node_application {
    const char *name;   /* for people */
    const char *choice; /* CHOICE_ON, CHOICE_OFF or NULL: none */
    const char *from;   /* the source that it takes, for people; NULL: none now */
    bool enhanced;      /* from is this node */
};
typedef void node_application_each(void *data, const struct node_application *a);
typedef void node_each(void *data, const struct node_peer *peer);
/* Whether the graph has that microphone (as in microphone.h; this program's own do not count) or, NODE_SPEAKER, that
 * output. True until the graph is known. */
bool node_knows(const struct node *n, enum node_kind kind, const char *device);
/* One call for each microphone but this program's own, or for each application that records from the node or plays to
 * it. */
void node_microphones(const struct node *n, node_each *each, void *data);
void node_recorders(const struct node *n, node_each *each, void *data);

/* One call for each source that an application's recorder takes, for each recorder that takes none, and for each
 * choice. NODE_MIC only. */
void node_applications(const struct node *n, node_application_each *each, void *data);
/* Moves an application's recorders, those to come too, to the node (CHOICE_ON) or to its microphone (CHOICE_OFF), until
 * people move one elsewhere; CHOICE_AUTO leaves them to the session manager. -ENOENT if there is neither a recorder nor
 * a choice. NODE_MIC only. */
int node_choose(struct node *n, const char *application, const char *choice, struct err *err);

/* Sets what the node's Props show. */
void node_controls(struct node *n, float strength, bool bypass);

enum node_kind node_kind(const struct node *n);
const char *node_name(const struct node *n);  /* node.name of the visible stream */
const char *node_title(const struct node *n); /* its node.description: "Enhanced Mic" or the like */
struct pump *node_pump(const struct node *n); /* for pump_control, pump_listen, pump_alive */
struct worker *node_worker(const struct node *n);
void node_status(const struct node *n, struct node_status *ret);

#endif
