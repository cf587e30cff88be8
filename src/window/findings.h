/* findings.h - a dialog with the findings of `primeknet doctor`, each with a button that carries out its advice. */
#ifndef PRIMEKNET_WINDOW_FINDINGS_H
#define PRIMEKNET_WINDOW_FINDINGS_H

#include <adwaita.h>

void findings_open(GtkWindow *parent);

#endif
