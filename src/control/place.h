/* place.h - the address of the control socket: $XDG_RUNTIME_DIR/primeknet/control, in a directory that only the user
 * can enter. Any thread. */
#ifndef PRIMEKNET_CONTROL_PLACE_H
#define PRIMEKNET_CONTROL_PLACE_H

#include "base/err.h"

#include <sys/un.h>

/* Returns 0 or -errno; -EPERM: the program runs under sudo, so not as the daemon's user. */
int control_place(struct sockaddr_un *ret, struct err *err);

#endif
