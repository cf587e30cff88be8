/* findings.h - what `primeknet doctor` finds, each with a button that does what it advises. */
#ifndef PRIMEKNET_WINDOW_FINDINGS_H
#define PRIMEKNET_WINDOW_FINDINGS_H

#include <adwaita.h>

void findings_open(GtkWindow *parent);

/* problem: why the command failed, or NULL. */
typedef void findings_done(gpointer data, const char *problem);
/* Runs a command without a shell. */
void findings_carry_out(const char *command, findings_done *done, gpointer data);

#endif
