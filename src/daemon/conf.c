#include "daemon/conf.h"

#include "base/text.h"
#include "control/protocol.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(int res, const char *code, int line, struct err *err) {
    return err_about(err, res, (struct err_about){.code = code, .line = line});
}

/* Rejects input that libconfig would accept, or only call a syntax error. */
static int check_text(const char *text, size_t n, const char *file, struct err *err) {
    int line = 1;
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return refuse(
            err_set(err, -EINVAL, "%s:1: the file begins with a byte order mark; save it as plain UTF-8", file),
            CODE_BAD_ENCODING, 1, err);
    for (size_t i = 0, length; i < n; i += length) {
        length = text_character(text + i, n - i);
        if (length == 0)
            return refuse(err_set(err, -EINVAL, "%s:%d: not UTF-8", file, line), CODE_BAD_ENCODING, line, err);
        if (text[i] == '\0')
            return refuse(err_set(err, -EINVAL, "%s:%d: a NUL byte; this is not a text file", file, line),
                          CODE_BAD_ENCODING, line, err);
        if (i == 0 || text[i - 1] == '\n') { /* where libconfig looks for it */
            size_t word = i + strspn(text + i, " \t");
            if (text_begins(text + word, "@include"))
                return refuse(err_set(err, -EINVAL, "%s:%d: @include is not supported; put all settings in this file",
                                      file, line),
                              CODE_BAD_SYNTAX, line, err);
        }
        line += text[i] == '\n';
    }
    return 0;
}

/* Scans the text as libconfig does, which takes an unterminated comment or string for the end. */
static const char end_name[] = "end_of_settings", end_text[] = "\nend_of_settings = 0;";

static int syntax_error(const struct conf *c, int n_lines, struct err *err) {
    const char *what = config_error_text(&c->config);
    const int line = config_error_line(&c->config) < n_lines ? config_error_line(&c->config) : n_lines;
    return refuse(err_set(err, -EINVAL, "%s:%d: %s", c->file, line,
                          what && strcmp(what, "syntax error") != 0
                              ? what
                              : "syntax error: a setting has the form NAME = VALUE, with words and percentages in "
                                "\"quotation marks\""),
                  what && text_begins(what, "duplicate") ? CODE_DUPLICATE : CODE_BAD_SYNTAX, line, err);
}

int conf_open(struct conf *ret, const char *text, size_t n, const char *file, struct err *err) {
    struct conf c = {.file = file, .text = malloc(n + sizeof end_text)};
    int n_lines = 1;
    if (!c.text)
        return err_set(err, -ENOMEM, "%s: %s", file, strerror(ENOMEM));
    memcpy(c.text, text, n);
    memcpy(c.text + n, end_text, sizeof end_text);
    for (size_t i = 0; i + 1 < n; i++)
        n_lines += text[i] == '\n';
    config_init(&c.config);
    int res = check_text(c.text, n, file, err);
    if (res == 0 && !config_read_string(&c.config, c.text))
        res = syntax_error(&c, n_lines, err);
    if (res == 0 && !config_setting_remove(config_root_setting(&c.config), end_name))
        res = refuse(err_set(err, -EINVAL, "%s:%d: a comment or \"quotation marks\" are not closed", file, n_lines),
                     CODE_UNENDED, n_lines, err);
    if (res)
        conf_close(&c);
    else
        *ret = c;
    return res;
}

void conf_close(struct conf *c) {
    config_destroy(&c->config);
    free(c->text);
}

int conf_line(const config_setting_t *s) {
    return (int)config_setting_source_line(s);
}

/* Finds a setting's value in the text, because libconfig returns only its line. Returns the value's length in bytes; 0
 * unless the setting is written as NAME = VALUE without a comment. */
static size_t find_value(const struct conf *c, const config_setting_t *s, size_t *start) {
    char pattern[256];
    const char *line = c->text, *name = config_setting_name(s);
    size_t length = 0;
    regex_t regex;
    regmatch_t match[3];
    for (int i = 1; i < conf_line(s) && line; i++)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    int n = snprintf(pattern, sizeof pattern,
                     "(^|[;,{[:space:]])%s[[:space:]]*[=:][[:space:]]*(\"([^\"\\]|\\\\.)*\"|[-+.0-9a-zA-Z]+)", name);
    if (!line || strchr(name, '*') || n >= (int)sizeof pattern || regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE))
        return 0;
    if (regexec(&regex, line, 3, match, 0) == 0) {
        *start = (size_t)(line - c->text + match[2].rm_so);
        length = (size_t)(match[2].rm_eo - match[2].rm_so);
    }
    regfree(&regex);
    return length;
}

int conf_check_whole(const struct conf *c, const config_setting_t *s, struct err *err) {
    const int type = config_setting_type(s);
    size_t start;
    if ((type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64) || find_value(c, s, &start) < 10)
        return 0;
    const char *digits = c->text + start;
    char *end;
    errno = 0;
    long long number = strtoll(digits, &end, 0);
    if (errno == ERANGE || number < INT_MIN || number > INT_MAX)
        return err_set(err, -ERANGE, "%s:%d: the number %.*s is too large", c->file, conf_line(s), (int)(end - digits),
                       digits);
    return 0;
}
