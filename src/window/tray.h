/* tray.h - an item in the panel's tray: on and off, strength, the window.
 *
 * Debian 12 has no library for such items that goes with GTK 4, so the item's few properties are served here, as
 * org.kde.StatusNotifierItem; the menu is libdbusmenu's. */
#ifndef PRIMEKNET_WINDOW_TRAY_H
#define PRIMEKNET_WINDOW_TRAY_H

#include <gio/gio.h>
#include <jansson.h>

struct tray;

/* Keeps the application running, and activates its "show" and "quit". */
struct tray *tray_open(GApplication *application);
void tray_close(struct tray *t);
/* What link_watch tells; NULL: no daemon. */
void tray_tell(struct tray *t, const json_t *status);

#endif
