/* listen.h - hear yourself: Enhanced Mic played on the default output, for as long as it is open.
 *
 * PipeWire's own loopback, on a thread of its own. Open and close on one thread; the calls block for a moment. */
#ifndef PRIMEKNET_LISTEN_H
#define PRIMEKNET_LISTEN_H

#include "base/err.h"

struct listen;

int listen_open(struct listen **ret, struct err *err);
void listen_close(struct listen *l); /* NULL is fine */

#endif
