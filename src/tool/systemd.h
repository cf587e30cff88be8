/* systemd.h - the user's service manager, `systemd --user`: how a unit stands, enabling and starting it.
 *
 * One thread; calls block, each for 5 s at most, systemd_start for as long as the unit takes to start. */
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
    int status;      /* its exit status */
    unsigned restarts;
};

/* -EHOSTDOWN: there is none. */
int systemd_open(struct systemd **ret, struct err *err);
void systemd_close(struct systemd *m); /* NULL is fine */

int systemd_unit(struct systemd *m, struct systemd_unit *ret, const char *unit, struct err *err);
int systemd_reload(struct systemd *m, struct err *err); /* the unit files */
/* For logins to come; does not start or stop it. */
int systemd_enable(struct systemd *m, const char *unit, bool enable, struct err *err);
/* Starts it, or ends it and starts it again. Returns once it runs or has failed (-ECANCELED). */
int systemd_start(struct systemd *m, const char *unit, struct err *err);
int systemd_stop(struct systemd *m, const char *unit, struct err *err);

#endif
