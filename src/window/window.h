/* window.h - the window: what primeknetd is doing, and its controls. */
#ifndef PRIMEKNET_WINDOW_WINDOW_H
#define PRIMEKNET_WINDOW_WINDOW_H

#include <adwaita.h>
#include <jansson.h>

#define WINDOW_TYPE (window_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetWindow, window, PRIMEKNET, WINDOW, AdwApplicationWindow)

PrimeknetWindow *window_new(void);
/* What link_watch tells. */
void window_tell(PrimeknetWindow *self, json_t *status, const char *why_none);

#endif
