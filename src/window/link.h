/* link.h - primeknetd as the window sees it: what it is doing, as that changes, and requests that nothing waits for.
 *
 * Everything is called, and calls back, on GTK's thread. */
#ifndef PRIMEKNET_WINDOW_LINK_H
#define PRIMEKNET_WINDOW_LINK_H

#include "control/client.h"

#include <glib.h>
#include <jansson.h>

/* answer: the daemon's, which stays the caller's; NULL where there is none, and error says why. */
typedef void link_told(gpointer data, json_t *answer, const char *error);

/* Tells the daemon's status now and after each change, or why there is none, until the program ends; looks for a daemon
 * that is away. Once. */
void link_watch(link_told *told, gpointer data);

/* Asks once, on a connection of its own, after what was asked before of the same command and name; the program does not
 * end before the answer. Takes `request` over. */
void link_ask(json_t *request, link_told *told, gpointer data);

/* Of an array: its texts with commas between; `none` where it is empty. The caller frees it. */
char *link_join(const json_t *texts, const char *none);

#endif
