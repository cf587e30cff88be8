/* setting.h - a setting of the daemon's as a row of the window: a scale, a switch, or a choice.
 *
 * What the user moves is set at once, and saved when it has come to rest; what others set is shown. */
#ifndef PRIMEKNET_WINDOW_SETTING_H
#define PRIMEKNET_WINDOW_SETTING_H

#include <adwaita.h>
#include <jansson.h>

/* The daemon has refused a value: what is in force is to be shown again. */
typedef void setting_refused(gpointer data);

struct setting {
    const char *name;
    AdwActionRow *row;   /* NULL: of a scale, which has none */
    GtkRange *scale;     /* or ... */
    GtkSwitch *toggle;   /* or, if both are NULL, the row is an AdwComboRow ... */
    GStrv offered;       /* ... whose choices are these values, and ... */
    char *extra;         /* ... what is in force where it is none of them; */
    const char *extra_title; /* NULL: that is called what it is */
    GtkStringList *titles;
    const char *on, *off; /* of the toggle; NULL: "true" and "false" */
    const char *format;  /* of the scale's value */
    const char *least;   /* what the scale's lower end, shown as "off", sets; NULL: that end is like any other value */
    setting_refused *refused;
    gpointer data;       /* a widget of the window, which tells the reason */
    char *value;         /* what the user has chosen last */
    gboolean filling;    /* the row is being changed, not by the user */
    gboolean under_way, to_set, to_keep;
    guint rest;          /* the timer that ends when the user lets go */
};

/* s: name to data are set. A choice is offered values before it is shown. */
void setting_open(struct setting *s);

/* The values that can be chosen, and what people call them. */
void setting_offer(struct setting *s, const char *const *values, const char *const *titles);
/* What a status says of it. `text` is the row's second line, unless something is missing. */
void setting_show(struct setting *s, const json_t *status, const char *text);

/* Labels a button whose letter has an underscore before it, which a screen reader would read. */
void setting_label(GtkButton *button, const char *label);

/* Turns a switch, unless it is so: that would end a movement of the user's that is still animated, without effect. */
void setting_turn(GtkSwitch *toggle, gboolean on);

#endif
