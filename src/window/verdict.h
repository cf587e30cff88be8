/* verdict.h - judges a microphone test from the statuses during its recording. Plain data; any thread. */
#ifndef PRIMEKNET_WINDOW_VERDICT_H
#define PRIMEKNET_WINDOW_VERDICT_H

#include <glib.h>
#include <jansson.h>

struct verdict {
    guint n;           /* statuses */
    double loudest_db; /* input level */
    double removed_db; /* the last reported noise reduction; NAN: none */
    gboolean clips, speaks, bypass;
};

void verdict_begin(struct verdict *v);
/* Adds a status received during the recording. */
void verdict_add(struct verdict *v, const json_t *status);
/* Returns the result as a sentence; the caller frees it. */
char *verdict_tell(const struct verdict *v);

#endif
