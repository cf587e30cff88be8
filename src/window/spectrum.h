/* spectrum.h - a picture of the sound in bands of frequency: the level before, and in front of it that after. */
#ifndef PRIMEKNET_WINDOW_SPECTRUM_H
#define PRIMEKNET_WINDOW_SPECTRUM_H

#include <gtk/gtk.h>
#include <jansson.h>

/* Emits "drawn" whenever it has been drawn. */
#define SPECTRUM_TYPE (spectrum_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSpectrum, spectrum, PRIMEKNET, SPECTRUM, GtkWidget)

/* Of a status that was asked for with bands; without them, silence. */
void spectrum_show(PrimeknetSpectrum *self, const json_t *status);

#endif
