/* shortcut.h - a key that switches noise removal in any application, through the desktop's portal
 * org.freedesktop.portal.GlobalShortcuts. It works while this program runs; the next run requests it again. */
#ifndef PRIMEKNET_WINDOW_SHORTCUT_H
#define PRIMEKNET_WINDOW_SHORTCUT_H

#include <gio/gio.h>

struct shortcut;

/* available: the portal exists. trigger: the key, for display, or ""; problem: why there is none, or NULL. */
typedef void shortcut_told(gpointer data, gboolean available, const char *trigger, const char *problem);

/* Stays open until the program ends. */
struct shortcut *shortcut_open(GDBusConnection *bus, shortcut_told *told, gpointer data);
/* Makes the desktop ask the user for a key. */
void shortcut_ask(struct shortcut *s);

#endif
