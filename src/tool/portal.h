/* portal.h - asks the desktop to start the daemon at login, through its portal org.freedesktop.portal.Background. In a
 * Flatpak this is the only way: nobody reads the autostart folder there. */
#ifndef PRIMEKNET_PORTAL_H
#define PRIMEKNET_PORTAL_H

#include "base/err.h"

#include <stdbool.h>

/* Whether this program runs in a Flatpak. */
bool portal_is_needed(void);

/* Blocks until the desktop answers, which may ask the user first. Returns 0 or -errno; -EACCES: it refuses. */
int portal_start_at_login(bool enable, struct err *err);

#endif
