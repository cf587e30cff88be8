/* microphone.h - rows for the microphone: its choice, its level with a clipping light, and the switch for noise
 * removal. */
#ifndef PRIMEKNET_WINDOW_MICROPHONE_H
#define PRIMEKNET_WINDOW_MICROPHONE_H

#include <adwaita.h>
#include <jansson.h>

#define MICROPHONE_TYPE (microphone_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetMicrophone, microphone, PRIMEKNET, MICROPHONE, AdwPreferencesGroup)

void microphone_show(PrimeknetMicrophone *self, const json_t *status);
/* Shows the parts of a status that change with the sound. */
void microphone_show_level(PrimeknetMicrophone *self, const json_t *status);

#endif
