/* system.h - rows for desktop integration: start at login, the default microphone, the key that switches noise removal.
 * Emits "changed" when it is known whether the service starts at login. */
#ifndef PRIMEKNET_WINDOW_SYSTEM_H
#define PRIMEKNET_WINDOW_SYSTEM_H

#include <adwaita.h>
#include <jansson.h>

#define SYSTEM_TYPE (system_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSystem, system, PRIMEKNET, SYSTEM, AdwPreferencesGroup)

void system_show(PrimeknetSystem *self, const json_t *status);
/* Asks systemd again. */
void system_look(PrimeknetSystem *self);
/* FALSE: the service is installed, but does not start at login. */
gboolean system_is_set_up(PrimeknetSystem *self);
/* Whether systemd runs the service. */
gboolean system_has_systemd(PrimeknetSystem *self);

#endif
