/* report.h - what the daemon reports about itself: the answers to "status", "settings", "set", "microphones" and "apps"
 * as JSON, and a line for the service's status.
 *
 * Threads: the nodes' owner. The caller owns every object returned; NULL means out of memory. */
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

/* Says what a setting in force asks for but cannot have now. False if it has everything. */
bool report_missing(const struct report *r, int setting, char ret[MISSING_BYTES]);

enum { REPORT_LINE_BYTES = 2048 };

/* Says in one line what the daemon does, and what keeps it from doing what it should. */
void report_line(const struct report *r, char ret[REPORT_LINE_BYTES]);

/* The answer to a request that was refused. */
json_t *report_refusal(const struct err *err);
/* bands: also the levels of bands.h, before and after, while somebody records. */
json_t *report_status(const struct report *r, bool bands);
/* One setting as it is now: the answer to "set" and "unset". */
json_t *report_setting(const struct report *r, int setting);
/* All settings, and where each comes from. */
json_t *report_settings(const struct report *r);
/* Why the worker has no real-time priority. */
void report_no_realtime(const struct pump_stats *p, char ret[REPORT_LINE_BYTES]);
json_t *report_microphones(const struct report *r);
/* The applications that record, and those for which there is a choice. */
json_t *report_applications(const struct report *r);

#endif
