/* systemd.h - queries and controls units of the user's service manager, `systemd --user`.
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

/* Returns 0 or -errno; -EHOSTDOWN: no such manager runs. */
int systemd_open(struct systemd **ret, struct err *err);
void systemd_close(struct systemd *m); /* m may be NULL */

int systemd_unit(struct systemd *m, struct systemd_unit *ret, const char *unit, struct err *err);
int systemd_reload(struct systemd *m, struct err *err); /* rereads the unit files */
/* Enables or disables a unit for future logins; does not start or stop it. */
int systemd_enable(struct systemd *m, const char *unit, bool enable, struct err *err);
/* Starts or restarts a unit, and waits until it runs. -ECANCELED: it failed. */
int systemd_start(struct systemd *m, const char *unit, struct err *err);
int systemd_stop(struct systemd *m, const char *unit, struct err *err);

#endif
