/* commands.h - carries out the commands of protocol.h. Call it on the daemon's main thread. */
#ifndef PRIMEKNET_COMMANDS_H
#define PRIMEKNET_COMMANDS_H

#include "control/server.h"
#include "daemon/changes.h"
#include "daemon/report.h"

struct commands {
    struct control *control;
    struct changes *changes;
    struct report report;
};

/* Handles a request; pass it to control_open. data: the struct commands, filled in before the first request. */
void commands_request(void *data, unsigned client, const char *command, const json_t *request);

#endif
