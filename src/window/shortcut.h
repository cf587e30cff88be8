/* shortcut.h - a key that switches noise removal from within any application, where the desktop's portal lends one
 * (org.freedesktop.portal.GlobalShortcuts). It works while this program runs; the next run asks for it again. */
#ifndef PRIMEKNET_WINDOW_SHORTCUT_H
#define PRIMEKNET_WINDOW_SHORTCUT_H

#include <gio/gio.h>

struct shortcut;

/* available: the portal can be asked. trigger: the key, for people, or ""; problem: why there is none, or NULL. */
typedef void shortcut_told(gpointer data, gboolean available, const char *trigger, const char *problem);

/* Until the program ends. */
struct shortcut *shortcut_open(GDBusConnection *bus, shortcut_told *told, gpointer data);
/* The desktop asks the user for a key. */
void shortcut_ask(struct shortcut *s);

#endif
