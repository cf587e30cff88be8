/* findings.h - a dialog with the findings of `primeknet doctor`, each with a button that carries out its advice. */
#ifndef PRIMEKNET_WINDOW_FINDINGS_H
#define PRIMEKNET_WINDOW_FINDINGS_H

#include <adwaita.h>

void findings_open(GtkWindow *parent);
/* Shows a problem for ten seconds, as its sentence is longer than a toast usually has. */
void findings_say(AdwToastOverlay *toasts, const char *problem);

#endif
