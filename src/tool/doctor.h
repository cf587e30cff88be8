/* doctor.h - what the checks of `primeknet doctor` share. */
#ifndef PRIMEKNET_DOCTOR_H
#define PRIMEKNET_DOCTOR_H

#include "daemon/settings.h"
#include "graph/survey.h"
#include "tool/systemd.h"

#include <jansson.h>
#include <libintl.h>
#include <stdbool.h>

/* In the user's language, if the window is installed, which brings the words. scripts/messages finds them. */
#define _(text) dgettext(GETTEXT_PACKAGE, text)

enum result { FINE, NOTE, PROBLEM };

/* What the checks have found out so far. */
struct doctor {
    json_t *checks;       /* {"check", "title", "result", "text", "advice", "command"}, in the order of the output */
    bool as_json;
    struct settings settings;
    struct survey *survey; /* NULL without PipeWire */
    struct systemd *systemd; /* NULL without a systemd for this user */
    struct systemd_unit unit;
    json_t *status;       /* from the running daemon, or NULL */
    bool any_model;       /* there is one that can be used */
};

/* Adds one check, in the user's language. advice: what to do, one sentence, or NULL; braces mark a command in it that is enough by itself. */
void tell(struct doctor *d, enum result result, const char *check, const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Advice where systemd runs for this user, and elsewhere, such as on Void and Alpine. */
const char *either(const struct doctor *d, const char *with_systemd, const char *without);
/* How to restart the daemon. */
const char *restart(const struct doctor *d);

/* doctor_machine.c */
void check_models(struct doctor *d);
void check_realtime(struct doctor *d);
void check_gpu(struct doctor *d);
void check_speed(struct doctor *d);

#endif
