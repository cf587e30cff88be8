/* registry.h - the connections to PipeWire, and what they tell of the graph, written into a mirror.
 *
 * Callbacks only note what they are told and say that it changed; registry_follow does what reconcile.h wishes. One
 * thread, the owner's. */
#ifndef PRIMEKNET_REGISTRY_H
#define PRIMEKNET_REGISTRY_H

#include "graph/mirror.h"
#include "graph/pipewire.h"
#include "graph/reconcile.h"

struct registry {
    /* Set by the owner. */
    struct pw_context *context;
    void (*changed)(void *data); /* the mirror has */
    void (*lost)(void *data);    /* a connection is gone: registry_disconnect once the callbacks are left */
    void *data;

    struct mirror mirror;
    struct pw_core *core; /* NULL: not connected */
    struct pw_registry *registry;
    struct spa_hook core_listener, registry_listener;
    struct spa_list watched; /* bound objects */
    int asked;               /* the number of the question that follows all that the graph has */

    /* The session manager's metadata, on a connection of its own. PipeWire reads no more of a connection while another
     * owes it an answer: to who sets a node's parameters, the node's owner; to who binds metadata, theirs. Were the
     * nodes on the one that binds, the session manager and this one could wait for each other for ever, and all others
     * too. */
    struct {
        uint32_t id; /* of the metadata that it is for, or MIRROR_NONE */
        struct pw_core *core;
        struct pw_metadata *metadata; /* or NULL */
        struct spa_hook core_listener, metadata_listener;
    } manager;
};

void registry_init(struct registry *r); /* after context, changed, lost, data and mirror.own.name are set */
int registry_connect(struct registry *r); /* 0, or -errno; what was opened then is closed by registry_disconnect */
void registry_disconnect(struct registry *r);

/* Listens to the metadata, watches what must be watched, and sets the targets. */
void registry_follow(struct registry *r, const struct wishes *w);

#endif
