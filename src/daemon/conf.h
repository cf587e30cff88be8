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
    int next;
};

enum conf_kind {
    CONF_TEXT,
    CONF_WHOLE, /* a number that fits an int */
    CONF_REAL,
    CONF_OTHER, /* true, false, a list or a group */
};

struct conf_setting {
    const char *name;
    int line;
    enum conf_kind kind;
    double number;
    const char *text; /* of CONF_TEXT; lives until conf_close, as name does */
    /* Where the value stands in the text, from its first to its last byte; n_value is 0 if that is not known, because
     * the setting is not written as NAME = VALUE without a comment in it. */
    size_t value, n_value;
};

/* Reads n bytes of text, which are copied; file is not. -EINVAL: they are no settings; then nothing is to be closed. */
int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err);
void conf_close(struct conf *c);

/* 1: there is a setting; 0: that was all; or a negative errno. */
int conf_next(struct conf *c, struct conf_setting *ret, struct err *err);

#endif
