/* log.h - the daemon's log: stderr, or the journal where that is the journal's.
 *
 * Threads: say on any; the others on the nodes' owner's. */
#ifndef PRIMEKNET_LOG_H
#define PRIMEKNET_LOG_H

#include "daemon/nodes.h"

#include <stdbool.h>
#include <stdint.h>

/* One line, cut at 1024 bytes; control characters become blanks. priority: SD_INFO and its like of sd-daemon(3). */
void say(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What the log has been told so far; {0} at first. */
struct log {
    struct node_status told; /* of the first node ... */
    char microphone[128];    /* ... whose microphone the log has named last, or "": that it is gone */
    int64_t lost_at;         /* ms: since when it has been away and the log has not said so; 0: it is there */
    uint64_t told_late_hops;
    unsigned told_stalls;
    bool told_realtime;
    int64_t next_late_report; /* ms */
};

/* A line for each thing that has changed since the last call: PipeWire, microphones and outputs, the delay, late
 * hops. */
void log_nodes(struct log *l, struct nodes *nodes);
/* When log_nodes is to be called again at the latest, in ms as now_ms(), or INT64_MAX. */
int64_t log_due(const struct log *l);

#endif
