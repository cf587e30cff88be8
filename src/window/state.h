/* state.h - summarises the daemon's status for the user: whether it works, and what to do if it does not.
 *
 * Plain data, without widgets; any thread. */
#ifndef PRIMEKNET_WINDOW_STATE_H
#define PRIMEKNET_WINDOW_STATE_H

#include <glib.h>
#include <jansson.h>

/* The application name of this window's own recorders in PipeWire. */
#define OWN_RECORDER "PrimeKnet"

enum look { LOOK_WORKING, LOOK_RESTING, LOOK_WARNING, LOOK_BROKEN };

enum remedy {
    REMEDY_NONE,
    REMEDY_COMMAND, /* `argument` is a command for command_run */
    REMEDY_OPEN,    /* `argument` is a file to correct */
    REMEDY_CHECK,   /* look for problems */
};

struct state {
    enum look look;
    const char *icon;
    char *line;
    char *detail; /* a second line, or "" */
    char *advice; /* the banner's text; NULL: no banner */
    enum remedy remedy;
    const char *button; /* the label of the remedy's button, or NULL */
    char *argument;     /* or NULL */
};

/* Information that is not in the status. */
struct state_beside {
    const char *why_none; /* why there is no status, if there is none */
    gboolean set_up;      /* the service starts at login */
    double silent_s;      /* how long the status has reported that silence is recorded */
    gboolean no_systemd;  /* no systemd runs the service */
};

/* status: NULL without a daemon. Free *ret with state_clear. */
void state_of(const json_t *status, const struct state_beside *beside, struct state *ret);
void state_clear(struct state *s);

/* Returns the names of the applications that record from Enhanced Mic, except this window's own recorders, and their
 * number. The caller frees the text. */
char *state_recorders(const json_t *status, guint *n);

#endif
