/* conf.h - the grammar of a settings file, read one setting at a time:
 *
 *     NAME = VALUE;   # with : for =, and with , or nothing for the semicolon
 *
 * VALUE is a number (12, 0x0C, -0.5, 1e-3) or words in "quotation marks", where \" \\ \n \r \t \f and \xHH stand for a
 * character, and where strings side by side are one. Comments are # and // to the end of the line, and C's. The text is
 * UTF-8. What the names and values mean is settings.c's business.
 *
 * Errors name file and line. Allocates nothing; any thread. */
#ifndef PRIMEKNET_CONF_H
#define PRIMEKNET_CONF_H

#include <stddef.h>

#include "base/err.h"

struct conf {
    const char *file; /* for messages */
    const char *at, *end;
    int line;
};

enum conf_kind {
    CONF_TEXT,
    CONF_WHOLE, /* a number that fits an int */
    CONF_REAL,
    CONF_OTHER, /* something else begins here: a bare word, a list; nothing can be read after it */
};

struct conf_setting {
    char name[64]; /* a longer one is cut */
    int line;
    enum conf_kind kind;
    double number;
    char text[1024]; /* cut, too ... */
    size_t n_text;   /* ... but not its length, which counts \x00 */
    const char *value; /* where VALUE stands, from its first to its last character */
    size_t n_value;
};

/* The n bytes of text stay the caller's, for as long as conf_next is called. -EINVAL: they are no text. */
int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err);

/* 1: there is a setting; 0: that was all; or a negative errno. */
int conf_next(struct conf *c, struct conf_setting *ret, struct err *err);

#endif
