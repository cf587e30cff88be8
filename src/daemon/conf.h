/* conf.h - a settings file, read by libconfig one setting at a time: NAME = VALUE. What names and values mean is
 * settings.c's business.
 *
 * Errors name file and line. Any thread. */
#ifndef PRIMEKNET_CONF_H
#define PRIMEKNET_CONF_H

#include <libconfig.h>
#include <stddef.h>

#include "base/err.h"

struct conf {
    const char *file; /* for messages */
    char *text;
    config_t config;
    const config_setting_t *group; /* whose settings are read; NULL: those of the file itself */
    unsigned next;
};

enum conf_kind {
    CONF_TEXT,
    CONF_WHOLE, /* a number that fits an int */
    CONF_REAL,
    CONF_SWITCH, /* true or false */
    CONF_LIST,  /* of groups: conf_group */
    CONF_OTHER, /* an array or a group */
};

struct conf_setting {
    const char *name;
    int line;
    enum conf_kind kind;
    double number;
    const config_setting_t *list; /* of CONF_LIST */
    const char *text; /* of CONF_TEXT and CONF_SWITCH; lives until conf_close, as name does */
    size_t value, n_value; /* conf_place's; n_value is 0 before it, and where it finds none */
};

/* Reads n bytes of text, which are copied; file is not. -EINVAL: they are no settings; then nothing is to be closed. */
int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err);
void conf_close(struct conf *c);

/* The i-th group of a CONF_LIST of c, to be read by conf_next and not closed, and its line. 1: there is one; 0:
 * there are no more; -EINVAL: it is no group. */
int conf_group(struct conf *ret, const struct conf *c, const struct conf_setting *list, unsigned i, int *line);

/* 1: there is a setting; 0: that was all; or a negative errno. */
int conf_next(struct conf *c, struct conf_setting *ret, struct err *err);

/* Finds where the value of a setting of c, or of its groups, stands in the text, from its first to its last byte:
 * libconfig tells the line alone. None is found unless the setting is written as NAME = VALUE without a comment. */
void conf_place(const struct conf *c, struct conf_setting *s);

#endif
