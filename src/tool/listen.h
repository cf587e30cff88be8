/* listen.h - plays Enhanced Mic on the default output.
 *
 * Uses PipeWire's loopback module on a thread of its own. Call open and close on the same thread; both block
 * briefly. */
#ifndef PRIMEKNET_LISTEN_H
#define PRIMEKNET_LISTEN_H

#include "base/err.h"

struct listen;

int listen_open(struct listen **ret, struct err *err);
void listen_close(struct listen *l); /* l may be NULL */

#endif
