/* node_state.h - the state of a node, for node.c and tell.c; tell.c only reads it. */
#ifndef PRIMEKNET_NODE_STATE_H
#define PRIMEKNET_NODE_STATE_H

#include "graph/echo.h"
#include "graph/node.h"
#include "graph/reconcile.h"
#include "graph/registry.h"
#include "graph/stall.h"
#include "graph/streams.h"
#include "graph/threads.h"

/* The purposes of a node's timers; node.c has the table of durations and actions. */
enum wait_for { UNUSED, FORGOTTEN, IN_VAIN, LINK_FAILED, STREAM_FAILED, DEAF, MUTED, N_WAITS };

struct node {
    enum node_kind kind;
    char name[288], title[288]; /* node.name and node.description of the visible stream */
    char *microphone;           /* as in node_options, or NULL */
    struct channel channel;
    void (*changed)(void *data);
    void *data;
    struct errands *errands;

    struct pw_loop *loop; /* entered */
    struct pw_context *context;
    struct threads threads;
    struct worker *worker, *own_worker; /* own_worker: the same, or NULL if another node opened it */
    struct pump *pump;
    struct spa_source *pump_source;

    struct params params;
    struct streams streams;
    struct registry registry;
    struct echo echo;
    bool wants_echo;
    struct wishes wishes; /* the last result of reconcile */

    /* Callbacks set these; the end of node_dispatch handles them. */
    bool stale;  /* the graph or a stream has changed: reconcile */
    bool broken; /* the connection is lost: close it */
    bool dirty;  /* call `changed` */

    bool settled; /* as in node_status */

    struct {
        struct spa_source *timer;
        unsigned pause_ms;
        bool waiting; /* the timer runs; when it expires, open what is missing */
    } repair;
    struct wait {
        struct node *node;
        struct spa_source *timer;
        unsigned ms;
        bool runs;
    } waits[N_WAITS];
    enum { FADE_NONE, FADE_OUT, FADE_DONE } fade; /* of the input, before the capture stream is reopened */
    bool lingered;                                /* the UNUSED timer has expired */
    struct spa_source *asked;                     /* an event: the owner has changed something, so dispatch */
    struct stall stall;                           /* detects that no blocks pass */
    struct stall silence;           /* detects digital silence in all blocks since the capture stream started */
    struct spa_source *stall_timer; /* runs while stall.watched */
    uint64_t driver;   /* the serial of the device to which this connection's capture stream was last linked; 0: none */
    bool stale_memory; /* that device is gone: see watch_driver */
    unsigned n_faults; /* busfault_count when this connection was made */
};

/* Returns the first node in the path of the sound that is muted or has a volume of 0; NULL: none. */
const struct mirror_node *node_silenced(const struct node *n);

#endif
