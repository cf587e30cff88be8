/* system.h - rows for what belongs to the desktop: whether Enhanced Mic starts at login, and is the default
 * microphone, which key switches it. Emits "changed" when it has learned whether it starts at login. */
#ifndef PRIMEKNET_WINDOW_SYSTEM_H
#define PRIMEKNET_WINDOW_SYSTEM_H

#include <adwaita.h>
#include <jansson.h>

#define SYSTEM_TYPE (system_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSystem, system, PRIMEKNET, SYSTEM, AdwPreferencesGroup)

void system_show(PrimeknetSystem *self, const json_t *status);
/* Asks systemd again. */
void system_look(PrimeknetSystem *self);
/* FALSE: the service is there, but does not start at login. */
gboolean system_is_set_up(PrimeknetSystem *self);

#endif
