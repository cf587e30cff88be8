/* advanced.h - rows, folded away, for what hardly anybody need know: model, engine, delay, Enhanced Speaker. */
#ifndef PRIMEKNET_WINDOW_ADVANCED_H
#define PRIMEKNET_WINDOW_ADVANCED_H

#include <adwaita.h>
#include <jansson.h>

#define ADVANCED_TYPE (advanced_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetAdvanced, advanced, PRIMEKNET, ADVANCED, AdwPreferencesGroup)

void advanced_show(PrimeknetAdvanced *self, const json_t *status);
/* Of a status, what changes with the sound. */
void advanced_show_delay(PrimeknetAdvanced *self, const json_t *status);

#endif
