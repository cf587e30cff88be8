/* nodes.h - the nodes in use: the first microphone's, which always exists, and those of the settings speaker and
 * more_microphones. One worker runs the network for all.
 *
 * Threads: call everything on the nodes' owner's thread. */
#ifndef PRIMEKNET_NODES_H
#define PRIMEKNET_NODES_H

#include "daemon/changes.h"
#include "daemon/engines.h"
#include "graph/node.h"

struct nodes {
    unsigned n;
    struct {
        struct node *node;
        char device[256];        /* the microphone or output for which it was opened, or "default" */
        char told[128];          /* for log.c: the last logged device, "" at first ... */
        char refused[128];       /* ... and the last logged refused one */
    } all[WORKER_PUMPS];         /* the first microphone's node comes first */
    struct node_options options; /* private to nodes.c */
};

/* Opens the first node, for the settings' microphone. options: all other options of node_open. Returns 0 or -errno. */
int nodes_open(struct nodes *s, const struct settings *settings, const struct node_options *options, struct err *err);
void nodes_close(struct nodes *s);

/* Changes the first node to the settings' microphone and channel. An error names the wrong setting. */
int nodes_microphone(struct nodes *s, const struct settings *settings, struct err *err);

/* Opens and closes the other nodes according to the settings, without disturbing those that stay, and sets the controls
 * of all nodes. If a node cannot be opened, it does the rest and returns the error. */
int nodes_follow(struct nodes *s, const struct in_force *now, struct err *err);

/* Returns a node's state, STATE_... of protocol.h. */
const char *nodes_state(const struct node *n, bool bypass);
bool nodes_settled(const struct nodes *s); /* whether all are settled (node_status) */
/* Whether the pumps of all nodes are alive, for the watchdog. */
bool nodes_alive(const struct nodes *s);
/* Returns the load of all nodes together, for engines_step. */
struct engines_load nodes_load(const struct nodes *s);

#endif
