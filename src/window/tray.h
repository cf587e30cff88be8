/* tray.h - a tray icon that switches noise removal, sets the strength, and opens the window.
 *
 * Debian 12 has no tray library that works with GTK 4. This file therefore implements org.kde.StatusNotifierItem
 * itself; libdbusmenu provides the menu. */
#ifndef PRIMEKNET_WINDOW_TRAY_H
#define PRIMEKNET_WINDOW_TRAY_H

#include <gio/gio.h>
#include <jansson.h>

struct tray;

/* Keeps the application running, and activates its actions "show" and "quit". */
struct tray *tray_open(GApplication *application);
void tray_close(struct tray *t);
/* Passes a status from link_watch; NULL: no daemon. */
void tray_tell(struct tray *t, const json_t *status);

#endif
