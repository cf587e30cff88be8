/* log.h - what the log is told of the nodes. On the nodes' owner's thread. */
#ifndef PRIMEKNET_LOG_H
#define PRIMEKNET_LOG_H

#include "daemon/nodes.h"

#include <stdbool.h>
#include <stdint.h>

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
