/* command.h - commands that the window runs, without a shell. GTK's thread. */
#ifndef PRIMEKNET_WINDOW_COMMAND_H
#define PRIMEKNET_WINDOW_COMMAND_H

#include <gio/gio.h>

/* problem: why the command failed, or NULL. */
typedef void command_done(gpointer data, const char *problem);
void command_run(const char *command, command_done *done, gpointer data);

/* Starts one that ends with this program at the latest; its messages can be read. NULL: it did not start. */
GSubprocess *command_start(const char *const *words, GError **error);
/* Why it failed, or NULL; for those who wait for it themselves. The caller frees it. */
char *command_problem(GSubprocess *process, GAsyncResult *result);

#endif
