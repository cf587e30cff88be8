/* report.h - what the daemon tells about itself, as JSON: the answers to "status", "set" and "microphones".
 *
 * On the thread that owns the node. Every object is the caller's; NULL: out of memory. */
#ifndef PRIMEKNET_REPORT_H
#define PRIMEKNET_REPORT_H

#include "daemon/settings.h"
#include "daemon/nodes.h"

#include <jansson.h>

struct report {
    const struct nodes *nodes;
    const struct settings *settings;
    const struct ready_engine *engine;
    bool loading;        /* another is being loaded */
    bool bypass;
    const char *refused; /* why the file's settings are not in force, or "" ... */
    const char *instead; /* ... and which are, for people */
};

enum { MISSING_BYTES = 1024 };

/* What a setting in force asks for and cannot have now, for people. False: nothing. */
bool report_missing(const struct report *r, int setting, char ret[MISSING_BYTES]);

/* bands: also the bars of bands.h, before and after, while somebody records. */
json_t *report_status(const struct report *r, bool bands);
/* One setting as it is now: the answer to who has set it. */
json_t *report_setting(const struct report *r, int setting);
/* Why the network's thread has no real-time priority. */
const char *report_refusal(const struct pump_stats *p);
json_t *report_microphones(const struct node *n, const struct settings *s);

#endif
