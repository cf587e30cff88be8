/* spectrum.h - draws the sound in frequency bands: the level before enhancement, and in front of it the level after. */
#ifndef PRIMEKNET_WINDOW_SPECTRUM_H
#define PRIMEKNET_WINDOW_SPECTRUM_H

#include <gtk/gtk.h>
#include <jansson.h>

/* Emits "drawn" after each drawing. */
#define SPECTRUM_TYPE (spectrum_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetSpectrum, spectrum, PRIMEKNET, SPECTRUM, GtkWidget)

/* Shows the bands of a status; without bands, silence. */
void spectrum_show(PrimeknetSpectrum *self, const json_t *status);

#endif
