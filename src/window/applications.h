/* applications.h - the applications that record as rows of the window, each with a choice: Enhanced Mic, the bare
 * microphone, or what the application asks for. */
#ifndef PRIMEKNET_WINDOW_APPLICATIONS_H
#define PRIMEKNET_WINDOW_APPLICATIONS_H

#include <adwaita.h>
#include <jansson.h>

/* Emits "refused" with the reason when the daemon does not take a choice. */
#define APPLICATIONS_TYPE (applications_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetApplications, applications, PRIMEKNET, APPLICATIONS, AdwPreferencesGroup)

void applications_show(PrimeknetApplications *self, const json_t *status);

#endif
