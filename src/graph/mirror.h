/* mirror.h - what the session's graph has, as far as one node must know it: plain data, without PipeWire.
 *
 * registry.c fills it with what PipeWire says, reconcile.c decides by it, and tests play any order of events into it.
 * Objects may come and go in any order: a link's nodes may be unknown, a port's node gone. Where memory runs out an
 * object is left out. One thread. */
#ifndef PRIMEKNET_MIRROR_H
#define PRIMEKNET_MIRROR_H

#include "graph/node.h"
#include "graph/recall.h"

#include <stdbool.h>
#include <stdint.h>

#define MIRROR_NONE UINT32_MAX /* the id of no object */

#define MIC "enhanced_mic"     /* node.name of the first microphone's node ... */
#define MORE_MIC MIC "."       /* ... and how the others' begin: their microphone's name follows */

enum mirror_role {
    ROLE_OTHER,
    ROLE_MICROPHONE, /* a source, none of this program's */
    ROLE_OUTPUT,     /* a sink */
    ROLE_RECORDER,   /* an application's stream that records */
    ROLE_PLAYER,     /* an application's stream that plays */
};

struct mirror_node {
    uint32_t id;
    enum mirror_role role;
    char name[256], description[128], application[128]; /* the last: who it belongs to, or "" */
    bool meter;                  /* ROLE_RECORDER: it only shows levels */
    bool watched;                /* registry.c's: the node is bound, so that meter is known */
    uint64_t serial;             /* object.serial */

    /* What reconcile decided, and needs again. */
    bool linked;       /* to this node, by its visible stream */
    bool awaited;      /* asked back, not linked yet */
    bool brought_back; /* asked back, and linked since */
};

/* What the metadata says of a node. It comes by another connection than the nodes, so the node may not be known yet, or
 * the next one may have its id; the metadata itself says when the target is gone. */
struct mirror_target {
    uint32_t id;
    char object[128]; /* target.object: what people chose for it last, or "" */
    /* The key by which the session manager made it follow the default, while this node was the default for want of
     * another; or NULL. */
    const char *misled_by;
};

struct mirror_port {
    uint32_t id, node, number;
    char channel[16]; /* "FL", "MONO", "AUX0" */
};

struct mirror_link {
    uint32_t id, from, to; /* nodes */
    bool active;           /* samples flow; known of watched links alone */
    bool watched;          /* registry.c's: the link is bound, so that active is known */
};

struct mirror_metadata {
    uint32_t id; /* of an object "default" */
};

struct mirror {
    /* The node that looks: set by node.c. */
    struct {
        enum node_kind kind;
        const char *name;                 /* node.name of its visible stream */
        const char *microphone, *channel; /* as in node_options, or NULL */
        uint32_t capture, source;         /* its streams' nodes, or MIRROR_NONE */
    } own;

    unsigned n_nodes, n_ports, n_links, n_targets, n_metadata;
    struct mirror_node *nodes;
    struct mirror_port *ports;
    struct mirror_link *links;
    struct mirror_target *targets;
    struct mirror_metadata *metadata;
    bool complete;     /* all that PipeWire had at the connection has come */
    uint32_t instance; /* PipeWire's cookie */

    /* What the metadata says; of a speaker, of sinks. */
    bool metadata_complete;                      /* all that it held has come */
    char default_name[256], configured_name[256]; /* node.name, or "" */

    struct recall noted; /* who is to be asked back after this process or this node is gone */
    uint64_t recalled;   /* this node's serial when they were asked last */
};

/* Each adds an object and returns it, zeroed but for its id, until the next object is added; NULL: no memory. */
struct mirror_node *mirror_add_node(struct mirror *m, uint32_t id);
struct mirror_port *mirror_add_port(struct mirror *m, uint32_t id);
struct mirror_link *mirror_add_link(struct mirror *m, uint32_t id);
void mirror_add_metadata(struct mirror *m, uint32_t id);
void mirror_remove(struct mirror *m, uint32_t id); /* one that is not known is fine */

struct mirror_node *mirror_node(const struct mirror *m, uint32_t id); /* NULL: not known */
struct mirror_link *mirror_link(const struct mirror *m, uint32_t id);
struct mirror_target *mirror_target(const struct mirror *m, uint32_t id); /* NULL: the metadata says nothing of it */

/* The role of a node of that media.class (may be NULL) and node.name. */
enum mirror_role mirror_role(const char *class, const char *name);

/* A property of the session manager's metadata: subject 0 for the defaults, else a node; key NULL: all of the subject's
 * are gone; value NULL: this one is gone. */
void mirror_property(struct mirror *m, uint32_t subject, const char *key, const char *value);
/* The metadata is gone, and with it what was chosen; the default stays until other metadata says otherwise. */
void mirror_lose_metadata(struct mirror *m);

/* Forgets the graph; own and noted stay. */
void mirror_clear(struct mirror *m);

#endif
