/* autostart.h - manages the daemon on a system without a systemd user manager, such as Void or Alpine. A file (XDG
 * Desktop Application Autostart Specification) makes the desktop start it at login as an ordinary process. In a Flatpak
 * the desktop's portal does so, and the file only records that it agreed. */
#ifndef PRIMEKNET_AUTOSTART_H
#define PRIMEKNET_AUTOSTART_H

#include "base/err.h"

#include <stdbool.h>

enum { AUTOSTART_PATH = 4096 };

/* Writes the file's path. Returns false if there is no folder for it. */
bool autostart_path(char ret[AUTOSTART_PATH]);
/* Whether the file exists. */
bool autostart_is_enabled(void);
/* Writes or removes the file; in a Flatpak, asks the portal first. Returns 0 or -errno; -EACCES: the desktop
 * refuses. */
int autostart_enable(bool enable, struct err *err);

/* Starts or restarts the daemon, and waits until it answers. Returns 0 or -errno. */
int autostart_start(struct err *err);
int autostart_stop(struct err *err); /* does nothing if none runs */

#endif
