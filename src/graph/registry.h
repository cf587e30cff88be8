/* registry.h - the connections to PipeWire, which keep the mirror of the graph up to date.
 *
 * Callbacks only write to the mirror and call `changed`; registry_follow carries out the wishes that concern the
 * registry and the metadata. Call everything on the node owner's thread. */
#ifndef PRIMEKNET_REGISTRY_H
#define PRIMEKNET_REGISTRY_H

#include "graph/mirror.h"
#include "graph/pipewire.h"
#include "graph/reconcile.h"

struct registry {
    /* Set by the owner. */
    struct pw_context *context;
    void (*changed)(void *data); /* the mirror has changed */
    void (*lost)(void *data);    /* a connection is lost: call registry_disconnect outside the callbacks */
    void *data;

    struct mirror mirror;
    struct pw_core *core; /* NULL: not connected */
    struct pw_registry *registry;
    struct spa_hook core_listener, registry_listener;
    struct spa_list watched; /* bound objects */
    int asked;               /* the sync that PipeWire answers after the initial content of the graph */

    /* The session manager's metadata, on a connection of its own. PipeWire stops reading a client's connection while it
     * waits for another client to answer: a node's owner when a client sets the node's parameters, the metadata's owner
     * when a client binds the metadata. On a single connection, the session manager and this program could block each
     * other. */
    struct {
        uint32_t id; /* of the metadata object, or MIRROR_NONE */
        struct pw_core *core;
        struct pw_registry *registry; /* or NULL */
        struct pw_metadata *metadata; /* or NULL */
        struct pw_metadata *filters;  /* the metadata named "filters", or NULL, ... */
        uint32_t filters_id, filter;  /* ... its id, and the node that it makes a filter ... */
        char filtered[256];           /* ... in front of the microphone with this node.name, or "" */
        struct spa_hook core_listener, registry_listener, metadata_listener;
    } manager;
};

void registry_init(struct registry *r);   /* set context, changed, lost, data and mirror.own.name first */
int registry_connect(struct registry *r); /* 0, or -errno; then call registry_disconnect to clean up */
void registry_disconnect(struct registry *r);

/* Listens to the metadata, binds the objects to watch, and sets the targets. Returns false on failure; call it again to
 * retry. */
bool registry_follow(struct registry *r, const struct wishes *w);

#endif
