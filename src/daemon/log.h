/* log.h - writes changes in the nodes' state to the log. Call it on the nodes' owner's thread. */
#ifndef PRIMEKNET_LOG_H
#define PRIMEKNET_LOG_H

#include "daemon/nodes.h"

#include <stdbool.h>
#include <stdint.h>

/* The last logged state; {0} at first. */
struct log {
    struct node_status told; /* the first node's last logged status ... */
    char microphone[128];    /* ... and last logged microphone; "": its loss was logged */
    int64_t lost_at;         /* ms: when it was lost, if that is not logged yet; else 0 */
    uint64_t told_late_hops;
    unsigned told_stalls;
    bool told_realtime;
    int64_t next_late_report; /* ms */
};

/* Logs a line for each change since the last call: PipeWire, microphones and outputs, the delay, late hops. */
void log_nodes(struct log *l, struct nodes *nodes);
/* Returns the time in ms, as now_ms(), by which log_nodes must be called again, or INT64_MAX. */
int64_t log_due(const struct log *l);

#endif
