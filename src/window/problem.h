/* problem.h - translates the problems in a status, and refusals, to sentences in the user's language. Without widgets;
 * any thread. */
#ifndef PRIMEKNET_WINDOW_PROBLEM_H
#define PRIMEKNET_WINDOW_PROBLEM_H

#include <glib.h>
#include <jansson.h>

/* Returns the sentence for a problem or refusal; for an unknown one, the daemon's own message. The caller frees it. */
char *problem_tell(const json_t *problem);
/* Returns the sentences for all problems of a kind (KIND_...) and, unless it is NULL, of a setting; NULL if there are
 * none. The caller frees them. */
char *problem_tell_all(const json_t *status, const char *kind, const char *setting);

#endif
