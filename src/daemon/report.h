/* report.h - what the daemon tells about itself: the answers to "status", "set" and "microphones" as JSON, and a line
 * for the service's status.
 *
 * On the thread that owns the nodes. Every object is the caller's; NULL: out of memory. */
#ifndef PRIMEKNET_REPORT_H
#define PRIMEKNET_REPORT_H

#include "daemon/changes.h"
#include "daemon/nodes.h"

#include <jansson.h>

struct report {
    const struct nodes *nodes;
    const struct ready_engine *engine;
    const struct in_force *now;
};

enum { MISSING_BYTES = 1024 };

/* What a setting in force asks for and cannot have now, for people. False: nothing. */
bool report_missing(const struct report *r, int setting, char ret[MISSING_BYTES]);

enum { REPORT_LINE_BYTES = 2048 };

/* What the daemon does and what keeps it from what it should, in one line for people. */
void report_line(const struct report *r, char ret[REPORT_LINE_BYTES]);

/* bands: also the bars of bands.h, before and after, while somebody records. */
json_t *report_status(const struct report *r, bool bands);
/* One setting as it is now: the answer to who has set it. */
json_t *report_setting(const struct report *r, int setting);
/* Why the network's thread has no real-time priority. */
const char *report_refusal(const struct pump_stats *p);
json_t *report_microphones(const struct report *r);

#endif
