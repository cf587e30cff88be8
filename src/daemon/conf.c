#include "daemon/conf.h"

#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's inline functions are GNU C */
#include <spa/utils/string.h>

/* C's own letters and digits, whatever the locale. */
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character that many bytes ahead; '\0': the text ends before it. */
static char peek(const struct conf *c, size_t ahead) {
    return (size_t)(c->end - c->at) > ahead ? c->at[ahead] : '\0';
}

static void skip(struct conf *c) {
    if (c->at < c->end && *c->at++ == '\n')
        c->line++;
}

static int syntax_error(const struct conf *c, struct err *err) {
    return err_set(err, -EINVAL, "%s:%d: syntax error: a setting is NAME = VALUE, words stand in \"quotation marks\"",
                   c->file, c->line);
}

/* To the next character that is neither blank nor in a comment. */
static int skip_blanks(struct conf *c, struct err *err) {
    for (;;) {
        while (is_blank(peek(c, 0)))
            skip(c);
        if (peek(c, 0) == '#' || (peek(c, 0) == '/' && peek(c, 1) == '/')) {
            while (c->at < c->end && *c->at != '\n')
                c->at++;
        } else if (peek(c, 0) == '/' && peek(c, 1) == '*') {
            const int line = c->line;
            for (c->at += 2; c->at < c->end && !(peek(c, 0) == '*' && peek(c, 1) == '/');)
                skip(c);
            if (c->at == c->end)
                return err_set(err, -EINVAL, "%s:%d: this comment does not end", c->file, line);
            c->at += 2;
        } else {
            return 0;
        }
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void add_byte(struct conf_setting *s, char byte) {
    if (s->n_text + 1 < sizeof s->text)
        s->text[s->n_text] = byte;
    s->n_text++;
}

/* What the backslash ahead stands for; one that begins no escape stands for itself. */
static void read_escape(struct conf *c, struct conf_setting *s) {
    static const char letters[] = "nrtf\"\\", bytes[] = "\n\r\t\f\"\\";
    const char letter = peek(c, 1);
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        add_byte(s, bytes[found - letters]);
        c->at += 2;
    } else if (letter == 'x' && hex_digit(peek(c, 2)) >= 0 && hex_digit(peek(c, 3)) >= 0) {
        add_byte(s, (char)(hex_digit(peek(c, 2)) << 4 | hex_digit(peek(c, 3))));
        c->at += 4;
    } else {
        add_byte(s, '\\');
        c->at++;
    }
}

static int read_string(struct conf *c, struct conf_setting *s, struct err *err) {
    const int line = c->line;
    for (c->at++; c->at < c->end && *c->at != '"';) {
        if (*c->at == '\\') {
            read_escape(c, s);
        } else {
            add_byte(s, *c->at);
            skip(c);
        }
    }
    if (c->at == c->end)
        return err_set(err, -EINVAL, "%s:%d: these quotation marks are not closed", c->file, line);
    s->n_value = (size_t)(++c->at - s->value);
    return 0;
}

/* Strings side by side, and what may stand between them. */
static int read_text(struct conf *c, struct conf_setting *s, struct err *err) {
    int res = 0;
    s->kind = CONF_TEXT;
    while (res == 0 && peek(c, 0) == '"') {
        res = read_string(c, s, err);
        if (res == 0)
            res = skip_blanks(c, err);
    }
    return res;
}

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && is_digit(*at))
        at++;
    return at;
}

/* The end of the number that begins at `at`, and whether it is a whole one. NULL: none begins there. */
static const char *find_number_end(const char *at, const char *end, bool *whole) {
    at += at < end && (*at == '-' || *at == '+');
    *whole = true;
    if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && hex_digit(at[2]) >= 0) {
        for (at += 2; at < end && hex_digit(*at) >= 0;)
            at++;
    } else {
        const char *first = at;
        at = skip_digits(at, end);
        const bool point = at < end && *at == '.';
        const char *stop = point ? skip_digits(at + 1, end) : at;
        if (stop - first - point == 0)
            return NULL;
        at = stop;
        bool exponent = at < end && (*at == 'e' || *at == 'E');
        if (exponent) {
            const char *digits = at + 1 + (at + 1 < end && (at[1] == '-' || at[1] == '+'));
            at = skip_digits(digits, end);
            if (at == digits)
                return NULL;
        }
        *whole = !point && !exponent;
    }
    for (int i = 0; i < 2 && *whole && at < end && *at == 'L'; i++) /* as a long of C is written */
        at++;
    return at < end && (is_letter(*at) || is_digit(*at) || *at == '_' || *at == '.') ? NULL : at;
}

static int read_number(struct conf *c, struct conf_setting *s, struct err *err) {
    char digits[64];
    bool whole;
    const char *stop = find_number_end(c->at, c->end, &whole);
    if (!stop)
        return syntax_error(c, err);
    s->n_value = (size_t)(stop - s->value);
    const size_t most = whole ? 24 : sizeof digits;
    bool fits = s->n_value < most;
    if (fits) {
        memcpy(digits, s->value, s->n_value);
        digits[s->n_value] = '\0';
        errno = 0;
        s->number = whole ? (double)strtoll(digits, NULL, strpbrk(digits, "xX") ? 16 : 10) : spa_strtod(digits, NULL);
        fits = !whole || (errno == 0 && s->number >= INT_MIN && s->number <= INT_MAX);
    }
    if (!fits)
        return err_set(err, -ERANGE, "%s:%d: the number %.*s is too large", c->file, c->line,
                       s->n_value < 40 ? (int)s->n_value : 40, s->value);
    s->kind = whole ? CONF_WHOLE : CONF_REAL;
    c->at = stop;
    return 0;
}

static int read_value(struct conf *c, struct conf_setting *s, struct err *err) {
    const char first = peek(c, 0);
    s->value = c->at;
    if (first == '"')
        return read_text(c, s, err);
    if (is_digit(first) || first == '-' || first == '+' || first == '.')
        return read_number(c, s, err);
    if (!is_letter(first) && first != '(' && first != '[' && first != '{')
        return syntax_error(c, err);
    s->kind = CONF_OTHER;
    return 0;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err) {
    int line = 1;
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return err_set(err, -EINVAL, "%s:1: the file begins with a byte order mark; save it as plain UTF-8", file);
    for (size_t i = 0, length; i < n; i += length) {
        length = text_character(text + i, n - i);
        if (length == 0)
            return err_set(err, -EINVAL, "%s:%d: not UTF-8", file, line);
        if (text[i] == '\0')
            return err_set(err, -EINVAL, "%s:%d: a NUL byte; this is not a text file", file, line);
        line += text[i] == '\n';
    }
    *ret = (struct conf){.file = file, .at = text, .end = text + n, .line = 1};
    return 0;
}

static int read_setting(struct conf *c, struct conf_setting *s, struct err *err) {
    size_t n = 0;
    if (peek(c, 0) == '@')
        return err_set(err, -EINVAL, "%s:%d: @include is not taken; all settings stand in one file", c->file, c->line);
    if (!is_letter(peek(c, 0)))
        return syntax_error(c, err);
    while (is_letter(peek(c, n)) || is_digit(peek(c, n)) || peek(c, n) == '-' || peek(c, n) == '_')
        n++;
    snprintf(s->name, sizeof s->name, "%.*s", n < sizeof s->name ? (int)n : (int)sizeof s->name - 1, c->at);
    s->line = c->line;
    c->at += n;

    int res = skip_blanks(c, err);
    if (res == 0 && peek(c, 0) != '=' && peek(c, 0) != ':')
        res = syntax_error(c, err);
    if (res == 0) {
        c->at++;
        res = skip_blanks(c, err);
    }
    if (res == 0)
        res = read_value(c, s, err);
    if (res == 0 && s->kind != CONF_OTHER)
        res = skip_blanks(c, err);
    if (res == 0 && (peek(c, 0) == ';' || peek(c, 0) == ','))
        c->at++;
    return res ? res : 1;
}

int conf_next(struct conf *c, struct conf_setting *ret, struct err *err) {
    memset(ret, 0, sizeof *ret);
    int res = skip_blanks(c, err);
    return res ? res : c->at == c->end ? 0 : read_setting(c, ret, err);
}
