/* report.h - the daemon's reports about itself: the answers to "status", "settings", "set", "microphones" and "apps" as
 * JSON, and a line for the service's status.
 *
 * Threads: call everything on the nodes' owner's thread. The caller owns each returned object; NULL means out of
 * memory. */
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

/* Writes what a setting in force requests but is not available now. Returns false if nothing is missing. */
bool report_missing(const struct report *r, int setting, char ret[MISSING_BYTES]);

enum { REPORT_LINE_BYTES = 2048 };

/* Writes one line about what the daemon does, and what prevents it from doing more. */
void report_line(const struct report *r, char ret[REPORT_LINE_BYTES]);

/* Returns the answer to a refused request. */
json_t *report_refusal(const struct err *err);
/* Returns a status. bands: while somebody records, it includes the levels of bands.h, before and after. */
json_t *report_status(const struct report *r, bool bands);
/* Returns the current state of a setting: the answer to "set" and "unset". */
json_t *report_setting(const struct report *r, int setting);
/* Returns all settings, and where each comes from. */
json_t *report_settings(const struct report *r);
/* Writes why the worker has no real-time priority. */
void report_no_realtime(const struct pump_stats *p, char ret[REPORT_LINE_BYTES]);
json_t *report_microphones(const struct report *r);
/* Returns the applications that record, and those with a choice. */
json_t *report_applications(const struct report *r);

#endif
