/* applications.h - rows for the applications that record, each with a switch between Enhanced Mic and the bare
 * microphone. */
#ifndef PRIMEKNET_WINDOW_APPLICATIONS_H
#define PRIMEKNET_WINDOW_APPLICATIONS_H

#include <adwaita.h>
#include <jansson.h>

#define APPLICATIONS_TYPE (applications_get_type())
G_DECLARE_FINAL_TYPE(PrimeknetApplications, applications, PRIMEKNET, APPLICATIONS, AdwPreferencesGroup)

void applications_show(PrimeknetApplications *self, const json_t *status);

#endif
