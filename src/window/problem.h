/* problem.h - the problems in a status, and refusals, as sentences in the user's language. Plain data, without widgets;
 * any thread. */
#ifndef PRIMEKNET_WINDOW_PROBLEM_H
#define PRIMEKNET_WINDOW_PROBLEM_H

#include <glib.h>
#include <jansson.h>

/* One problem, or refusal; the daemon's own words for those that are not known here. The caller frees it. */
char *problem_tell(const json_t *problem);
/* All problems of that kind (KIND_...) and, unless it is NULL, of that setting. NULL: there are none. The caller frees
 * it. */
char *problem_tell_all(const json_t *status, const char *kind, const char *setting);

#endif
