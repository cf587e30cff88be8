/* commands.h - carries out the commands of protocol.h. On the daemon's one thread. */
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

/* Takes a request for control_open. data: the struct commands, filled before the first one comes. */
void commands_request(void *data, unsigned client, const char *command, const json_t *request);

#endif
