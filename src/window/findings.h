/* findings.h - what `primeknet doctor` finds, each with a button that does what it advises. */
#ifndef PRIMEKNET_WINDOW_FINDINGS_H
#define PRIMEKNET_WINDOW_FINDINGS_H

#include <adwaita.h>

void findings_open(GtkWindow *parent);

#endif
