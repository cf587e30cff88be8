/* manager.h - the user's service manager, `systemd --user`: how a unit stands, enabling and starting it.
 *
 * One thread; calls block, each for 5 s at most, manager_start for as long as the unit takes to start. */
#ifndef PRIMEKNET_MANAGER_H
#define PRIMEKNET_MANAGER_H

#include "base/err.h"

#include <stdbool.h>

struct manager;

struct manager_unit {
    char load[32];   /* "loaded", "not-found", "masked", "bad-setting"... */
    char file[32];   /* "enabled", "disabled", ... or "" */
    char active[32]; /* "active", "activating", "inactive", "failed" */
    char result[32]; /* of the last run: "success", "exit-code", "watchdog"... */
    int status;      /* its exit status */
    unsigned restarts;
};

/* -EHOSTDOWN: there is none. */
int manager_open(struct manager **ret, struct err *err);
void manager_close(struct manager *m); /* NULL is fine */

int manager_unit(struct manager *m, struct manager_unit *ret, const char *unit, struct err *err);
int manager_reload(struct manager *m, struct err *err); /* the unit files */
/* For logins to come; does not start or stop it. */
int manager_enable(struct manager *m, const char *unit, bool enable, struct err *err);
/* Starts it, or ends it and starts it again. Returns once it runs or has failed (-ECANCELED). */
int manager_start(struct manager *m, const char *unit, struct err *err);
int manager_stop(struct manager *m, const char *unit, struct err *err);

#endif
