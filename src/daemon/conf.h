/* conf.h - a settings file, read by libconfig. What names and values mean is settings.c's business.
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

/* Reads n bytes of text, which are copied; file is not. -EINVAL: they are no settings; then nothing is to be closed. */
int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err);
void conf_close(struct conf *c);

int conf_line(const config_setting_t *s);

/* -ERANGE: a whole number that does not fit an int. libconfig 1.5 wraps those. */
int conf_check_whole(const struct conf *c, const config_setting_t *s, struct err *err);

#endif
