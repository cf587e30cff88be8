/* command.h - runs commands for the window, without a shell. Call everything on GTK's thread. */
#ifndef PRIMEKNET_WINDOW_COMMAND_H
#define PRIMEKNET_WINDOW_COMMAND_H

#include <gio/gio.h>

/* problem: why the command failed, or NULL. */
typedef void command_done(gpointer data, const char *problem);
void command_run(const char *command, command_done *done, gpointer data);

/* Starts a command that ends with this program at the latest; its stderr can be read. Returns NULL if it does not
 * start. */
GSubprocess *command_start(const char *const *words, GError **error);
/* For callers that wait for the process themselves: returns why it failed, or NULL. The caller frees the text. */
char *command_problem(GSubprocess *process, GAsyncResult *result);

#endif
