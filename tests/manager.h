/* manager.h - a session manager that does only what a test tells it, so that the test chooses the order in which the
 * graph changes. It gives nodes their ports, owns the metadata "default", and makes and removes links.
 *
 * Uses a thread and a connection of its own; call everything here from one thread. */
#ifndef PRIMEKNET_MANAGER_H
#define PRIMEKNET_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manager;

struct manager *manager_open(void); /* NULL: PipeWire does not answer */
void manager_close(struct manager *m); /* its metadata goes, its links stay */

uint32_t manager_node(struct manager *m, const char *name);   /* the id of a node; 0: it is not there */
uint64_t manager_serial(struct manager *m, const char *name); /* its object.serial, which no other ever has */
/* "node:port", both ways. False: a port is not there yet, or the link is not there. */
bool manager_link(struct manager *m, const char *from, const char *to);
bool manager_unlink(struct manager *m, const char *from, const char *to);
bool manager_destroy(struct manager *m, const char *node); /* false: it is not there */

/* The next node of that name gets no ports, as if another client's request came before the manager's. */
void manager_deprive(struct manager *m, const char *node);

/* Properties of the metadata; value NULL: removed. */
void manager_set(struct manager *m, uint32_t subject, const char *key, const char *value);
/* What clients and the test have set last, "" where nothing is set. */
void manager_get(struct manager *m, uint32_t subject, const char *key, char *ret, size_t size);

#endif
