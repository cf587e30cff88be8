/* mirror.h - a node's copy of the graph: plain data, independent of PipeWire.
 *
 * registry.c fills it with what PipeWire reports, reconcile.c bases its decisions on it, and tests feed it events in
 * any order. Objects appear and disappear in any order: the nodes of a link may be unknown, the node of a port gone. An
 * object that cannot be allocated is left out. One thread. */
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

#define INPUTS_MAX 64u            /* at most: inputs of one microphone to mix */
#define MORE_MIC ENHANCED_MIC "." /* prefix of node.name for further microphones; the microphone's name follows */

enum mirror_role {
    ROLE_OTHER,
    ROLE_MICROPHONE, /* a source that does not belong to this program */
    ROLE_OUTPUT,     /* a sink */
    ROLE_RECORDER,   /* an application's stream that records */
    ROLE_PLAYER,     /* an application's stream that plays */
};

struct mirror_node {
    uint32_t id;
    enum mirror_role role;
    char name[256], description[128], application[128]; /* application: the application's name, or "" */
    bool meter;                                         /* ROLE_RECORDER: a level meter */
    bool listens; /* ROLE_RECORDER: records a microphone for an application; not a level meter, not half of a filter,
                      * not the monitor of an output */
    struct volume volume; /* up to date for microphones and for this program's streams */
    bool hardware;        /* belongs to a device */
    unsigned priority;    /* priority.session */
    char group[128];      /* node.link-group, or "": sound that enters one node of a group may leave by another */
    bool failed;          /* PipeWire has failed to start it, and has removed its links */
    bool watched;         /* for registry.c: the node is bound, so failed, meter, listens and group are up to date */
    uint64_t serial;      /* object.serial */
    bool autoconnects;    /* ROLE_RECORDER, ROLE_PLAYER: the session manager should link it */
    char wanted[256];     /* of these roles: its initial target.object, a name or serial; "": none */

    /* State of reconcile.c. */
    bool fed;            /* this node's sound reaches it; for a speaker: its sound reaches this node */
    bool loops;          /* ROLE_MICROPHONE, ROLE_OUTPUT: was fed, and has not been linked to anything else since */
    bool takes_all;      /* another program moves streams to it, this node's own capture stream among them */
    uint64_t moved_back; /* the serial of such a node from which it was moved back; 0: none */
    bool linked;         /* linked to this node's visible stream */
    bool was_linked;     /* has ever been linked to anything */
    unsigned n_unlinked; /* how often ask_anew was set while it should have been linked to this node and was not */
    bool awaited;        /* restored to this node, but not linked yet */
    bool brought_back;   /* restored to this node, and linked since */
    uint64_t asked;      /* the serial of the node to which it was last moved; 0: none */
    bool anew;           /* ... and is to be moved once more if that had no effect */
    bool settled;        /* its target has matched its application's choice */
    enum { DUE_NOTHING, DUE_MOVE, DUE_RELEASE } due; /* the action that a new choice for its application requires */
};

/* A node's entry in the metadata. It arrives on another connection than the nodes. Its node may therefore be unknown
 * still, or the id may belong to another node already, as the serial shows. PipeWire clears the entry when the node
 * disappears, but does not always report that. */
struct mirror_target {
    uint32_t id;
    uint64_t serial;  /* of its node; 0: unknown */
    char object[128]; /* target.object: the user's last choice, or "" */
    /* Set if the session manager pinned this stream to the default only because no other source existed: the metadata
     * key that it used. Otherwise NULL. */
    const char *misled_by;
};

struct mirror_port {
    uint32_t id, node, number;
    char channel[16]; /* "FL", "MONO", "AUX0" */
};

struct mirror_link {
    uint32_t id, from, to; /* nodes */
    bool active, failed;   /* active: samples flow; failed: PipeWire could not set it up; for watched links only */
    bool watched;          /* for registry.c: the link is bound, so both are up to date */
};

struct mirror_metadata {
    uint32_t id; /* a metadata object named "default" */
};

struct mirror {
    /* The node itself; node.c sets these fields. */
    struct {
        enum node_kind kind;
        const char *name;       /* node.name of its visible stream */
        const char *microphone; /* as in node_options, or NULL */
        struct channel channel;
        uint32_t capture, source; /* its streams' nodes, or MIRROR_NONE */
        const char *target;       /* wishes.target when its capture stream was opened */
        bool transparent;         /* as in node_transparent */
    } own;

    unsigned n_nodes, n_ports, n_links, n_targets, n_metadata;
    struct mirror_node *nodes;
    struct mirror_port *ports;
    struct mirror_link *links;
    struct mirror_target *targets;
    struct mirror_metadata *metadata;
    uint32_t filters;  /* the metadata object named "filters", or 0: the session manager inserts none */
    bool complete;     /* the initial content of the graph has arrived */
    uint32_t instance; /* PipeWire's cookie */

    /* The metadata's content about sources or, for a speaker, sinks. */
    bool metadata_complete;                       /* its initial content has arrived */
    char default_name[256], configured_name[256]; /* node.name, or "" */

    json_t *choices;     /* NODE_MIC: as in choices.h; NULL: none */
    struct recall noted; /* the streams to restore after this process or node ends */
    uint64_t recalled;   /* this node's serial when it last restored them */
    struct {
        uint32_t capture;       /* the last capture stream, ... */
        bool linked;            /* ... whether it has been linked, and the link did not fail, ... */
        uint64_t serial;        /* ... the microphone to which it or a predecessor was last linked, 0: none, ... */
        uint64_t best;          /* ... the best microphone at that time, ... */
        char default_name[256]; /* ... the default at that time ... */
        char target[256];       /* ... and the target that it requested */
    } followed;
    char kept[256];    /* node.name of the last linked microphone that does not loop */
    bool keeps;        /* it is requested by name, in place of one that loops */
    uint64_t released; /* the serial of the device to and from which the device stream was moved; 0: none */
    unsigned n_looped; /* of a speaker that should leave its output: how often ask_anew has been set since */
    bool ask_anew;     /* at the next reconcile, have the session manager look again at unlinked streams */
};

/* Each adds an object, all zeros except its id. The pointer is valid until the next object is added; NULL: out of
 * memory. */
struct mirror_node *mirror_add_node(struct mirror *m, uint32_t id);
struct mirror_port *mirror_add_port(struct mirror *m, uint32_t id);
struct mirror_link *mirror_add_link(struct mirror *m, uint32_t id);
void mirror_add_metadata(struct mirror *m, uint32_t id);
void mirror_remove(struct mirror *m, uint32_t id); /* ignores an unknown id */

/* Record what PipeWire reports on an object. A node stays failed if PipeWire starts it later, for it does so without
 * the links that the node has lost. */
void mirror_report_node(struct mirror_node *node, bool failed);
void mirror_report_link(struct mirror *m, struct mirror_link *link, bool active, bool failed);

struct mirror_node *mirror_node(const struct mirror *m, uint32_t id);       /* NULL: unknown */
struct mirror_node *mirror_serial(const struct mirror *m, uint64_t serial); /* by object.serial */
struct mirror_node *mirror_named(const struct mirror *m, enum mirror_role role, const char *name); /* by node.name */
struct mirror_link *mirror_link(const struct mirror *m, uint32_t id);
bool mirror_ends_at(uint32_t end, uint32_t stream); /* an end of a link is this stream, which may be MIRROR_NONE */
struct mirror_target *mirror_target(const struct mirror *m, const struct mirror_node *node); /* NULL: no entry */

/* Returns the display name of the application to which a recorder belongs. */
const char *mirror_application(const struct mirror_node *node);
/* Sets a choice for an application; returns as choices_set does. */
int mirror_choose(struct mirror *m, const char *application, const char *choice);

uint32_t mirror_visible(const struct mirror *m);         /* the node of this node's visible stream, or MIRROR_NONE */
bool mirror_is_default(const struct mirror *m);          /* this node is the default */
bool mirror_is_silenced(const struct mirror_node *node); /* muted, or its volume is 0 */
bool mirror_has_role(const struct mirror *m, enum mirror_role role); /* any node has it */

/* Returns the role of a node with this media.class (may be NULL) and node.name. */
enum mirror_role mirror_role(const char *class, const char *name);

/* Reads the name from a default's value, { "name": "..." }; "" if there is none. */
void mirror_read_name(char ret[256], const char *value);

/* Assigns the metadata's entry for id to the node with this serial. */
void mirror_own_target(struct mirror *m, uint32_t id, uint64_t serial);
/* Records a property of the session manager's metadata. subject 0: the defaults; otherwise a node. key NULL: all
 * properties of the subject were removed; value NULL: this one was. */
void mirror_property(struct mirror *m, uint32_t subject, const char *key, const char *value);
/* Records that the metadata object is gone: removes its entries, but keeps the default until the next object names
 * one. */
void mirror_lose_metadata(struct mirror *m);

/* Clears the graph; keeps own, noted and choices. */
void mirror_clear(struct mirror *m);

#endif
