/* setting.h - a row of the window for one of the daemon's settings: a scale, a switch, or a choice.
 *
 * Sets a value as soon as the user moves the control, and saves it once the control rests. Shows values that other
 * clients set. */
#ifndef PRIMEKNET_WINDOW_SETTING_H
#define PRIMEKNET_WINDOW_SETTING_H

#include <adwaita.h>
#include <jansson.h>

/* Called when the daemon has refused a value: show the value in force again. */
typedef void setting_refused(gpointer data);

struct setting {
    const char *name;
    AdwActionRow *row;       /* NULL for a scale */
    GtkRange *scale;         /* or ... */
    GtkSwitch *toggle;       /* or, if both are NULL, the row is an AdwComboRow ... */
    GStrv offered;           /* ... with these values, and ... */
    char *extra;             /* ... the value in force if it is not among them; */
    const char *extra_title; /* the title of `extra`; NULL: the value itself */
    GtkStringList *titles;
    const char *on, *off; /* of the toggle; NULL: "true" and "false" */
    const char *format;   /* of the scale's value */
    const char *least;    /* what the scale's lower end, shown as "off", sets; NULL: that end is like any other value */
    setting_refused *refused;
    gpointer data;    /* a widget of the window, in which the reason is shown */
    char *value;      /* the user's last choice */
    gboolean filling; /* the program, not the user, is changing the row */
    gboolean under_way, to_set, to_keep;
    guint rest; /* the timer that ends when the control rests */
};

/* Set the fields from name to data first. For a choice, call setting_offer before setting_show. */
void setting_open(struct setting *s);

/* Sets the values of a choice and their titles. */
void setting_offer(struct setting *s, const char *const *values, const char *const *titles);
/* Shows the setting's value in a status. `text` is the row's subtitle, unless something is missing. */
void setting_show(struct setting *s, const json_t *status, const char *text);

/* Sets a button's label, with an underscore before its mnemonic, so that a screen reader does not read the
 * underscore. */
void setting_label(GtkButton *button, const char *label);

/* Sets a switch unless it has this state already: setting it again would cancel the user's change while it is
 * animated. */
void setting_turn(GtkSwitch *toggle, gboolean on);

#endif
