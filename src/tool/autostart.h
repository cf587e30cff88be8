/* autostart.h - the daemon on a system where no systemd runs for the user, such as Void or Alpine: desktops start it at
 * login by a file, after the XDG Desktop Application Autostart Specification, and it is a process like any other. */
#ifndef PRIMEKNET_AUTOSTART_H
#define PRIMEKNET_AUTOSTART_H

#include "base/err.h"

#include <stdbool.h>

enum { AUTOSTART_PATH = 4096 };

/* The file. False: there is no such folder. */
bool autostart_path(char ret[AUTOSTART_PATH]);
/* Whether it is there. */
bool autostart_is_enabled(void);
/* Writes or removes it. */
int autostart_enable(bool enable, struct err *err);

/* Starts the daemon, or restarts it. Returns once it answers. */
int autostart_start(struct err *err);
int autostart_stop(struct err *err); /* nothing to do where none runs */

#endif
