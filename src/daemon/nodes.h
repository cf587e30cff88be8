/* nodes.h - the nodes in use: the first microphone's, which is always there, and those that the settings speaker and
 * more_microphones ask for. One worker runs the network for all.
 *
 * Threads: one, the nodes' owner. */
#ifndef PRIMEKNET_NODES_H
#define PRIMEKNET_NODES_H

#include "daemon/changes.h"
#include "daemon/engines.h"
#include "graph/node.h"

struct nodes {
    unsigned n;
    struct {
        struct node *node;
        char device[256]; /* what it was opened for: a microphone's or an output's name, or "default" */
        char told[128];   /* log.c's: the device that the log names for it, "" at first ... */
        char refused[128]; /* ... and the one that it does not follow */
    } all[WORKER_PUMPS];  /* the first microphone's is the first */
    struct node_options options; /* nodes.c's own */
};

/* Opens the first node for the settings' microphone. options: everything else that node_open needs. */
int nodes_open(struct nodes *s, const struct settings *settings, const struct node_options *options, struct err *err);
void nodes_close(struct nodes *s);

/* Makes the first node follow the settings' microphone and channel. An error names the setting that is wrong. */
int nodes_microphone(struct nodes *s, const struct settings *settings, struct err *err);

/* Opens and closes the other nodes as the settings ask, without disturbing those that stay, and sets the controls of
 * all. If a node cannot be opened, returns an error after doing the rest. */
int nodes_follow(struct nodes *s, const struct in_force *now, struct err *err);

/* What a node does: STATE_... of protocol.h. */
const char *nodes_state(const struct node *n, bool bypass);
bool nodes_settled(const struct nodes *s); /* all are: see node_status */
/* Whether the pumps of all nodes are alive, for the watchdog. */
bool nodes_alive(const struct nodes *s);
/* The load of all nodes together, for engines_step. */
struct engines_load nodes_load(const struct nodes *s);

#endif
