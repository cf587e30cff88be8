/* systemd.h - the user's service manager, `systemd --user`: the state of a unit; enabling and starting it.
 *
 * One thread. Calls block for up to 5 s; systemd_start blocks for as long as the unit takes to start. */
#ifndef PRIMEKNET_SYSTEMD_H
#define PRIMEKNET_SYSTEMD_H

#include "base/err.h"

#include <stdbool.h>

struct systemd;

struct systemd_unit {
    char load[32];   /* "loaded", "not-found", "masked", "bad-setting"... */
    char file[32];   /* "enabled", "disabled", ... or "" */
    char active[32]; /* "active", "activating", "inactive", "failed" */
    char result[32]; /* of the last run: "success", "exit-code", "watchdog"... */
    int status;      /* exit status of the last run */
    unsigned restarts;
};

/* Returns 0, or -EHOSTDOWN if no such manager runs. */
int systemd_open(struct systemd **ret, struct err *err);
void systemd_close(struct systemd *m); /* m may be NULL */

int systemd_unit(struct systemd *m, struct systemd_unit *ret, const char *unit, struct err *err);
int systemd_reload(struct systemd *m, struct err *err); /* rereads the unit files */
/* For future logins; does not start or stop the unit. */
int systemd_enable(struct systemd *m, const char *unit, bool enable, struct err *err);
/* Starts or restarts the unit. Returns once it runs, or -ECANCELED if it fails. */
int systemd_start(struct systemd *m, const char *unit, struct err *err);
int systemd_stop(struct systemd *m, const char *unit, struct err *err);

#endif
