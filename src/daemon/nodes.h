/* nodes.h - all that is enhanced at once: the first microphone, which is always there, and what the settings speaker
 * and more_microphones ask for besides. Every one is a node of its own; one worker runs the network for all.
 *
 * Threads: everything on one thread, the nodes' owner. */
#ifndef PRIMEKNET_NODES_H
#define PRIMEKNET_NODES_H

#include "daemon/changes.h"
#include "daemon/engines.h"
#include "graph/node.h"

struct nodes {
    unsigned n;
    struct node *nodes[WORKER_PUMPS]; /* the first microphone's is the first */
    char told[WORKER_PUMPS][128];     /* what the log was told that each is linked to: the owner's, "" at first */
    /* nodes.c's own */
    struct node_options options;
    char devices[WORKER_PUMPS][256];  /* what each was opened for: a microphone's or an output's name, or "default" */
};

/* Opens the first, for the settings' microphone. options: the rest of what node_open is to be given. */
int nodes_open(struct nodes *s, const struct settings *settings, const struct node_options *options, struct err *err);
void nodes_close(struct nodes *s);

/* The first follows the settings' microphone and channel; an error says what these cannot be. */
int nodes_microphone(struct nodes *s, const struct settings *settings, struct err *err);

/* Opens and closes the others until they are what the settings ask for, and sets the controls of all; those that
 * stay are not disturbed. Where one cannot be opened that is an error, and all else is done. */
int nodes_follow(struct nodes *s, const struct in_force *now, struct err *err);

/* What a node does, for people: "enhancing", "idle", ... */
const char *nodes_state(const struct node *n, bool bypass);
/* For a watchdog, as pump_alive: of all. */
bool nodes_alive(const struct nodes *s);
/* Sums over all, for engines_step. */
struct engines_load nodes_load(const struct nodes *s);

#endif
