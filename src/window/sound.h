/* sound.h - rows for how the sound is changed: a preset and, folded away, the three settings that it stands for. */
#ifndef PRIMEKNET_WINDOW_SOUND_H
#define PRIMEKNET_WINDOW_SOUND_H

#include <adwaita.h>
#include <jansson.h>

#define SOUND_TYPE (sound_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSound, sound, PRIMEKNET, SOUND, AdwPreferencesGroup)

void sound_show(PrimeknetSound *self, const json_t *status);

#endif
