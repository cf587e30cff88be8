/* mirror.h - a node's copy of what the graph has: plain data, no PipeWire.
 *
 * registry.c fills it with what PipeWire reports, reconcile.c decides by it, and tests feed it events in any order.
 * Objects come and go in any order: a link's nodes may be unknown, a port's node gone. An object for which there is no
 * memory is left out. One thread. */
#ifndef PRIMEKNET_MIRROR_H
#define PRIMEKNET_MIRROR_H

#include "graph/channel.h"
#include "graph/names.h"
#include "graph/recall.h"
#include "graph/volume.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define MIRROR_NONE UINT32_MAX /* the id of no object */

#define INPUTS_MAX 64u /* inputs of one microphone that are mixed */
#define MORE_MIC ENHANCED_MIC "." /* how node.name of further microphones begins: their microphone's name follows */

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
    char name[256], description[128], application[128]; /* the last: the application's name, or "" */
    bool meter;      /* ROLE_RECORDER: it only shows levels */
    bool listens;    /* ROLE_RECORDER: it takes a microphone, for an application; it is no meter, no half of a filter,
                      * and does not record what is played */
    struct volume volume; /* kept up to date of microphones and of this program's streams from them */
    bool hardware;   /* it belongs to a device */
    unsigned priority; /* priority.session */
    char group[128]; /* node.link-group, or "": what enters one of its nodes may leave by any other */
    bool unlinkable; /* this node's streams: its PortConfig is one with which nobody can be linked */
    bool watched;    /* used by registry.c: the node is bound, so meter, listens and group are up to date */
    uint64_t serial; /* object.serial */
    char wanted[256]; /* ROLE_RECORDER: whom it asked for as it came, by name or serial; "": it leaves that open */

    /* reconcile's memory. */
    bool fed;          /* this node's sound reaches it; of a speaker's: its sound reaches this node */
    bool loops;        /* ROLE_MICROPHONE, or ROLE_OUTPUT: it was fed, and not linked to anything else since */
    bool takes_all;    /* another program has moved this node's own capture stream to it, and so others' */
    uint64_t moved_back; /* the serial of such a node that it was moved back from, 0: none */
    bool ported;       /* this node's streams: it has had a port */
    bool linked;       /* to this node's visible stream */
    bool was_linked;   /* to anything, ever */
    bool awaited;      /* asked back, not linked yet */
    bool brought_back; /* asked back, and linked since */
    uint64_t asked;    /* the serial of the node that it was last asked to move to; 0: none */
    bool anew;         /* ... and is to be asked once more, if that was in vain */
    bool settled;      /* its target has been what its application's choice asks for */
    enum { DUE_NOTHING, DUE_MOVE, DUE_RELEASE } due; /* what a new choice of its application asks for */
};

/* A node's entry in the metadata. It arrives on another connection than the nodes, so its node may still be unknown, and
 * the id may have passed to another one: the serial tells. PipeWire clears the entry when its node goes, but need not say
 * so. */
struct mirror_target {
    uint32_t id;
    uint64_t serial;  /* of its node; 0: not told */
    char object[128]; /* target.object: what the user chose for it last, or "" */
    /* The key with which the session manager made it follow the default while this node was the default for want of
     * another; or NULL. */
    const char *misled_by;
};

struct mirror_port {
    uint32_t id, node, number;
    bool input;       /* sound enters its node by it */
    char channel[16]; /* "FL", "MONO", "AUX0" */
};

struct mirror_link {
    uint32_t id, from, to; /* nodes */
    bool active, failed;   /* samples flow; PipeWire could not set it up. Only watched links report it */
    bool watched;          /* used by registry.c: the link is bound, so both are up to date */
};

struct mirror_metadata {
    uint32_t id; /* of a metadata object "default" */
};

struct mirror {
    /* The node itself: set by node.c. */
    struct {
        enum node_kind kind;
        const char *name;                 /* node.name of its visible stream */
        const char *microphone;           /* as in node_options, or NULL */
        struct channel channel;
        uint32_t capture, source;         /* its streams' nodes, or MIRROR_NONE */
        const char *target;               /* wishes.target when its capture stream was opened */
    } own;

    unsigned n_nodes, n_ports, n_links, n_targets, n_metadata;
    struct mirror_node *nodes;
    struct mirror_port *ports;
    struct mirror_link *links;
    struct mirror_target *targets;
    struct mirror_metadata *metadata;
    bool complete;     /* everything the graph had when the node connected has arrived */
    uint32_t instance; /* PipeWire's cookie */

    /* What the metadata says of sources; for a speaker, of sinks. */
    bool metadata_complete;                       /* everything it held has arrived */
    char default_name[256], configured_name[256]; /* node.name, or "" */

    json_t *choices;     /* of NODE_MIC: as in choices.h; NULL: none */
    struct recall noted; /* whom to ask back if this process or this node goes */
    uint64_t recalled;   /* this node's serial when it last asked them */
    struct {
        uint32_t capture;       /* the last capture stream, ... */
        bool linked;            /* ... whether it has been, ... */
        uint64_t serial;        /* ... the microphone that it or one before it was linked to last, 0: none yet, ... */
        uint64_t best;          /* ... the best one of then, ... */
        char default_name[256]; /* ... the default of then ... */
        char target[256];       /* ... and what it asked for */
    } followed;
    char kept[256];      /* node.name of the microphone that was linked last and is none that loops */
    bool keeps;          /* it is asked for by its name, in place of one that loops */
    uint64_t released;   /* the serial of the device that the device stream was moved to and from; 0: none */
    unsigned n_looped;   /* of a speaker on an output that it is to leave: how often ask_anew was set since */
    bool ask_anew;       /* those whose move was in vain, at the next reconcile */
};

/* Each adds an object, zeroed but for its id. The pointer is valid until the next object is added; NULL: no memory. */
struct mirror_node *mirror_add_node(struct mirror *m, uint32_t id);
struct mirror_port *mirror_add_port(struct mirror *m, uint32_t id);
struct mirror_link *mirror_add_link(struct mirror *m, uint32_t id);
void mirror_add_metadata(struct mirror *m, uint32_t id);
void mirror_remove(struct mirror *m, uint32_t id); /* an unknown id is fine */

struct mirror_node *mirror_node(const struct mirror *m, uint32_t id); /* NULL: unknown */
struct mirror_node *mirror_serial(const struct mirror *m, uint64_t serial); /* by object.serial */
struct mirror_node *mirror_named(const struct mirror *m, enum mirror_role role, const char *name); /* by node.name */
struct mirror_link *mirror_link(const struct mirror *m, uint32_t id);
struct mirror_target *mirror_target(const struct mirror *m, const struct mirror_node *node); /* NULL: no entry */

/* The application that a recorder belongs to, as people know it. */
const char *mirror_application(const struct mirror_node *node);
/* Takes a choice for an application, as choices_set does. */
int mirror_choose(struct mirror *m, const char *application, const char *choice);

bool mirror_is_default(const struct mirror *m); /* this node is */
bool mirror_is_silenced(const struct mirror_node *node); /* it is muted, or its volume is 0 */
bool mirror_has_role(const struct mirror *m, enum mirror_role role); /* a node has */

/* The role of a node of that media.class (may be NULL) and node.name. */
enum mirror_role mirror_role(const char *class, const char *name);

/* The name in a default's value, { "name": "..." }; "" if there is none. */
void mirror_read_name(char ret[256], const char *value);

/* The metadata's entry for id is from now on that of the node with this serial. */
void mirror_own_target(struct mirror *m, uint32_t id, uint64_t serial);
/* A property of the session manager's metadata. subject 0: the defaults; otherwise a node. key NULL: all properties of
 * the subject are gone; value NULL: this one is. */
void mirror_property(struct mirror *m, uint32_t subject, const char *key, const char *value);
/* The metadata object is gone, and its entries with it; the default stays until the next one names another. */
void mirror_lose_metadata(struct mirror *m);

/* Forgets the graph; keeps own, noted and choices. */
void mirror_clear(struct mirror *m);

#endif
