/* node_state.h - what a node consists of, for node.c and for tell.c, which only reads it. */
#ifndef PRIMEKNET_NODE_STATE_H
#define PRIMEKNET_NODE_STATE_H

#include "graph/echo.h"
#include "graph/node.h"
#include "graph/reconcile.h"
#include "graph/registry.h"
#include "graph/stall.h"
#include "graph/streams.h"
#include "graph/threads.h"

/* What a timer runs for: node.c's table says what happens once the time is over. */
enum wait_for { UNUSED, FORGOTTEN, IN_VAIN, PORTLESS, FAILED, DEAF, MUTED, N_WAITS };

struct node {
    enum node_kind kind;
    char name[288], title[288]; /* node.name and node.description of the visible stream */
    char *microphone; /* as in node_options, or NULL */
    struct channel channel;
    void (*changed)(void *data);
    void *data;
    struct errands *errands;

    struct pw_loop *loop; /* entered */
    struct pw_context *context;
    struct threads threads;
    struct worker *worker, *own_worker; /* the second: NULL, or the same */
    struct pump *pump;
    struct spa_source *pump_source;

    struct params params;
    struct streams streams;
    struct registry registry;
    struct echo echo;
    bool wants_echo;
    struct wishes wishes; /* as computed last */

    /* Set by callbacks, acted on at the end of the dispatch. */
    bool stale;  /* the graph or a stream has changed: reconcile */
    bool broken; /* the connection is gone: take it down */
    bool dirty;  /* the owner should look: call changed */

    bool settled; /* as in node_status */

    struct {
        struct spa_source *timer;
        unsigned pause_ms;
        bool waiting; /* the timer runs: then open what is missing */
    } repair;
    struct wait {
        struct node *node;
        struct spa_source *timer;
        unsigned ms;
        bool runs;
    } waits[N_WAITS];
    enum { FADE_NONE, FADE_OUT, FADE_DONE } fade; /* of the input, before the capture stream is opened anew */
    bool lingered; /* the time of UNUSED is over */
    struct spa_source *asked; /* an event: the owner has asked for something else, so dispatch */
    struct stall stall;   /* blocks that do not pass */
    struct stall silence; /* blocks that pass, but hold nothing but digital silence since the capture stream started */
    struct spa_source *stall_timer; /* runs while stall.watched */
    uint64_t driver;   /* the serial of the device that this connection's capture stream was linked to last; 0: none */
    bool stale_memory; /* it is gone: see watch_driver */
    unsigned n_faults; /* busfault_count when this connection was made */
};

/* One of the nodes that sound comes through is muted or turned down; NULL: none. */
const struct mirror_node *node_silenced(const struct node *n);

#endif
