/* window.h - the main window: primeknetd's status and controls. */
#ifndef PRIMEKNET_WINDOW_WINDOW_H
#define PRIMEKNET_WINDOW_WINDOW_H

#include <adwaita.h>
#include <jansson.h>

#define WINDOW_TYPE (window_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetWindow, window, PRIMEKNET, WINDOW, AdwApplicationWindow)

PrimeknetWindow *window_new(void);
/* Passes the result of link_watch. */
void window_tell(PrimeknetWindow *self, json_t *status, const char *why_none);

#endif
