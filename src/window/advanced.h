/* advanced.h - collapsed rows for expert settings: model, engine, delay, Enhanced Speaker. */
#ifndef PRIMEKNET_WINDOW_ADVANCED_H
#define PRIMEKNET_WINDOW_ADVANCED_H

#include <adwaita.h>
#include <jansson.h>

#define ADVANCED_TYPE (advanced_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetAdvanced, advanced, PRIMEKNET, ADVANCED, AdwPreferencesGroup)

void advanced_show(PrimeknetAdvanced *self, const json_t *status);
/* Shows the parts of a status that change with the sound. */
void advanced_show_delay(PrimeknetAdvanced *self, const json_t *status);

#endif
