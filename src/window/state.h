/* state.h - what the daemon's status means to a person: the answer to "does it work?", and what to do if it does not.
 *
 * Plain data, without widgets; any thread. */
#ifndef PRIMEKNET_WINDOW_STATE_H
#define PRIMEKNET_WINDOW_STATE_H

#include <glib.h>
#include <jansson.h>

/* How this window's own recorders call themselves in PipeWire. */
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
    char *advice; /* of the banner; NULL: no banner */
    enum remedy remedy;
    const char *button; /* the remedy's, or NULL */
    char *argument;     /* or NULL */
};

/* What the status does not say. */
struct state_beside {
    const char *why_none; /* without a status: why there is none */
    gboolean set_up;      /* the service starts at login */
    double silent_s;      /* for so long the status says that silence is recorded */
};

/* status: NULL without a daemon. */
void state_of(const json_t *status, const struct state_beside *beside, struct state *ret);
void state_clear(struct state *s);

/* The names of those who record from Enhanced Mic, without this window's own recorders; how many. */
char *state_recorders(const json_t *status, guint *n);

#endif
