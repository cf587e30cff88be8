/* registry.h - the connections to PipeWire, which keep a mirror of the graph.
 *
 * Callbacks only write into the mirror and call changed; registry_follow carries out the wishes that concern the
 * registry and the metadata. One thread, the node owner's. */
#ifndef PRIMEKNET_REGISTRY_H
#define PRIMEKNET_REGISTRY_H

#include "graph/mirror.h"
#include "graph/pipewire.h"
#include "graph/reconcile.h"

struct registry {
    /* Set by the owner. */
    struct pw_context *context;
    void (*changed)(void *data); /* the mirror has changed */
    void (*lost)(void *data);    /* a connection is gone: registry_disconnect once the callbacks are left */
    void *data;

    struct mirror mirror;
    struct pw_core *core; /* NULL: not connected */
    struct pw_registry *registry;
    struct spa_hook core_listener, registry_listener;
    struct spa_list watched; /* bound objects */
    int asked;               /* the sync whose answer follows everything the graph has */

    /* The session manager's metadata, on a connection of its own. PipeWire stops reading a client's connection while
     * another client owes that one an answer: a node's owner, when it sets the node's parameters; the metadata's
     * owner, when it binds metadata. If one connection did both, the session manager and this program could block
     * each other. */
    struct {
        uint32_t id; /* of the metadata object, or MIRROR_NONE */
        struct pw_core *core;
        struct pw_registry *registry; /* or NULL */
        struct pw_metadata *metadata; /* or NULL */
        struct spa_hook core_listener, registry_listener, metadata_listener;
    } manager;
};

void registry_init(struct registry *r); /* after context, changed, lost, data and mirror.own.name are set */
int registry_connect(struct registry *r); /* 0, or -errno: then registry_disconnect closes what was opened */
void registry_disconnect(struct registry *r);

/* Listens to the metadata, binds what must be watched, and sets the targets. False: something failed, and another call
 * tries again. */
bool registry_follow(struct registry *r, const struct wishes *w);

#endif
