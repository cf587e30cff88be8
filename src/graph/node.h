/* node.h - a virtual node of PipeWire's graph: the source "Enhanced Mic", whose capture stream follows a microphone,
 * or the sink "Enhanced Speaker", whose playback stream follows an output.
 *
 * A node owns a connection to PipeWire, a data loop, two streams and the pump between them. While PipeWire is not
 * running, it reconnects at growing intervals. Nothing here prints; node_status reports.
 *
 * Threads: call everything on the thread that opened the node. Call node_dispatch whenever node_fd is readable.
 * node_open starts threads: block the signals that the program handles first. */
#ifndef PRIMEKNET_NODE_H
#define PRIMEKNET_NODE_H

#include "base/err.h"
#include "graph/names.h"
#include "live/pump.h"

struct errands;
struct node;

struct node_options {
    enum node_kind kind;
    const char *microphone;  /* node.name, node.description or object.serial of the microphone (microphone.h); NULL or
                             * "": the system's default. For a speaker: the output's node.name */
    const char *channel;     /* "mix" (or NULL), a channel's name such as "FR" or "AUX1", or its number from "1" */
    struct errands *errands; /* writes files; NULL: the node writes them itself */
    struct worker *worker;   /* NULL: the node opens one, with threads created like PipeWire's own ... */
    struct engine *engine;   /* ... and with this and the next two fields, as in worker_options */
    unsigned hop_p99_us;
    void (*release)(void *data, struct engine *engine);
    void (*changed)(void *data); /* node_status or the list of node_microphones may have changed. Called only from
                                  * node_dispatch. May be NULL. */
    /* Another program has set "strength" or "bypass" in the node's Props. Called only from node_dispatch. strength is
     * passed on unchecked: it may be out of bounds, infinite or NaN. May be NULL. */
    void (*controls)(void *data, float strength, bool bypass);
    double strength_least, strength_greatest; /* the bounds to show in the Props */
    void *data;
};

struct node_status {
    bool connected;       /* connected to PipeWire */
    bool settled;         /* the first attempt to join the graph has ended: the node is linked to its device, or a time
                           * limit has passed, or PipeWire cannot be reached */
    bool has_microphone;  /* a microphone is linked, or would be if somebody recorded; speaker: an output exists */
    unsigned n_consumers; /* links from the visible stream; speaker: links to it that carry samples */
    unsigned n_recorders; /* of these, those that are not level meters (streams with stream.monitor) */
    unsigned n_brought_back;  /* applications restored to the node after it was gone */
    unsigned rate;            /* of the graph, Hz; 0 while the graph does not run */
    const char *echo_problem; /* why a requested echo canceller does not run, or "" */
    bool lacks_channel;       /* the microphone lacks the chosen channel, so its mix is used */
    bool lacks_filters;       /* the session manager cannot do what node_transparent requests */
    bool passes;              /* blocks pass from the microphone to recorders; speaker: from players to the output */
    unsigned n_stalls;        /* how often the node flushed or reopened its streams because no block passed (stall.h) */
    char refused[128];        /* node.description of the microphone that is not used because it carries this node's own
                           * sound, or of the output whose sound returns to this speaker, or "" */
    char microphone[128]; /* node.description of the microphone that is linked, or would be if somebody recorded, or "";
                           * speaker: of the output */
    char microphone_name[128]; /* its node.name */
    /* The first node on the way from the microphone to the recorders that is muted or has a volume of 0. */
    struct {
        uint32_t id;      /* PipeWire's id; UINT32_MAX: none */
        bool turned_down; /* its volume is 0; otherwise it is muted */
        char description[128];
    } silenced;
    bool is_default;        /* the user has selected it as the default */
    struct pump_stats pump; /* with the echo canceller's delay */
};

/* Also succeeds without PipeWire; the node then keeps trying to connect. Copies all strings. Releases options.engine on
 * failure. Returns 0 or -errno. */
int node_open(struct node **ret, const struct node_options *options, struct err *err);
/* n may be NULL. Also closes the worker that the node opened, so close the nodes that share it first. */
void node_close(struct node *n);

int node_fd(const struct node *n);
/* Handles all events without blocking. Returns 0, or -errno if the event loop fails. */
int node_dispatch(struct node *n);

/* Changes the microphone and channel (as in node_options) with a fade; applications stay linked. Returns -EINVAL for an
 * invalid channel. Not for a speaker. */
int node_microphone(struct node *n, const char *microphone, const char *channel, struct err *err);

/* Switches echo cancellation (echo.h) on or off, with a fade. If it is not possible, the microphone is used without it,
 * and node_status says why. Not for a speaker. */
void node_echo(struct node *n, bool wanted);

/* Whether applications that record the microphone are linked to this node in its place, whatever they chose. Needs a
 * session manager with smart filters (WirePlumber 0.5); without, node_status says so. NODE_MIC only. */
void node_transparent(struct node *n, bool wanted);

/* Another node of the graph; valid during the call. */
struct node_peer {
    const char *name;        /* node.name */
    const char *description; /* for display */
    bool linked;             /* the microphone in use */
    bool brought_back;       /* as in node_status */
};
/* An application that records, or has a choice. */
struct node_application {
    const char *name;   /* for display */
    const char *choice; /* CHOICE_ON, CHOICE_OFF or NULL: none */
    const char *from;   /* the source that it records, for display; NULL: none */
    bool enhanced;      /* from is this node */
};
typedef void node_application_each(void *data, const struct node_application *a);
typedef void node_each(void *data, const struct node_peer *peer);
/* Whether the graph has this microphone (microphone.h; this program's own do not count) or, for NODE_SPEAKER, this
 * output. True until the graph is known. */
bool node_knows(const struct node *n, enum node_kind kind, const char *device);
/* Calls `each` for each microphone except this program's own, or for each application that records from the node or
 * plays to it. */
void node_microphones(const struct node *n, node_each *each, void *data);
void node_recorders(const struct node *n, node_each *each, void *data);

/* Calls `each` for each source that a recorder of an application uses, for each recorder without a source, and for each
 * choice. NODE_MIC only. */
void node_applications(const struct node *n, node_application_each *each, void *data);
/* Moves an application's recorders, current and future, to the node (CHOICE_ON) or to its microphone (CHOICE_OFF). A
 * recorder that the user then moves elsewhere stays there. CHOICE_AUTO leaves them to the session manager. Returns
 * -ENOENT if the application has neither a recorder nor a choice; -ENOTSUP for CHOICE_OFF while transparent.
 * NODE_MIC only. */
int node_choose(struct node *n, const char *application, const char *choice, struct err *err);

/* Sets the values in the node's Props. */
void node_controls(struct node *n, float strength, bool bypass);

enum node_kind node_kind(const struct node *n);
const char *node_name(const struct node *n);  /* node.name of the visible stream */
const char *node_title(const struct node *n); /* its node.description: "Enhanced Mic" or the like */
struct pump *node_pump(const struct node *n); /* for pump_control, pump_listen, pump_alive */
struct worker *node_worker(const struct node *n);
void node_status(const struct node *n, struct node_status *ret);

#endif
