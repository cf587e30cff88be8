/* manager.h - a session manager controlled by a test, so that the test determines the order of changes in the graph. It
 * configures the nodes' ports, owns the metadata "default", and creates and removes links.
 *
 * Uses a thread and a connection of its own; call everything here from one thread. */
#ifndef PRIMEKNET_MANAGER_H
#define PRIMEKNET_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manager;

struct manager *manager_open(void);    /* NULL: PipeWire does not answer */
void manager_close(struct manager *m); /* removes its metadata; its links stay */

uint32_t manager_node(struct manager *m, const char *name);   /* a node's id; 0: no such node */
uint64_t manager_serial(struct manager *m, const char *name); /* its object.serial, which PipeWire never reuses */
/* from and to: "node:port". Return false if a port does not exist yet, or the link does not exist. */
bool manager_link(struct manager *m, const char *from, const char *to);
bool manager_unlink(struct manager *m, const char *from, const char *to);
bool manager_destroy(struct manager *m, const char *node); /* false: no such node */

/* Does not configure the ports of the next node of this name, as if another client's request had arrived first. */
void manager_deprive(struct manager *m, const char *node);

/* Sets a property of the metadata; value NULL removes it. */
void manager_set(struct manager *m, uint32_t subject, const char *key, const char *value);
/* Returns the value last set by a client or the test, "" if none. */
void manager_get(struct manager *m, uint32_t subject, const char *key, char *ret, size_t size);
/* Returns how often the property has been set or removed. */
unsigned manager_changes(struct manager *m, uint32_t subject, const char *key);

#endif
