/* conf.h - reads a settings file with libconfig. settings.c interprets names and values.
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
};

/* Parses n bytes of text. Copies the text, but not `file`. Returns 0, or -errno, with nothing to close; -EINVAL: a
 * syntax error. */
int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err);
void conf_close(struct conf *c);

int conf_line(const config_setting_t *s);

/* Returns -ERANGE for an integer that does not fit an int: libconfig 1.5 wraps it. Otherwise 0. */
int conf_check_whole(const struct conf *c, const config_setting_t *s, struct err *err);

#endif
