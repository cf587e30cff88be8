#include "config.h"

#include "daemon/settings.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's inline functions are GNU C */
#include <spa/param/audio/type-info.h>
#include <spa/utils/string.h>

#define MAX_FILE_BYTES 65536

/* C's own letters and digits, whatever the locale. */
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- what a text setting may hold -------------------------------------------------------------------------------- */

/* Sound that comes out is not to go in again. */
static bool fits_source(const char *text) {
    return text[0] && strncmp(text, "enhanced_mic", strlen("enhanced_mic")) != 0;
}

static bool fits_sink(const char *text) {
    return text[0] && strcmp(text, "enhanced_speaker") != 0;
}

/* The i-th of names with commas between them, less the blanks around it. False: there is none, or no name can be so. */
static bool nth_name(const char *text, unsigned i, char ret[256]) {
    for (; i > 0; i--) {
        text = strchr(text, ',');
        if (!text)
            return false;
        text++;
    }
    text += strspn(text, " ");
    size_t n = strcspn(text, ",");
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n == 0 || n > 255)
        return false;
    memcpy(ret, text, n);
    ret[n] = '\0';
    return true;
}

/* Other names than default, which is the first microphone's. */
static bool fits_more_microphones(const char *text) {
    char first[256], second[256];
    if (!nth_name(text, 0, first) || strcmp(first, "default") == 0 || !fits_source(first))
        return false;
    const char *comma = strchr(text, ',');
    return !comma || (!strchr(comma + 1, ',') && nth_name(text, 1, second) && strcmp(second, "default") != 0 && fits_source(second) &&
                      strcmp(first, second) != 0);
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A relative path would mean another file under systemd than in a terminal. */
static bool fits_model(const char *text) {
    if (strchr(text, '/') || ends_in(text, ".safetensors"))
        return text[0] == '/';
    return text[0] != '\0' && text[0] != '.';
}

static bool fits_engine(const char *text) {
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0;
}

/* As nvidia-smi -L prints it: "GPU-" and hexadecimal digits in groups. */
static bool fits_gpu(const char *text) {
    return strncmp(text, "GPU-", 4) == 0 && text[4] && strspn(text + 4, "0123456789abcdefABCDEF-") == strlen(text + 4);
}

/* The names that PipeWire has for channels. */
static bool fits_channel(const char *text) {
    if (strcmp(text, "mix") == 0)
        return true;
    for (const struct spa_type_info *t = spa_type_audio_channel; t->name; t++)
        if (t->type != SPA_AUDIO_CHANNEL_UNKNOWN && strcmp(strrchr(t->name, ':') + 1, text) == 0)
            return true;
    return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct row {
    const char *name;
    size_t offset, size; /* size 0: a double */
    double least, greatest;
    const char *word;
    bool (*fits)(const char *text);
    const char *allowed;
};

static const struct row rows[N_SETTINGS] = {
#define NUMBER(name, fallback, least, greatest, word, allowed) \
    {#name, offsetof(struct settings, name), 0, least, greatest, word, NULL, allowed},
#define TEXT(name, size, fallback, least, greatest, fits, allowed) \
    {#name, offsetof(struct settings, name), size, least, greatest, NULL, fits, allowed},
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
};

static const struct settings defaults = {
#define NUMBER(name, fallback, ...) .name = fallback,
#define TEXT(name, size, fallback, ...) .name = fallback,
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
};

static int find_row(const char *name, struct err *err) {
    struct likest l = {.word = name};
    for (int i = 0; i < N_SETTINGS; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return i;
        likest_try(&l, rows[i].name);
    }
    return l.name ? err_set(err, -ENOENT, "there is no setting \"%.40s\"; did you mean %s?", name, l.name)
                  : err_set(err, -ENOENT, "there is no setting \"%.40s\"; primeknet.conf(5) tells them", name);
}

bool settings_more_microphone(const struct settings *s, unsigned i, char *ret) {
    return strcmp(s->more_microphones, "none") != 0 && nth_name(s->more_microphones, i, ret);
}

unsigned settings_streams(const struct settings *s) {
    char name[256];
    unsigned n = 1 + (strcmp(s->speaker, "off") != 0);
    for (unsigned i = 0; settings_more_microphone(s, i, name); i++)
        n++;
    return n;
}

int settings_find(const char *name, struct err *err) {
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%s", name);
    for (char *c = spelled; (c = strchr(c, '-'));)
        *c = '_';
    return find_row(spelled, err);
}

const char *settings_name(int setting) {
    return rows[setting].name;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool is_clean_text(const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0, length; i < n; i += length) {
        length = text_character(text + i, n - i);
        if (length == 0 || (unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return false;
    }
    return true;
}

static size_t name_length(const char *s, const char *end) {
    const char *c = s;
    while (c < end && (is_digit(*c) || is_letter(*c) || *c == '-' || *c == '_' || *c == '*'))
        c++;
    return (size_t)(c - s);
}

static size_t number_length(const char *s, const char *end) {
    const char *c = s;
    while (c < end && (is_digit(*c) || is_letter(*c) || *c == '.' || *c == '+' || *c == '-'))
        c++;
    return (size_t)(c - s);
}

/* Whether a number's text is a whole number that libconfig would wrap around silently. */
static bool wraps(const char *s, size_t n) {
    char text[24];
    if (n > 0 && memchr(s, '.', n))
        return false;
    const char *digits = s + (*s == '-' || *s == '+');
    bool hex = n > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (!hex && (memchr(s, 'e', n) || memchr(s, 'E', n)))
        return false;
    if (n >= sizeof text)
        return true;
    memcpy(text, s, n);
    text[n] = '\0';
    errno = 0;
    long long value = strtoll(text, NULL, hex ? 16 : 10);
    return errno == ERANGE || value < INT_MIN || value > INT_MAX;
}

/* What libconfig lets through, or only calls a syntax error: goes over the text as its scanner does. */
static int check_text(const char *text, size_t n, const char *file, struct err *err) {
    const char *end = text + n;
    int line = 1, open_line = 0;
    enum { PLAIN, LINE_COMMENT, COMMENT, STRING } in = PLAIN;

    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return err_set(err, -EINVAL, "%s:1: the file begins with a byte order mark; save it as plain UTF-8", file);
    for (const char *c = text; c < end;) {
        size_t length = text_character(c, (size_t)(end - c));
        if (length == 0)
            return err_set(err, -EINVAL, "%s:%d: not UTF-8", file, line);
        if (*c == '\0')
            return err_set(err, -EINVAL, "%s:%d: a NUL byte; this is not a text file", file, line);
        char next = c + 1 < end ? c[1] : '\0';
        if (*c == '\n')
            line++;
        switch (in) {
        case PLAIN:
            if (*c == '#' || (*c == '/' && next == '/'))
                in = LINE_COMMENT;
            else if (*c == '/' && next == '*')
                in = COMMENT, open_line = line, length = 2;
            else if (*c == '"')
                in = STRING, open_line = line;
            else if (*c == '@')
                return err_set(err, -EINVAL, "%s:%d: @include is not taken; all settings stand in one file", file,
                               line);
            else if (is_letter(*c))
                length = name_length(c, end);
            else if ((is_digit(*c) || *c == '-' || *c == '+') && wraps(c, length = number_length(c, end)))
                return err_set(err, -ERANGE, "%s:%d: the number %.*s is too large", file, line,
                               length < 40 ? (int)length : 40, c);
            break;
        case LINE_COMMENT:
            if (*c == '\n')
                in = PLAIN;
            break;
        case COMMENT:
            if (*c == '*' && next == '/')
                in = PLAIN, length = 2;
            break;
        case STRING:
            if (*c == '\\' && next && next != '\n')
                length = 1 + text_character(c + 1, (size_t)(end - c - 1));
            else if (*c == '"')
                in = PLAIN;
            break;
        }
        c += length;
    }
    if (in == COMMENT)
        return err_set(err, -EINVAL, "%s:%d: this comment does not end", file, open_line);
    if (in == STRING)
        return err_set(err, -EINVAL, "%s:%d: these quotation marks are not closed", file, open_line);
    return 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int refuse_value(const struct row *row, int line, const char *file, struct err *err) {
    return err_set(err, -EINVAL, "%s:%d: %s must be %s", file, line, row->name, row->allowed);
}

/* A number of any of libconfig's types; the scanner's check has kept whole numbers within an int. */
static bool get_number(const config_setting_t *value, double *ret) {
    switch (config_setting_type(value)) {
    case CONFIG_TYPE_INT:
        *ret = config_setting_get_int(value);
        return true;
    case CONFIG_TYPE_INT64:
        *ret = (double)config_setting_get_int64(value);
        return true;
    case CONFIG_TYPE_FLOAT:
        *ret = config_setting_get_float(value);
        return true;
    default:
        return false;
    }
}

static int read_value(struct settings *s, int setting, const config_setting_t *value, const char *file,
                      struct err *err) {
    const struct row *row = &rows[setting];
    const char *text = config_setting_get_string(value);
    int line = (int)config_setting_source_line(value);
    void *field = (char *)s + row->offset;
    double number;

    if (text && !is_clean_text(text))
        return err_set(err, -EINVAL, "%s:%d: %s holds a control character or is not UTF-8", file, line, row->name);
    if (text && row->size > 0 && strlen(text) >= row->size)
        return err_set(err, -EINVAL, "%s:%d: %s is longer than %zu bytes", file, line, row->name, row->size - 1);

    if (get_number(value, &number)) {
        if (!(number >= row->least && number <= row->greatest))
            return refuse_value(row, line, file, err);
        if (row->size == 0)
            memcpy(field, &number, sizeof number);
        else if (config_setting_type(value) == CONFIG_TYPE_FLOAT)
            return refuse_value(row, line, file, err);
        else
            snprintf(field, row->size, "%d", (int)number);
    } else if (text && row->size == 0 && row->word && strcmp(text, row->word) == 0) {
        number = -INFINITY;
        memcpy(field, &number, sizeof number);
    } else if (text && row->size > 0 && row->fits(text)) {
        strcpy(field, text);
    } else {
        return refuse_value(row, line, file, err);
    }
    s->lines[setting] = line;
    return 0;
}

int settings_parse(struct settings *ret, const char *text, size_t n, const char *file, struct err *err) {
    struct settings s = defaults;
    config_t config;
    int res;

    if (strlen(file) >= sizeof s.file)
        return err_set(err, -ENAMETOOLONG, "%.80s...: the path is too long", file);
    strcpy(s.file, file);
    res = check_text(text, n, file, err);
    if (res)
        return res;

    config_init(&config);
    if (!config_read_string(&config, text)) {
        const char *what = config_error_text(&config);
        bool plain = !what || strcmp(what, "syntax error") == 0;
        res = err_set(err, -EINVAL, "%s:%d: %s", file, config_error_line(&config),
                      plain ? "syntax error: a setting is NAME = VALUE, words stand in \"quotation marks\"" : what);
    }
    const config_setting_t *root = config_root_setting(&config);
    for (int i = 0; res == 0 && i < config_setting_length(root); i++) {
        const config_setting_t *value = config_setting_get_elem(root, (unsigned)i);
        struct err why;
        int setting = find_row(config_setting_name(value), &why);
        res = setting >= 0 ? read_value(&s, setting, value, file, err)
                           : err_set(err, setting, "%s:%u: %s", file, config_setting_source_line(value), why.text);
    }
    config_destroy(&config);
    if (res == 0)
        *ret = s;
    return res;
}

int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err) {
    if (s->lines[setting] == 0)
        return err_set(err, code, "%s: %s", rows[setting].name, what);
    return err_set(err, code, "%s:%d: %s: %s", s->file, s->lines[setting], rows[setting].name, what);
}

/* ---- one setting by itself --------------------------------------------------------------------------------------- */

/* The whole text is a decimal number, whatever the locale. */
static bool is_number(const char *text, double *ret) {
    return text[0] && !text[strspn(text, "0123456789.+-eE")] && spa_atod(text, ret) && isfinite(*ret);
}

int settings_set(struct settings *s, int setting, const char *text, struct err *err) {
    const struct row *row = &rows[setting];
    void *field = (char *)s + row->offset;
    double number;

    if (!is_clean_text(text))
        return err_set(err, -EINVAL, "%s holds a control character or is not UTF-8", row->name);
    bool numeric = is_number(text, &number) && number >= row->least && number <= row->greatest;
    if (row->size == 0) {
        if (row->word && strcmp(text, row->word) == 0)
            number = -INFINITY;
        else if (!numeric)
            return err_set(err, -EINVAL, "%s must be %s", row->name, row->allowed);
        memcpy(field, &number, sizeof number);
    } else {
        bool whole = numeric && text[strspn(text, "0123456789")] == '\0';
        if (strlen(text) >= row->size)
            return err_set(err, -EINVAL, "%s is longer than %zu bytes", row->name, row->size - 1);
        if (!whole && !row->fits(text))
            return err_set(err, -EINVAL, "%s must be %s", row->name, row->allowed);
        if (whole)
            snprintf(field, row->size, "%d", (int)number);
        else
            strcpy(field, text);
    }
    s->lines[setting] = 0;
    return 0;
}

bool settings_number(const struct settings *s, int setting, double *ret) {
    const struct row *row = &rows[setting];
    const char *field = (const char *)s + row->offset;
    if (row->size > 0)
        return is_number(field, ret) && *ret >= row->least && *ret <= row->greatest;
    memcpy(ret, field, sizeof *ret);
    return isfinite(*ret);
}

void settings_text(const struct settings *s, int setting, char *ret, size_t size) {
    const struct row *row = &rows[setting];
    const void *field = (const char *)s + row->offset;
    double number;
    if (row->size > 0) {
        snprintf(ret, size, "%s", (const char *)field);
        return;
    }
    memcpy(&number, field, sizeof number);
    if (isinf(number)) {
        snprintf(ret, size, "%s", row->word);
        return;
    }
    snprintf(ret, size, "%.4f", number);
    char *comma = strchr(ret, ','); /* another locale's */
    if (comma)
        *comma = '.';
    for (size_t n = strlen(ret); n > 2 && ret[n - 1] == '0' && ret[n - 2] != '.'; n--)
        ret[n - 1] = '\0';
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The whole of a regular file into text[MAX_FILE_BYTES + 1]. O_NONBLOCK: a named pipe must not hang us. */
static int read_file(char *text, size_t *ret_n, const char *file, struct err *err) {
    struct stat st;
    size_t n = 0;
    int res = 0, fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &st) < 0)
        res = -errno;
    else if (!S_ISREG(st.st_mode))
        res = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    while (res == 0 && n <= MAX_FILE_BYTES) {
        ssize_t got = read(fd, text + n, MAX_FILE_BYTES + 1 - n);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            res = -errno;
    }
    if (fd >= 0)
        close(fd);
    if (res == -EINVAL)
        return err_set(err, res, "%s: not a file", file);
    if (res)
        return err_set(err, res, "%s: %s", file, strerror(-res));
    if (n > MAX_FILE_BYTES)
        return err_set(err, -EFBIG, "%s: larger than %d bytes; this is no settings file", file, MAX_FILE_BYTES);
    text[n] = '\0';
    *ret_n = n;
    return 0;
}

static int load_file(struct settings *ret, const char *file, struct err *err) {
    size_t n = 0;
    char *text = malloc(MAX_FILE_BYTES + 1);
    int res = text ? read_file(text, &n, file, err) : err_set(err, -ENOMEM, "%s: %s", file, strerror(ENOMEM));
    if (res == 0)
        res = settings_parse(ret, text, n, file, err);
    if (res)
        snprintf(ret->file, sizeof ret->file, "%s", file);
    free(text);
    return res;
}

/* The XDG Base Directory Specification: a relative $XDG_CONFIG_HOME counts as none. */
static int user_file(char *ret, size_t size) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && config[0] == '/')
        n = snprintf(ret, size, "%s/primeknet/primeknet.conf", config);
    else if (home && home[0] == '/')
        n = snprintf(ret, size, "%s/.config/primeknet/primeknet.conf", home);
    return n < 0 || (size_t)n >= size ? -ENOENT : 0;
}

int settings_load(struct settings *ret, const char *file, struct err *err) {
    char path[sizeof ret->file];
    if (file)
        return load_file(ret, file, err);

    int res = user_file(path, sizeof path);
    if (res == 0)
        res = load_file(ret, path, err);
    if (res == -ENOENT || res == -ENOTDIR)
        res = load_file(ret, SYSCONFDIR "/primeknet/primeknet.conf", err);
    if (res == -ENOENT || res == -ENOTDIR) {
        *ret = defaults;
        res = 0;
    }
    return res;
}

/* ---- one setting in its file ------------------------------------------------------------------------------------- */

static const char *skip_blank(const char *c, const char *end) {
    for (;;) {
        while (c < end && isspace((unsigned char)*c))
            c++;
        if (c < end && (*c == '#' || (*c == '/' && c + 1 < end && c[1] == '/'))) {
            while (c < end && *c != '\n')
                c++;
        } else if (c + 1 < end && *c == '/' && c[1] == '*') {
            const char *close = memmem(c + 2, (size_t)(end - c - 2), "*/", 2);
            c = close ? close + 2 : end;
        } else {
            return c;
        }
    }
}

static const char *skip_string(const char *c, const char *end) {
    for (c++; c < end && *c != '"'; c++)
        if (*c == '\\')
            c++;
    return c < end ? c + 1 : end;
}

/* Where the value of a setting stands in a text that settings_parse takes; strings side by side are one value. False
 * where the text does not have it. */
static bool find_value(const char *text, size_t n, const char *name, const char **ret, size_t *ret_n) {
    const char *end = text + n;
    for (const char *c = skip_blank(text, end); c < end; c = skip_blank(c, end)) {
        size_t length = name_length(c, end);
        bool found = length == strlen(name) && memcmp(c, name, length) == 0;
        if (length == 0) { /* what separates settings */
            c++;
            continue;
        }
        c = skip_blank(c + length, end);             /* = or : */
        c = skip_blank(c < end ? c + 1 : end, end);
        const char *value = c, *stop = c;
        if (c < end && *c == '"') {
            for (; c < end && *c == '"'; c = skip_blank(stop, end))
                stop = skip_string(c, end);
        } else {
            stop = c + number_length(c, end);
        }
        c = stop;
        if (found) {
            *ret = value;
            *ret_n = (size_t)(stop - value);
            return true;
        }
    }
    return false;
}

/* As it is written in a file. ret: [2 * 1024 + 3]. */
static void quote(const struct settings *s, int setting, char *ret) {
    char text[1024], *to = ret;
    double number;
    settings_text(s, setting, text, sizeof text);
    if (settings_number(s, setting, &number)) {
        strcpy(ret, text);
        return;
    }
    *to++ = '"';
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            *to++ = '\\';
        *to++ = *c;
    }
    strcpy(to, "\"");
}

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* Whole or not at all; a link stays one, the file keeps its rights. */
static int replace_file(const char *file, const char *text, size_t n, struct err *err) {
    char *real = realpath(file, NULL), *part = NULL;
    struct stat st;
    int fd = -1, res = 0;

    if (asprintf(&part, "%s.XXXXXX", real ? real : file) < 0) {
        free(real);
        return err_set(err, -ENOMEM, "%s: %s", file, strerror(ENOMEM));
    }
    if (!real)
        make_parents(part);
    fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0 || (real && (stat(real, &st) < 0 || fchmod(fd, st.st_mode & 07777) < 0)))
        res = -errno;
    for (size_t done = 0; res == 0 && done < n;) {
        ssize_t wrote = write(fd, text + done, n - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            res = -errno;
    }
    if (res == 0 && (fsync(fd) < 0 || rename(part, real ? real : file) < 0))
        res = -errno;
    if (fd >= 0) {
        close(fd);
        if (res)
            unlink(part);
    }
    free(part);
    free(real);
    return res ? err_set(err, res, "%s: %s", file, strerror(-res)) : 0;
}

/* As a file shows them. */
static bool same(const struct settings *a, const struct settings *b, int setting) {
    char x[1024], y[1024];
    settings_text(a, setting, x, sizeof x);
    settings_text(b, setting, y, sizeof y);
    return strcmp(x, y) == 0;
}

/* The text with the setting in it, at most MAX_FILE_BYTES, into ret[MAX_FILE_BYTES + 1]. */
static int put_value(char *ret, size_t *ret_n, const char *text, size_t n, const struct settings *s, int setting) {
    char value[2 * 1024 + 3];
    const char *at;
    size_t n_old;
    int m;
    quote(s, setting, value);
    if (find_value(text, n, rows[setting].name, &at, &n_old)) {
        m = snprintf(ret, MAX_FILE_BYTES + 1, "%.*s%s%s", (int)(at - text), text, value, at + n_old);
    } else {
        bool open = n > 0 && text[n - 1] != '\n';
        m = snprintf(ret, MAX_FILE_BYTES + 1, "%s%s%s = %s;\n", text, open ? "\n" : "", rows[setting].name, value);
    }
    if (m < 0 || m > MAX_FILE_BYTES)
        return -EFBIG;
    *ret_n = (size_t)m;
    return 0;
}

int settings_write(const struct settings *s, const char *file, struct err *err) {
    char text[N_SETTINGS * (2 * 1024 + 64)], value[2 * 1024 + 3];
    int n = 0;
    for (int i = 0; i < N_SETTINGS; i++) {
        quote(s, i, value);
        n += snprintf(text + n, sizeof text - (size_t)n, "%s = %s;\n", rows[i].name, value);
    }
    return replace_file(file, text, (size_t)n, err);
}

int settings_save(struct settings *s, int setting, struct err *err) {
    struct settings before = defaults, after = defaults;
    char *text = calloc(1, MAX_FILE_BYTES + 1), *next = calloc(1, MAX_FILE_BYTES + 1), file[sizeof s->file];
    bool own = s->file[0] && strcmp(s->file, SYSCONFDIR "/primeknet/primeknet.conf") != 0;
    size_t n = 0, n_next = 0;
    int res = 0;

    if (!text || !next)
        res = err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    else if (own)
        strcpy(file, s->file);
    else if (user_file(file, sizeof file) < 0)
        res = err_set(err, -ENOENT, "neither XDG_CONFIG_HOME nor HOME says where settings are to be kept");
    if (res == 0) {
        res = read_file(text, &n, file, err);
        if (res == -ENOENT && !own && s->file[0])
            res = read_file(text, &n, s->file, err);
        if (res == -ENOENT || res == -ENOTDIR)
            res = 0;
    }
    if (res == 0)
        res = settings_parse(&before, text, n, file, err);
    if (res == 0 && put_value(next, &n_next, text, n, s, setting) < 0)
        res = err_set(err, -EFBIG, "%s: no room for another setting", file);
    if (res == 0)
        res = settings_parse(&after, next, n_next, file, err);
    for (int i = 0; res == 0 && i < N_SETTINGS; i++) /* nothing is written that reads back as anything else */
        if (!same(&after, i == setting ? s : &before, i))
            res = err_set(err, -EINVAL, "%s: cannot put %s into this file", file, rows[setting].name);
    if (res == 0)
        res = replace_file(file, next, n_next, err);
    if (res == 0) {
        strcpy(s->file, file);
        s->lines[setting] = after.lines[setting];
    }
    free(next);
    free(text);
    return res;
}
