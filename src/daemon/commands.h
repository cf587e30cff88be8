/* commands.h - what the control socket's clients can ask of the daemon:
 *
 *     {"command": "status"}                              report_status; "bands": true for the bars, too
 *     {"command": "watch"}                               the same, and anew after each change
 *     {"command": "microphones"}                         report_microphones
 *     {"command": "apps"}                                report_applications
 *     {"command": "app", "name": NAME, "choice": "on"}   or "off", "auto": the same, after it
 *     {"command": "set", "name": NAME, "value": TEXT}    report_setting; "save": true writes it into the file, too
 *     {"command": "profile", "state": "on"}              or "off": report_status
 *     {"command": "bypass", "state": "on"}               or "off", "toggle"; the answer is {"bypass": true or false}
 *
 * On the daemon's one thread. */
#ifndef PRIMEKNET_COMMANDS_H
#define PRIMEKNET_COMMANDS_H

#include "daemon/changes.h"
#include "daemon/control.h"
#include "daemon/report.h"

struct commands {
    struct control *control;
    struct changes *changes;
    struct report report;
};

/* Takes a request for control_open. data: the struct commands, filled before the first one comes. */
void commands_request(void *data, unsigned client, const char *command, const json_t *request);

#endif
