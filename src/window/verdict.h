/* verdict.h - what a test of the microphone has shown, from the statuses while it recorded. Plain data; any thread. */
#ifndef PRIMEKNET_WINDOW_VERDICT_H
#define PRIMEKNET_WINDOW_VERDICT_H

#include <glib.h>
#include <jansson.h>

struct verdict {
    guint n;           /* statuses */
    double loudest_db; /* before */
    double removed_db; /* noise, as told last; NAN: not told */
    gboolean clips, speaks, bypass;
};

void verdict_begin(struct verdict *v);
/* A status that came while it recorded. */
void verdict_add(struct verdict *v, const json_t *status);
/* A sentence for people, which the caller frees. */
char *verdict_tell(const struct verdict *v);

#endif
