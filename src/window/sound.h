/* sound.h - rows for the strength of the enhancement: a preset and, collapsed, the three settings that it sets. */
#ifndef PRIMEKNET_WINDOW_SOUND_H
#define PRIMEKNET_WINDOW_SOUND_H

#include <adwaita.h>
#include <jansson.h>

#define SOUND_TYPE (sound_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSound, sound, PRIMEKNET, SOUND, AdwPreferencesGroup)

void sound_show(PrimeknetSound *self, const json_t *status);

#endif
