/* More than 700 lines, because whatever reads, shows or saves a setting shares its row. */
#include "config.h"

#include "daemon/settings.h"

#include "base/file.h"
#include "base/state.h"
#include "base/text.h"
#include "control/presets.h"
#include "control/protocol.h"
#include "daemon/conf.h"
#include "graph/channel.h"
#include "graph/names.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES 65536
#define PROFILES "profiles" /* the list of them in a file */

/* ---- what a text setting may hold -------------------------------------------------------------------------------- */

static bool fits_preset(const char *text) {
    return preset_find(text);
}

/* What comes out must not go in again. */
static bool fits_source(const char *text) {
    return text[0] && !text_begins(text, ENHANCED_MIC);
}

static bool fits_sink(const char *text) {
    return text[0] && strcmp(text, ENHANCED_SPEAKER) != 0;
}

/* The i-th of the names separated by commas, without blanks around it. False if there is none or it is too long. */
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

/* "default" is the first microphone's, so not allowed here. */
static bool fits_more_microphones(const char *text) {
    char first[256], second[256];
    if (!nth_name(text, 0, first) || strcmp(first, "default") == 0 || !fits_source(first))
        return false;
    const char *comma = strchr(text, ',');
    return !comma || (!strchr(comma + 1, ',') && nth_name(text, 1, second) && strcmp(second, "default") != 0 &&
                      fits_source(second) && strcmp(first, second) != 0);
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

static bool fits_level(const char *text) {
    return strcmp(text, "off") == 0 || strcmp(text, "auto") == 0;
}

static bool fits_engine(const char *text) {
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0;
}

/* As nvidia-smi -L prints it: "GPU-" and hexadecimal digits in groups. */
static bool fits_gpu(const char *text) {
    return text_begins(text, "GPU-") && text[4] && strspn(text + 4, "0123456789abcdefABCDEF-") == strlen(text + 4);
}

/* A number is no text. */
static bool fits_channel(const char *text) {
    struct channel c;
    return text[0] && channel_parse(&c, text) && !c.number;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct row {
    enum { IS_NUMBER, IS_TEXT, IS_SWITCH } type;
    size_t offset, size; /* of its field in struct settings */
    double least, greatest;
    const char *word;
    bool (*fits)(const char *text);
};

static const struct row rows[N_SETTINGS] = {
#define FIELD(name) offsetof(struct settings, name), sizeof((struct settings *)0)->name
#define NUMBER(name, fallback, least, greatest, word, allowed) {IS_NUMBER, FIELD(name), least, greatest, word, NULL},
#define TEXT(name, size, fallback, least, greatest, fits, allowed) {IS_TEXT, FIELD(name), least, greatest, NULL, fits},
#define SWITCH(name, fallback) {IS_SWITCH, FIELD(name), 1, 0, NULL, NULL},
#include "control/settings.def"
};

static const struct settings defaults = {
#define NUMBER(name, fallback, ...) .name = fallback,
#define TEXT(name, size, fallback, ...) .name = fallback,
#define SWITCH(name, fallback) .name = fallback,
#include "control/settings.def"
};

/* The row of that name. */
static int find_row(const char *name, struct err *err) {
    struct likest l = {.word = name};
    for (int i = 0; i < N_SETTINGS; i++) {
        if (strcmp(settings_name(i), name) == 0)
            return i;
        likest_try(&l, settings_name(i));
    }
    const int res = l.name ? err_set(err, -ENOENT, "there is no setting \"%.40s\"; did you mean %s?", name, l.name)
                           : err_set(err, -ENOENT, "there is no setting \"%.40s\"; primeknet.conf(5) tells them", name);
    struct err_about about = {.code = CODE_UNKNOWN_SETTING, .meant = l.name};
    snprintf(about.word, sizeof about.word, "%s", name);
    return err_about(err, res, about);
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
    const int meant = settings_meant(name);
    if (meant >= 0)
        return meant;
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%s", name);
    for (char *c = spelled; (c = strchr(c, '-'));)
        *c = '_';
    return find_row(spelled, err);
}

/* Refuses a value of a setting with the line that err_set has written. */
static int refuse_value(int setting, int res, struct err *err) {
    return err_about(err, res, (struct err_about){.code = CODE_BAD_VALUE, .setting = settings_name(setting)});
}

/* ---- a file's text ----------------------------------------------------------------------------------------------- */

/* Refuses a text that the setting cannot hold; `place` is "FILE:LINE: " or "". */
static int check_text(int setting, const char *text, const char *place, struct err *err) {
    const size_t size = rows[setting].type == IS_TEXT ? rows[setting].size : sizeof defaults.model;
    char clean[sizeof defaults.model];
    if (strlen(text) >= size)
        return refuse_value(setting, err_set(err, -EINVAL, "%s%s is longer than %zu bytes", place,
                                             settings_name(setting), size - 1), err);
    text_copy(clean, sizeof clean, text);
    if (strcmp(clean, text) != 0)
        return refuse_value(setting, err_set(err, -EINVAL, "%s%s holds a control character or is not UTF-8", place,
                                             settings_name(setting)), err);
    return 0;
}

static void put_number(struct settings *s, const struct row *row, double number) {
    char *field = (char *)s + row->offset;
    if (row->type == IS_TEXT)
        snprintf(field, row->size, "%d", (int)number);
    else
        memcpy(field, &number, sizeof number);
}

/* The settings of which a preset has the values. */
static const int of_presets[] = {SETTING_strength, SETTING_floor_db, SETTING_low_cut_hz};
enum { N_OF_PRESETS = sizeof of_presets / sizeof *of_presets };

static void use_preset(struct settings *s) {
    const struct preset *p = preset_find(s->preset);
    s->strength = p->strength;
    s->floor_db = p->floor_db;
    s->low_cut_hz = p->low_cut_hz;
}

/* Gives a setting its value: a number or a text, either may be NULL. False if the setting cannot have it. */
static bool put(struct settings *s, int setting, const double *number, const char *text) {
    const struct row *row = &rows[setting];
    const bool on = text && strcmp(text, "true") == 0, off = text && strcmp(text, "false") == 0;
    if (number && *number >= row->least && *number <= row->greatest)
        put_number(s, row, *number);
    else if (text && row->word && strcmp(text, row->word) == 0)
        put_number(s, row, -INFINITY);
    else if (row->type == IS_SWITCH && (on || off))
        *(bool *)((char *)s + row->offset) = on;
    else if (text && row->fits && row->fits(text))
        strcpy((char *)s + row->offset, text);
    else
        return false;
    if (setting == SETTING_preset)
        use_preset(s);
    strcpy(s->preset, preset_name(s->strength, s->floor_db, s->low_cut_hz));
    return true;
}

static int read_value(struct settings *s, const struct conf *conf, const config_setting_t *from, struct err *err) {
    char place[sizeof s->file + 16];
    struct err why;
    int res = conf_check_whole(conf, from, err), setting = find_row(config_setting_name(from), &why);
    snprintf(place, sizeof place, "%s:%d: ", conf->file, conf_line(from));
    if (setting < 0)
        return err_about(err, err_set(err, setting, "%s%s", place, why.text), why.about);
    if (res)
        return refuse_value(setting, res, err);
    if (s->lines[setting])
        return err_about(err, err_set(err, -EINVAL, "%sa duplicate: %s stands in line %d already", place,
                                      settings_name(setting), s->lines[setting]),
                         (struct err_about){.code = CODE_DUPLICATE, .setting = settings_name(setting)});
    const int type = config_setting_type(from);
    const bool whole = type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64, bare = type == CONFIG_TYPE_BOOL;
    const bool number = whole || (type == CONFIG_TYPE_FLOAT && rows[setting].type == IS_NUMBER);
    const bool unquoted = bare || config_setting_is_array(from) || config_setting_is_group(from);
    const double value = whole ? (double)config_setting_get_int64(from) : config_setting_get_float(from);
    const char *text = config_setting_get_string(from); /* NULL: it is none */
    res = text ? check_text(setting, text, place, err) : 0;
    if (res)
        return res;
    if (bare && rows[setting].type == IS_SWITCH)
        text = config_setting_get_bool(from) ? "true" : "false";
    if (!put(s, setting, number ? &value : NULL, text))
        return refuse_value(setting, err_set(err, -EINVAL, "%s%s must be %s%s", place, settings_name(setting),
                                             settings_allowed(setting),
                                             unquoted ? "; words stand in \"quotation marks\"" : ""), err);
    s->lines[setting] = conf_line(from);
    return 0;
}

static int read_setting(struct settings *s, const struct conf *conf, const config_setting_t *from, struct err *err) {
    const int res = read_value(s, conf, from, err);
    if (res && err)
        err->about.line = conf_line(from);
    return res;
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Where a profile holds a setting. NULL: it cannot. */
static char *profile_text(struct profile *p, int setting, size_t *size) {
    switch (setting) {
#define ROW(name, bytes) \
    case SETTING_##name: \
        *size = bytes; \
        return p->name;
        PROFILE_SETTINGS(ROW)
#undef ROW
    default:
        return NULL;
    }
}

/* What a profile has for a setting. NULL: nothing. */
static const char *profile_value(const struct profile *p, int setting) {
    size_t size;
    const char *text = profile_text((struct profile *)p, setting, &size);
    return text && text[0] ? text : NULL;
}

static int refuse_profile(int res, int line, struct err *err) {
    return err_about(err, res, (struct err_about){.code = CODE_BAD_PROFILE, .line = line});
}

/* One setting in a profile; `read` holds what was read of it before. */
static int read_in_profile(struct profile *p, struct settings *read, const struct conf *conf,
                           const config_setting_t *from, struct err *err) {
    int res = read_setting(read, conf, from, err);
    if (res)
        return res;
    const int setting = find_row(config_setting_name(from), NULL);
    size_t size;
    char *text = profile_text(p, setting, &size);
    if (text)
        settings_text(read, setting, text, size);
    else if (setting == SETTING_microphone && strcmp(read->microphone, "default") != 0)
        strcpy(p->microphone, read->microphone);
    else
        return refuse_profile(err_set(err, -EINVAL,
                                      "%s:%d: a profile has one microphone, by its name, and may have strength, "
                                      "floor_db, low_cut_hz and model",
                                      conf->file, conf_line(from)), conf_line(from), err);
    return 0;
}

static int read_profile(struct settings *s, const struct conf *conf, const config_setting_t *group, struct err *err) {
    struct settings read = defaults;
    struct profile p = {.line = conf_line(group)};
    for (int i = 0; i < config_setting_length(group); i++) {
        int res = read_in_profile(&p, &read, conf, config_setting_get_elem(group, (unsigned)i), err);
        if (res)
            return res;
    }
    if (!p.microphone[0])
        return refuse_profile(err_set(err, -EINVAL, "%s:%d: this profile does not name its microphone", conf->file,
                                      p.line), p.line, err);
    if (s->n_profiles == MAX_PROFILES)
        return err_about(err, err_set(err, -EINVAL, "%s:%d: there are more than %d profiles", conf->file, p.line,
                                      MAX_PROFILES),
                         (struct err_about){.code = CODE_TOO_MANY_PROFILES, .line = p.line});
    s->profiles[s->n_profiles++] = p;
    return 0;
}

static int refuse_profiles(const struct conf *conf, const config_setting_t *wrong, struct err *err) {
    return refuse_profile(err_set(err, -EINVAL, "%s:%d: profiles must be a list, ( { microphone = NAME; ... }, ... )",
                                  conf->file, conf_line(wrong)), conf_line(wrong), err);
}

static int read_profiles(struct settings *s, const struct conf *conf, const config_setting_t *list, struct err *err) {
    int res = config_setting_is_list(list) ? 0 : refuse_profiles(conf, list, err);
    for (int i = 0; res == 0 && i < config_setting_length(list); i++) {
        const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);
        res = config_setting_is_group(group) ? read_profile(s, conf, group, err) : refuse_profiles(conf, group, err);
    }
    return res;
}

void settings_use_profile(struct settings *s, unsigned profile) {
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *text = profile_value(&s->profiles[profile], i);
        if (text && settings_set(s, i, text, NULL) == 0)
            s->lines[i] = s->profiles[profile].line;
    }
}

/* Whether that profile (-1: none) has any of a preset's settings. */
static bool has_presets(const struct settings *s, int profile) {
    bool has = false;
    for (int i = 0; i < N_OF_PRESETS; i++)
        has |= profile >= 0 && profile_value(&s->profiles[profile], of_presets[i]);
    return has;
}

/* The preset's values, each where it comes from. */
static int set_preset_in(struct settings *s, int profile, const char *text, struct err *err) {
    struct settings with = *s;
    char value[32];
    int res = settings_set(&with, SETTING_preset, text, err);
    for (int i = 0; res == 0 && i < N_OF_PRESETS; i++) {
        settings_text(&with, of_presets[i], value, sizeof value);
        res = settings_set_in(s, profile, of_presets[i], value, err);
    }
    return res;
}

int settings_set_in(struct settings *s, int profile, int setting, const char *text, struct err *err) {
    size_t size;
    if (setting == SETTING_preset && has_presets(s, profile))
        return set_preset_in(s, profile, text, err);
    char *to = profile < 0 ? NULL : profile_text(&s->profiles[profile], setting, &size);
    if (!to || !to[0])
        return settings_set(s, setting, text, err);
    struct settings valid = *s;
    int res = settings_set(&valid, setting, text, err);
    if (res == 0)
        settings_text(&valid, setting, to, size);
    return res;
}

int settings_add_profile(struct settings *s, const char *microphone, struct err *err) {
    struct profile p = {.line = 0};
    if (s->n_profiles == MAX_PROFILES)
        return err_about(err, err_set(err, -ENOSPC, "there are %d profiles already", MAX_PROFILES),
                         (struct err_about){.code = CODE_TOO_MANY_PROFILES});
    snprintf(p.microphone, sizeof p.microphone, "%s", microphone);
#define ROW(name, size) settings_text(s, SETTING_##name, p.name, size);
    PROFILE_SETTINGS(ROW)
#undef ROW
    s->profiles[s->n_profiles++] = p;
    return 0;
}

void settings_remove_profile(struct settings *s, unsigned profile) {
    s->n_profiles--;
    memmove(&s->profiles[profile], &s->profiles[profile + 1], (s->n_profiles - profile) * sizeof s->profiles[0]);
}

/* The profile of exactly that name; -1: there is none. */
static int find_profile(const struct settings *s, const char *microphone) {
    for (unsigned i = 0; i < s->n_profiles; i++)
        if (strcmp(s->profiles[i].microphone, microphone) == 0)
            return (int)i;
    return -1;
}

int settings_parse(struct settings *ret, const char *text, size_t n, const char *file, struct err *err) {
    struct settings s = defaults;
    struct conf conf;

    if (strlen(file) >= sizeof s.file)
        return err_set(err, -ENAMETOOLONG, "%.80s...: the path is too long", file);
    strcpy(s.file, file);
    int res = conf_open(&conf, text, n, file, err);
    if (res)
        return res;
    const config_setting_t *all = config_root_setting(&conf.config);
    const config_setting_t *preset = config_setting_get_member(all, settings_name(SETTING_preset));
    if (preset) /* first, because the values of its settings replace the preset's wherever they stand */
        res = read_setting(&s, &conf, preset, err);
    for (int i = 0; res == 0 && i < config_setting_length(all); i++) {
        const config_setting_t *one = config_setting_get_elem(all, (unsigned)i);
        if (strcmp(config_setting_name(one), PROFILES) == 0)
            res = read_profiles(&s, &conf, one, err);
        else if (one != preset)
            res = read_setting(&s, &conf, one, err);
    }
    conf_close(&conf);
    if (res == 0)
        *ret = s;
    return res;
}

int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err) {
    if (s->lines[setting] == 0)
        err_set(err, code, "%s: %s", settings_name(setting), what);
    else
        err_set(err, code, "%s:%d: %s: %s", s->file, s->lines[setting], settings_name(setting), what);
    return err_about(err, code, (struct err_about){.code = CODE_UNUSABLE, .setting = settings_name(setting),
                                                   .line = s->lines[setting]});
}

/* ---- one setting by itself --------------------------------------------------------------------------------------- */

/* The whole text is a decimal number, whatever the locale. Not spa_atod, which keeps its locale without a lock: files
 * are written on a thread of their own. */
static bool is_number(const char *text, double *ret) {
    char *end = NULL;
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c) {
        *ret = strtod_l(text, &end, c);
        freelocale(c);
    }
    return end && text[0] && !*end && !text[strspn(text, "0123456789.+-eE")] && isfinite(*ret);
}

int settings_set(struct settings *s, int setting, const char *text, struct err *err) {
    double number;
    int res = check_text(setting, text, "", err);
    if (res)
        return res;
    const bool whole = text[strspn(text, "0123456789")] == '\0';
    const bool numeric = is_number(text, &number) && (whole || rows[setting].type == IS_NUMBER);
    if (!put(s, setting, numeric ? &number : NULL, text))
        return refuse_value(setting, err_set(err, -EINVAL, "%s must be %s", settings_name(setting),
                                             settings_allowed(setting)), err);
    s->lines[setting] = 0;
    return 0;
}

void settings_bounds(int setting, double *least, double *greatest) {
    *least = rows[setting].least;
    *greatest = rows[setting].greatest;
}

bool settings_number(const struct settings *s, int setting, double *ret) {
    const struct row *row = &rows[setting];
    const char *field = (const char *)s + row->offset;
    if (row->type == IS_SWITCH)
        return false;
    if (row->type == IS_TEXT)
        return is_number(field, ret) && *ret >= row->least && *ret <= row->greatest;
    memcpy(ret, field, sizeof *ret);
    return isfinite(*ret);
}

void settings_text(const struct settings *s, int setting, char *ret, size_t size) {
    const struct row *row = &rows[setting];
    const void *field = (const char *)s + row->offset;
    double number;
    if (row->type != IS_NUMBER) {
        snprintf(ret, size, "%s", row->type == IS_TEXT ? (const char *)field : *(const bool *)field ? "true" : "false");
        return;
    }
    memcpy(&number, field, sizeof number);
    if (isinf(number) && row->word) {
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

static int load_file(struct settings *ret, const char *file, struct err *err) {
    size_t n = 0;
    char *text = NULL;
    int res = file_read(&text, &n, file, MAX_FILE_BYTES, err);
    if (res)
        err_about(err, res, (struct err_about){.code = CODE_UNREADABLE});
    else
        res = settings_parse(ret, text, n, file, err);
    if (res)
        snprintf(ret->file, sizeof ret->file, "%s", file);
    free(text);
    return res;
}

static bool user_file(char *ret, size_t size) {
    return user_path(ret, size, "XDG_CONFIG_HOME", ".config", "primeknet.conf");
}

int settings_load(struct settings *ret, const char *file, struct err *err) {
    char path[sizeof ret->file];
    if (file)
        return load_file(ret, file, err);

    int res = user_file(path, sizeof path) ? load_file(ret, path, err) : -ENOENT;
    if (res == -ENOENT || res == -ENOTDIR)
        res = load_file(ret, SYSCONFDIR "/primeknet/primeknet.conf", err);
    if (res == -ENOENT || res == -ENOTDIR) {
        *ret = defaults;
        res = 0;
    }
    return res;
}

/* ---- one setting in its file ------------------------------------------------------------------------------------- */

/* As it is written in a file. ret: [2 * 1024 + 3]. */
static void quote(const struct settings *s, int setting, char *ret) {
    char text[1024], *to = ret;
    double number;
    settings_text(s, setting, text, sizeof text);
    if (settings_number(s, setting, &number) || rows[setting].type == IS_SWITCH) {
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

/* One setting per line, indented. Returns the bytes written. */
static int print_setting(char *ret, size_t size, const char *indent, const struct settings *s, int setting) {
    char value[2 * 1024 + 3];
    quote(s, setting, value);
    return snprintf(ret, size, "%s%s = %s;\n", indent, settings_name(setting), value);
}

/* A profile of s as a group. Returns the bytes written. */
static int print_profile(char *ret, size_t size, const struct settings *s, unsigned profile) {
    struct settings used = *s;
    settings_use_profile(&used, profile);
    strcpy(used.microphone, s->profiles[profile].microphone);
    int n = snprintf(ret, size, "{\n");
    n += print_setting(ret + n, size - (size_t)n, "        ", &used, SETTING_microphone);
    for (int i = 0; i < N_SETTINGS; i++)
        if (profile_value(&s->profiles[profile], i))
            n += print_setting(ret + n, size - (size_t)n, "        ", &used, i);
    return n + snprintf(ret + n, size - (size_t)n, "    }");
}

/* All settings of s, as text of a file, but for the preset, whose values they have. Returns its length. ret:
 * [MAX_FILE_BYTES], which is enough. */
static size_t print_settings(char *ret, const struct settings *s) {
    int n = 0;
    for (int i = SETTING_preset + 1; i < N_SETTINGS; i++)
        n += print_setting(ret + n, MAX_FILE_BYTES - (size_t)n, "", s, i);
    for (unsigned i = 0; i < s->n_profiles; i++) {
        n += snprintf(ret + n, MAX_FILE_BYTES - (size_t)n, i ? ",\n    " : PROFILES " = (\n    ");
        n += print_profile(ret + n, MAX_FILE_BYTES - (size_t)n, s, i);
    }
    if (s->n_profiles)
        n += snprintf(ret + n, MAX_FILE_BYTES - (size_t)n, "\n);\n");
    return (size_t)n;
}

int settings_write(const struct settings *s, const char *file, struct err *err) {
    char text[MAX_FILE_BYTES];
    return file_write(file, text, print_settings(text, s), err);
}

/* Whether a file would show the same values. */
static bool same(const struct settings *a, const struct settings *b) {
    char x[MAX_FILE_BYTES], y[MAX_FILE_BYTES];
    const size_t n = print_settings(x, a);
    return print_settings(y, b) == n && memcmp(x, y, n) == 0;
}

/* Where the value stands of a setting outside profiles, or in one of them. 1: there; 0: the setting is not in the text;
 * -EINVAL: it cannot be told. */
static int find_value(size_t *start, size_t *length, const char *text, size_t n, int profile, int setting) {
    char path[64];
    struct conf conf;
    int res = conf_open(&conf, text, n, "", NULL);
    if (res)
        return res;
    if (profile < 0)
        snprintf(path, sizeof path, "%s", settings_name(setting));
    else
        snprintf(path, sizeof path, PROFILES ".[%d].%s", profile, settings_name(setting));
    const config_setting_t *found = config_lookup(&conf.config, path);
    *length = found ? conf_place(&conf, found, start) : 0;
    conf_close(&conf);
    return *length ? 1 : found || profile >= 0 ? -EINVAL : 0;
}

/* The text, which settings_parse takes, with this value of the setting, at most MAX_FILE_BYTES, into
 * ret[MAX_FILE_BYTES + 1]. -EINVAL: where the value stands cannot be told. */
static int put_value(char *ret, size_t *ret_n, const char *text, size_t n, int profile, int setting,
                     const char *value) {
    size_t start = 0, length = 0;
    int found = find_value(&start, &length, text, n, profile, setting), m;
    if (found < 0)
        return found;
    if (found) {
        m = snprintf(ret, MAX_FILE_BYTES + 1, "%.*s%s%s", (int)start, text, value, text + start + length);
    } else {
        bool open = n > 0 && text[n - 1] != '\n';
        m = snprintf(ret, MAX_FILE_BYTES + 1, "%s%s%s = %s;\n", text, open ? "\n" : "", settings_name(setting), value);
    }
    if (m < 0 || m > MAX_FILE_BYTES)
        return -EFBIG;
    *ret_n = (size_t)m;
    return 0;
}

static int refuse_save(const struct settings *s, int setting, struct err *err) {
    return settings_refuse(s, setting, -EINVAL,
                           "cannot be changed where it stands; write NAME = VALUE on a line of its own", err);
}

/* What is to be saved, and the value as it is written: of a profile of these settings, if it has it, else of all. */
static void choose_value(struct settings *s, int *profile, int setting, char *text, char *value) {
    struct settings used = *s;
    if (*profile < 0 || !profile_value(&s->profiles[*profile], setting))
        *profile = -1;
    else
        settings_use_profile(&used, (unsigned)*profile);
    settings_text(&used, setting, text, 1024);
    quote(&used, setting, value);
}

/* The file to save in: its name, [sizeof s->file], its text, which is the caller's, and what that says. */
static int read_to_save(const struct settings *s, char *file, char **ret, size_t *n, struct settings *before,
                        struct err *err) {
    bool own = s->file[0] && strcmp(s->file, SYSCONFDIR "/primeknet/primeknet.conf") != 0;
    char *text = NULL;
    int res = 0;
    if (own)
        strcpy(file, s->file);
    else if (!user_file(file, sizeof s->file))
        res = err_set(err, -ENOENT, "neither XDG_CONFIG_HOME nor HOME says where to save settings");
    if (res == 0) {
        res = file_read(&text, n, file, MAX_FILE_BYTES, err);
        if (res == -ENOENT && !own && s->file[0])
            res = file_read(&text, n, s->file, MAX_FILE_BYTES, err);
        if (res == -ENOENT || res == -ENOTDIR)
            res = (text = strdup("")) ? 0 : err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    }
    if (res == 0)
        res = settings_parse(before, text, *n, file, err);
    *ret = text;
    return res;
}

/* Gives a setting in the file's text, [MAX_FILE_BYTES + 1], the value that it has in s, and so in `before`, which is
 * what the text says. */
static int save_value(char *text, struct settings *before, struct settings *s, int profile, int setting,
                      struct err *err) {
    char shown[1024], value[2 * 1024 + 3], next[MAX_FILE_BYTES + 1];
    size_t n_next = 0;
    choose_value(s, &profile, setting, shown, value);
    const bool there = profile < 0 || find_profile(before, s->profiles[profile].microphone) == profile;
    const int res = put_value(next, &n_next, text, strlen(text), profile, setting, value);
    if (res == -EFBIG)
        return err_set(err, res, "%s: no room for another setting", before->file);
    if (res || !there || settings_set_in(before, profile, setting, shown, NULL) < 0)
        return refuse_save(before, setting, err);
    memcpy(text, next, n_next + 1);
    return 0;
}

/* The preset, and those of its settings that would replace it there; in a profile its settings alone. */
static int save_preset(char *text, struct settings *before, struct settings *s, int profile, struct err *err) {
    const bool apart = has_presets(s, profile);
    const struct settings read = *before;
    int res = apart ? 0 : save_value(text, before, s, -1, SETTING_preset, err);
    for (int i = 0; res == 0 && i < N_OF_PRESETS; i++)
        if (apart || read.lines[of_presets[i]])
            res = save_value(text, before, s, profile, of_presets[i], err);
    return res;
}

int settings_save(struct settings *s, int profile, int setting, struct err *err) {
    struct settings before = defaults, after = defaults;
    char *read = NULL, text[MAX_FILE_BYTES + 1], file[sizeof s->file];
    size_t n = 0;

    int res = read_to_save(s, file, &read, &n, &before, err);
    if (res == 0) {
        memcpy(text, read, n);
        text[n] = '\0';
        res = setting == SETTING_preset ? save_preset(text, &before, s, profile, err)
                                        : save_value(text, &before, s, profile, setting, err);
    }
    if (res == 0)
        res = settings_parse(&after, text, strlen(text), file, err);
    if (res == 0 && !same(&before, &after)) /* write nothing that would read back differently */
        res = refuse_save(&before, setting, err);
    if (res == 0)
        res = file_write(file, text, strlen(text), err);
    if (res == 0) {
        strcpy(s->file, file);
        s->lines[setting] = after.lines[setting];
    }
    free(read);
    return res;
}

/* The file's text with the profile of that microphone, or without it. ret: [MAX_FILE_BYTES + 1]. before: what the text
 * says, to be brought to what ret says. */
static int put_profile(char *ret, char *text, struct settings *before, const struct settings *s, const char *microphone,
                       struct err *err) {
    char group[4096];
    const int profile = find_profile(s, microphone), there = find_profile(before, microphone);
    if (there >= 0) {
        conf_remove(text, PROFILES, (unsigned)there);
        settings_remove_profile(before, (unsigned)there);
    }
    strcpy(ret, text);
    if (profile < 0)
        return 0;
    if (before->n_profiles == MAX_PROFILES)
        return err_set(err, -ENOSPC, "%s: there are %d profiles already", before->file, MAX_PROFILES);
    print_profile(group, sizeof group, s, (unsigned)profile);
    if (conf_add(ret, MAX_FILE_BYTES + 1, text, PROFILES, group) > MAX_FILE_BYTES)
        return err_set(err, -EFBIG, "%s: no room for another profile", before->file);
    before->profiles[before->n_profiles++] = s->profiles[profile];
    return 0;
}

int settings_save_profile(struct settings *s, const char *microphone, struct err *err) {
    struct settings before = defaults, after = defaults;
    char *text = NULL, next[MAX_FILE_BYTES + 1], file[sizeof s->file];
    size_t n = 0;

    int res = read_to_save(s, file, &text, &n, &before, err);
    if (res == 0)
        res = put_profile(next, text, &before, s, microphone, err);
    if (res == 0)
        res = settings_parse(&after, next, strlen(next), file, err);
    if (res == 0 && !same(&before, &after))
        res = err_set(err, -EINVAL, "%s: profiles cannot be changed where they stand", file);
    if (res == 0)
        res = file_write(file, next, strlen(next), err);
    if (res == 0)
        strcpy(s->file, file);
    free(text);
    return res;
}
