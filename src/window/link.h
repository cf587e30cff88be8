/* link.h - the window's connection to primeknetd: receives each change of its status, and sends requests without
 * blocking.
 *
 * Call everything on GTK's thread; callbacks run there, too. */
#ifndef PRIMEKNET_WINDOW_LINK_H
#define PRIMEKNET_WINDOW_LINK_H

#include "control/client.h"

#include <glib.h>
#include <jansson.h>

/* answer: the daemon's answer, owned by the caller of this callback; NULL if there is none: error then says why. */
typedef void link_told(gpointer data, json_t *answer, const char *error);

/* Reports the daemon's status now and after each change, or why there is none, until the program ends. Reconnects when
 * a daemon starts. Call it once. */
void link_watch(link_told *told, gpointer data);

/* Sends one request, on a connection of its own, after earlier requests with the same command and name. The program
 * does not exit before the answer. Takes ownership of `request`. */
void link_ask(json_t *request, link_told *told, gpointer data);

/* Joins the strings of an array with commas; returns `none` if it is empty. The caller frees the result. */
char *link_join(const json_t *texts, const char *none);

#endif
