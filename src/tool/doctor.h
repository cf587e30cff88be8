/* doctor.h - declarations shared by the checks of `primeknet doctor`. */
#ifndef PRIMEKNET_DOCTOR_H
#define PRIMEKNET_DOCTOR_H

#include "daemon/settings.h"
#include "graph/survey.h"
#include "tool/systemd.h"

#include <jansson.h>
#include <libintl.h>
#include <stdbool.h>

/* Translates a text; the window's package contains the translations. scripts/messages extracts the texts. */
#define _(text) dgettext(GETTEXT_PACKAGE, text)

enum result { FINE, NOTE, PROBLEM };

/* The checks' results so far, and their shared data. */
struct doctor {
    json_t *checks; /* {"check", "title", "result", "text", "advice", "command"}, in the order of the output */
    bool as_json;
    struct settings settings;
    struct survey *survey;   /* NULL without PipeWire */
    struct systemd *systemd; /* NULL without a systemd user manager */
    struct systemd_unit unit;
    json_t *status; /* from the running daemon, or NULL */
    bool any_model; /* at least one model can be used */
};

/* Adds one check, in the user's language. advice: one sentence on what to do, or NULL; braces mark a command in it that
 * solves the problem by itself. */
void tell(struct doctor *d, enum result result, const char *check, const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Returns the sentence for a word of protocol.h in the user's language. NULL: there is none; the English line
 * says more. */
const char *translated(const char *word);
/* Returns what the daemon says that a setting lacks, in the user's language; "": nothing. */
const char *lacking(const struct doctor *d, const char *setting, char ret[512]);
/* Returns with_systemd if a systemd user manager runs, else (as on Void and Alpine) without. */
const char *either(const struct doctor *d, const char *with_systemd, const char *without);
/* Returns the command that restarts the daemon. */
const char *restart(const struct doctor *d);

/* doctor_machine.c */
void check_models(struct doctor *d);
void check_realtime(struct doctor *d);
void check_gpu(struct doctor *d);
void check_speed(struct doctor *d);

#endif
