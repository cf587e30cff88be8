/* microphone.h - rows for the microphone: which one, its level with a light for clipping, and whether its noise is
 * removed. */
#ifndef PRIMEKNET_WINDOW_MICROPHONE_H
#define PRIMEKNET_WINDOW_MICROPHONE_H

#include <adwaita.h>
#include <jansson.h>

#define MICROPHONE_TYPE (microphone_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetMicrophone, microphone, PRIMEKNET, MICROPHONE, AdwPreferencesGroup)

void microphone_show(PrimeknetMicrophone *self, const json_t *status);
/* Of a status, what changes with the sound. */
void microphone_show_level(PrimeknetMicrophone *self, const json_t *status);

#endif
