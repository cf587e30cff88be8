/* settings.c - reads, shows and saves the settings; all of it uses the table's rows. */
#include "config.h"

#include "daemon/settings.h"

#include "base/file.h"
#include "base/state.h"
#include "base/text.h"
#include "control/presets.h"
#include "control/protocol.h"
#include "control/values.h"
#include "daemon/conf.h"
#include "graph/channel.h"
#include "graph/names.h"

#include <errno.h>
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

/* Refuses this program's own nodes, which would feed back. */
static bool fits_source(const char *text) {
    return text[0] && !text_begins(text, ENHANCED_MIC);
}

static bool fits_sink(const char *text) {
    return text[0] && strcmp(text, ENHANCED_SPEAKER) != 0;
}

/* Copies the i-th of the names separated by commas, without spaces around it. Returns false if there is none or it is
 * too long. */
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

/* Refuses "default", which only the first microphone may have. */
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

/* Refuses a relative path, which would mean another file under systemd than in a terminal. */
static bool fits_model(const char *text) {
    if (strchr(text, '/') || ends_in(text, ".safetensors"))
        return text[0] == '/';
    return text[0] != '\0' && text[0] != '.';
}

static bool fits_engine(const char *text) {
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0;
}

/* Accepts a UUID as nvidia-smi -L prints it: "GPU-" and groups of hexadecimal digits. */
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
#define NUMBER(name, fallback, least, greatest, word, ...) {IS_NUMBER, FIELD(name), least, greatest, word, NULL},
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

/* Returns the row with this name. */
static int find_row(const char *name, struct err *err) {
    struct likest l = {.word = name};
    for (int i = 0; i < N_SETTINGS; i++) {
        if (strcmp(settings_name(i), name) == 0)
            return i;
        likest_try(&l, settings_name(i));
    }
    const int res = l.name ? err_set(err, -ENOENT, "there is no setting \"%.40s\"; did you mean %s?", name, l.name)
                           : err_set(err, -ENOENT, "there is no setting \"%.40s\"; primeknet.conf(5) lists them", name);
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

/* Adds the setting to the error line that err_set has written for its value. */
static int refuse_value(int setting, int res, struct err *err) {
    return err_about(err, res, (struct err_about){.code = CODE_BAD_VALUE, .setting = settings_name(setting)});
}

/* ---- a file's text ----------------------------------------------------------------------------------------------- */

/* Refuses a text that is not valid for the setting; `place` is "FILE:LINE: " or "". */
static int check_text(int setting, const char *text, const char *place, struct err *err) {
    const size_t size = rows[setting].type == IS_TEXT ? rows[setting].size : sizeof defaults.model;
    char clean[sizeof defaults.model];
    if (strlen(text) >= size)
        return refuse_value(
            setting, err_set(err, -EINVAL, "%s%s is longer than %zu bytes", place, settings_name(setting), size - 1),
            err);
    text_copy(clean, sizeof clean, text);
    if (strcmp(clean, text) != 0)
        return refuse_value(
            setting,
            err_set(err, -EINVAL, "%s%s contains a control character or is not UTF-8", place, settings_name(setting)),
            err);
    return 0;
}

/* Reads text that is a whole number in the bounds of a TEXT. */
static bool whole_number(const struct row *row, const char *text, double *ret) {
    return text[strspn(text, "0123456789")] == '\0' && text_number(text, "", ret) && *ret >= row->least &&
           *ret <= row->greatest;
}

/* The settings that a preset sets. */
static const int of_presets[] = {SETTING_strength, SETTING_floor_db, SETTING_low_cut_hz};
enum { N_OF_PRESETS = sizeof of_presets / sizeof *of_presets };

static bool is_of_presets(int setting) {
    for (int i = 0; i < N_OF_PRESETS; i++)
        if (of_presets[i] == setting)
            return true;
    return false;
}

/* Whether that is the setting or, if that is the preset, one of its settings. */
static bool covers(int setting, int other) {
    return other == setting || (setting == SETTING_preset && is_of_presets(other));
}

static unsigned bit(int setting) {
    return 1u << setting;
}

static void copy_value(struct settings *to, const struct settings *from, int setting) {
    memcpy((char *)to + rows[setting].offset, (const char *)from + rows[setting].offset, rows[setting].size);
}

static void use_preset(struct settings *s) {
    const struct preset *p = preset_find(s->preset);
    s->strength = p->strength;
    s->floor_db = p->floor_db;
    s->low_cut_hz = p->low_cut_hz;
    strcpy(s->named_preset, p->name);
}

static void name_preset(struct settings *s) {
    strcpy(s->preset, preset_name(s->strength, s->floor_db, s->low_cut_hz));
}

/* Changes the ASCII letters. text: as check_text takes it. */
static const char *in_lower_case(char ret[sizeof defaults.model], const char *text) {
    size_t i = 0;
    for (; text[i]; i++)
        ret[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
    ret[i] = '\0';
    return ret;
}

/* Returns the word of a TEXT that on, yes, off, no and the like mean; NULL: none. */
static const char *word_for(int setting, const char *text) {
    bool on;
    if (!text_switch(text, &on))
        return NULL;
    return setting == SETTING_speaker                   ? (on ? "default" : "off")
           : setting == SETTING_more_microphones && !on ? "none"
                                                        : NULL;
}

/* Sets a TEXT to a whole number, a word or, if only that is valid, the word in lower case. */
static bool put_text(struct settings *s, int setting, const char *text) {
    const struct row *row = &rows[setting];
    char *field = (char *)s + row->offset, lower[sizeof defaults.model];
    const char *meant = word_for(setting, text);
    double number;
    if (whole_number(row, text, &number)) {
        snprintf(field, row->size, "%d", (int)number);
        return true;
    }
    if (!meant)
        meant = row->fits(text) ? text : row->fits(in_lower_case(lower, text)) ? lower : NULL;
    if (meant)
        strcpy(field, meant);
    return meant;
}

/* Sets a setting to a value as people write it. Returns false if it is not valid. */
static bool put(struct settings *s, int setting, const char *text) {
    void *field = (char *)s + rows[setting].offset;
    double number;
    switch (rows[setting].type) {
    case IS_NUMBER:
        if (!value_number(setting, text, &number))
            return false;
        memcpy(field, &number, sizeof number);
        break;
    case IS_SWITCH:
        if (!text_switch(text, field))
            return false;
        break;
    case IS_TEXT:
        if (!put_text(s, setting, text))
            return false;
        break;
    }
    if (setting == SETTING_preset)
        use_preset(s);
    name_preset(s);
    return true;
}

/* Returns a value of the file as text, in `ret` if it has no quotation marks. NULL: it is none, or belongs in them. */
static const char *text_in(int setting, const config_setting_t *from, char ret[32]) {
    const bool is_text = rows[setting].type == IS_TEXT;
    double number;
    switch (config_setting_type(from)) {
    case CONFIG_TYPE_STRING: return config_setting_get_string(from);
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(ret, 32, "%lld", config_setting_get_int64(from));
        return !is_text || whole_number(&rows[setting], ret, &number) ? ret : NULL;
    case CONFIG_TYPE_FLOAT:
        snprintf(ret, 32, "%.17g", config_setting_get_float(from));
        return rows[setting].type == IS_NUMBER ? ret : NULL;
    case CONFIG_TYPE_BOOL: return is_text ? NULL : config_setting_get_bool(from) ? "true" : "false";
    default: return NULL;
    }
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
        return err_about(err,
                         err_set(err, -EINVAL, "%sa duplicate: %s is already in line %d", place, settings_name(setting),
                                 s->lines[setting]),
                         (struct err_about){.code = CODE_DUPLICATE, .setting = settings_name(setting)});
    const bool unquoted = config_setting_type(from) == CONFIG_TYPE_BOOL || config_setting_is_aggregate(from);
    char number[32];
    const char *text = text_in(setting, from, number);
    res = text ? check_text(setting, text, place, err) : 0;
    if (res)
        return res;
    if (!text || !put(s, setting, text))
        return refuse_value(setting,
                            err_set(err, -EINVAL, "%s%s must be %s%s", place, settings_name(setting),
                                    settings_allowed(setting), unquoted ? "; put words in \"quotation marks\"" : ""),
                            err);
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

/* Returns a profile's field for a setting; NULL: profiles do not have it. */
static char *profile_text(struct profile *p, int setting, size_t *size) {
    switch (setting) {
#define ROW(name, bytes) \
    case SETTING_##name: *size = bytes; return p->name;
        PROFILE_SETTINGS(ROW)
#undef ROW
    default: return NULL;
    }
}

/* Returns a profile's value for a setting; NULL: none. */
static const char *profile_value(const struct profile *p, int setting) {
    size_t size;
    const char *text = profile_text((struct profile *)p, setting, &size);
    return text && text[0] ? text : NULL;
}

static int refuse_profile(int res, int line, struct err *err) {
    return err_about(err, res, (struct err_about){.code = CODE_BAD_PROFILE, .line = line});
}

/* Reads one setting of a profile; `read` has those read before. */
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
                                      conf->file, conf_line(from)),
                              conf_line(from), err);
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
        return refuse_profile(
            err_set(err, -EINVAL, "%s:%d: this profile does not name its microphone", conf->file, p.line), p.line, err);
    if (s->n_profiles == MAX_PROFILES)
        return err_about(
            err, err_set(err, -EINVAL, "%s:%d: there are more than %d profiles", conf->file, p.line, MAX_PROFILES),
            (struct err_about){.code = CODE_TOO_MANY_PROFILES, .line = p.line});
    s->profiles[s->n_profiles++] = p;
    return 0;
}

static int refuse_profiles(const struct conf *conf, const config_setting_t *wrong, struct err *err) {
    return refuse_profile(err_set(err, -EINVAL, "%s:%d: profiles must be a list, ( { microphone = NAME; ... }, ... )",
                                  conf->file, conf_line(wrong)),
                          conf_line(wrong), err);
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
    const struct profile *const p = &s->profiles[profile];
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *text = profile_value(p, i);
        const unsigned live = s->live;
        if (!text || settings_set(s, i, text, NULL) < 0)
            continue;
        s->lines[i] = p->saved ? 0 : p->line;
        s->saved_lines[i] = p->saved ? p->line : 0;
        s->live = (live & ~bit(i)) | (p->live & bit(i));
        s->in_profile |= bit(i);
    }
}

/* Whether a profile (-1: none) has any of a preset's settings. */
static bool has_presets(const struct settings *s, int profile) {
    bool has = false;
    for (int i = 0; i < N_OF_PRESETS; i++)
        has |= profile >= 0 && profile_value(&s->profiles[profile], of_presets[i]);
    return has;
}

/* Sets each of a preset's values where it comes from. */
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
    if (res)
        return res;
    settings_text(&valid, setting, to, size);
    s->profiles[profile].live |= bit(setting);
    return 0;
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

/* Returns the profile with exactly this name; -1: none. */
static int find_profile(const struct settings *s, const char *microphone) {
    for (unsigned i = 0; i < s->n_profiles; i++)
        if (strcmp(s->profiles[i].microphone, microphone) == 0)
            return (int)i;
    return -1;
}

/* Reads what "auto" means for the level, which in earlier versions was a setting of its own. */
static int read_level_target(struct settings *s, const struct conf *conf, const config_setting_t *from,
                             struct err *err) {
    double target, automatic;
    char number[32];
    const char *text = text_in(SETTING_level, from, number);
    if (!text || !value_number(SETTING_level, text, &target) || !isfinite(target))
        return refuse_value(SETTING_level,
                            err_set(err, -EINVAL, "%s:%d: %s must be a number from -32 to -14", conf->file,
                                    conf_line(from), config_setting_name(from)),
                            err);
    if (value_number(SETTING_level, "auto", &automatic) && s->level == automatic)
        s->level = target;
    return 0;
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
    const config_setting_t *level_target = config_setting_get_member(all, "level_target");
    if (preset) /* first, because its settings override the preset's values in any order */
        res = read_setting(&s, &conf, preset, err);
    for (int i = 0; res == 0 && i < config_setting_length(all); i++) {
        const config_setting_t *one = config_setting_get_elem(all, (unsigned)i);
        if (strcmp(config_setting_name(one), PROFILES) == 0)
            res = read_profiles(&s, &conf, one, err);
        else if (one != preset && one != level_target)
            res = read_setting(&s, &conf, one, err);
    }
    if (res == 0 && level_target)
        res = read_level_target(&s, &conf, level_target, err);
    conf_close(&conf);
    if (res == 0)
        *ret = s;
    return res;
}

/* ---- one setting by itself --------------------------------------------------------------------------------------- */

int settings_set(struct settings *s, int setting, const char *text, struct err *err) {
    int res = check_text(setting, text, "", err);
    if (res)
        return res;
    if (!put(s, setting, text))
        return refuse_value(
            setting, err_set(err, -EINVAL, "%s must be %s", settings_name(setting), settings_allowed(setting)), err);
    for (int i = 0; i < N_SETTINGS; i++)
        s->live |= covers(setting, i) ? bit(i) : 0;
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
        return whole_number(row, field, ret);
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

/* ---- where a value comes from ------------------------------------------------------------------------------------ */

enum origin settings_origin(const struct settings *s, int setting, int *line) {
    const char *const named = s->named_preset[0] ? s->named_preset : PRESET_DEFAULT;
    const bool of_preset = is_of_presets(setting) && !(s->in_profile & bit(setting));
    *line = 0;
    if (setting == SETTING_preset && strcmp(s->preset, named) != 0)
        return FROM_ITS_VALUES;
    if (s->live & bit(setting))
        return FROM_NO_FILE;
    if ((*line = s->saved_lines[setting]) || (of_preset && (*line = s->saved_lines[SETTING_preset])))
        return FROM_SAVED;
    if ((*line = s->lines[setting]) || (of_preset && (*line = s->lines[SETTING_preset])))
        return FROM_FILE;
    return FROM_DEFAULT;
}

int settings_refuse(const struct settings *s, int setting, int code, const char *what, struct err *err) {
    int line;
    const enum origin from = settings_origin(s, setting, &line);
    if (line == 0)
        err_set(err, code, "%s: %s", settings_name(setting), what);
    else
        err_set(err, code, "%s:%d: %s: %s", from == FROM_FILE ? s->file : s->saved, line, settings_name(setting), what);
    return err_about(err, code,
                     (struct err_about){.code = CODE_UNUSABLE, .setting = settings_name(setting), .line = line});
}

/* ---- saved values over those of the file ------------------------------------------------------------------------- */

/* Whether the setting has the same value in both structures. */
static bool agree(const struct settings *a, const struct settings *b, int setting) {
    char x[1024], y[1024];
    settings_text(a, setting, x, sizeof x);
    settings_text(b, setting, y, sizeof y);
    return strcmp(x, y) == 0;
}

static void hide(struct settings *s, int setting, int line, int saved_line) {
    s->hidden[s->n_hidden++] = (struct hidden){setting, line, saved_line};
}

/* Returns the line of `saved` that overrides a setting's line elsewhere; 0: none. */
static int find_hiding(const struct settings *saved, int setting) {
    int line = saved->lines[setting];
    if (line == 0 && is_of_presets(setting))
        line = saved->lines[SETTING_preset];
    if (line == 0 && setting == SETTING_preset)
        for (int i = 0; i < N_OF_PRESETS && (line = saved->lines[of_presets[i]]); i++)
            ;
    return line;
}

static void add_saved_values(struct settings *s, const struct settings *saved) {
    const struct settings before = *s;
    if (saved->lines[SETTING_preset]) {
        strcpy(s->preset, saved->named_preset);
        use_preset(s);
    }
    for (int i = 0; i < N_SETTINGS; i++)
        if (i != SETTING_preset && saved->lines[i])
            copy_value(s, saved, i);
    name_preset(s);
    memcpy(s->saved_lines, saved->lines, sizeof s->saved_lines);
    for (int i = 0; i < N_SETTINGS; i++) {
        const int line = find_hiding(saved, i);
        const bool same = i == SETTING_preset ? strcmp(before.named_preset, s->preset) == 0 : agree(&before, s, i);
        if (before.lines[i] && line && !same)
            hide(s, i, before.lines[i], line);
    }
}

static bool has_values(const struct profile *p) {
    for (int i = 0; i < N_SETTINGS; i++)
        if (profile_value(p, i))
            return true;
    return false;
}

/* Replaces the file's profile of a microphone by the saved one; a saved profile without values removes it. */
static int add_saved_profiles(struct settings *s, const struct settings *saved, struct err *err) {
    for (unsigned i = 0; i < saved->n_profiles; i++) {
        struct profile p = saved->profiles[i];
        p.saved = true;
        for (int there; (there = find_profile(s, p.microphone)) >= 0; settings_remove_profile(s, (unsigned)there))
            if (!s->profiles[there].saved)
                hide(s, -1, s->profiles[there].line, p.line);
        if (has_values(&p) && s->n_profiles == MAX_PROFILES)
            return err_set(err, -EINVAL, "%s:%d: with those of %s there are more than %d profiles", s->saved, p.line,
                           s->file, MAX_PROFILES);
        if (has_values(&p))
            s->profiles[s->n_profiles++] = p;
    }
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

#define SYSTEM_FILE SYSCONFDIR "/primeknet/primeknet.conf"

static bool is_absent(int res) {
    return res == -ENOENT || res == -ENOTDIR;
}

int settings_read(struct settings *ret, const char *file, struct err *err) {
    size_t n = 0;
    char *text = NULL;
    int res = file_read(&text, &n, file, MAX_FILE_BYTES, err);
    if (res)
        err_about(err, res, (struct err_about){.code = CODE_UNREADABLE});
    else
        res = settings_parse(ret, text, n, file, err);
    if (text && is_absent(res)) /* a setting that it names is, the file is not */
        res = -EINVAL;
    if (res)
        snprintf(ret->file, sizeof ret->file, "%s", file);
    free(text);
    return res;
}

static bool user_file(char *ret, size_t size) {
    return user_path(ret, size, "XDG_CONFIG_HOME", ".config", "primeknet.conf");
}

/* Without what was saved. */
static int read_unsaved(struct settings *ret, const char *file, struct err *err) {
    char path[sizeof ret->file];
    if (file)
        return settings_read(ret, file, err);

    int res = user_file(path, sizeof path) ? settings_read(ret, path, err) : -ENOENT;
    if (is_absent(res))
        res = settings_read(ret, SYSTEM_FILE, err);
    if (is_absent(res)) {
        *ret = defaults;
        res = 0;
    }
    return res;
}

/* Writes the path of the saved file, beside `file` or the user's. Returns false if there is no place for it. */
static bool saved_path(char ret[sizeof defaults.saved], const char *file) {
    char own[sizeof defaults.file];
    if (!file && !user_file(own, sizeof own))
        return false;
    if (!file)
        file = own;
    const int n = (int)strlen(file) - (ends_in(file, ".conf") ? 5 : 0);
    return snprintf(ret, sizeof defaults.saved, "%.*s-saved%s", n, file, file + n) < (int)sizeof defaults.saved;
}

/* Removes the saved value of a setting or, for a preset, of its settings. Returns false if nothing was saved. */
static bool drop(struct settings *saved, int setting) {
    bool any = false;
    for (int i = 0; i < N_SETTINGS; i++)
        if (covers(setting, i)) {
            any |= saved->lines[i] != 0;
            saved->lines[i] = 0;
        }
    return any;
}

/* without: a setting whose saved value is ignored; -1: none. */
static int add_saved(struct settings *s, const char *file, int without, struct err *err) {
    struct settings saved;
    char path[sizeof s->saved];
    int res = saved_path(path, file) ? settings_read(&saved, path, err) : -ENOENT;
    if (!is_absent(res))
        strcpy(s->saved, path);
    if (without >= 0 && (is_absent(res) || (res == 0 && !drop(&saved, without))))
        return err_set(err, -ENOENT, "%s is not saved%s", settings_name(without),
                       res == 0 && is_of_presets(without) && saved.lines[SETTING_preset] ? ", but the preset is" : "");
    if (res)
        return is_absent(res) ? 0 : res;
    add_saved_values(s, &saved);
    res = add_saved_profiles(s, &saved, err);
    if (strcmp(s->file, SYSTEM_FILE) == 0)
        s->n_hidden = 0; /* which the user should not edit */
    return res;
}

static int load(struct settings *ret, const char *file, int without, struct err *err) {
    struct settings s = defaults;
    int res = read_unsaved(&s, file, err);
    if (res == 0)
        res = add_saved(&s, file, without, err);
    if (res == 0) {
        *ret = s;
    } else {
        strcpy(ret->file, s.file);
        strcpy(ret->saved, s.saved);
    }
    return res;
}

int settings_load(struct settings *ret, const char *file, struct err *err) {
    return load(ret, file, -1, err);
}

int settings_load_without(struct settings *ret, const char *file, int setting, struct err *err) {
    return load(ret, file, setting, err);
}

void settings_files(const struct settings *s, char *ret, size_t size) {
    snprintf(ret, size, "%s%s%s", s->file, s->file[0] && s->saved[0] ? ", " : "", s->saved);
}

void settings_take(struct settings *s, const struct settings *from, int setting) {
    for (int i = 0; i < N_SETTINGS; i++) {
        if (!covers(setting, i))
            continue;
        copy_value(s, from, i);
        s->lines[i] = from->lines[i];
        s->saved_lines[i] = from->saved_lines[i];
        s->live &= ~bit(i);
    }
    if (setting == SETTING_preset)
        strcpy(s->named_preset, from->named_preset);
    name_preset(s);
}

/* Writes a value as it appears in a file. ret: [2 * 1024 + 3]. */
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

/* Writes a setting as one indented line. Returns the bytes written. */
static int print_setting(char *ret, size_t size, const char *indent, const struct settings *s, int setting) {
    char value[2 * 1024 + 3];
    quote(s, setting, value);
    return snprintf(ret, size, "%s%s = %s;\n", indent, settings_name(setting), value);
}

/* Writes a profile of s as a group. Returns the bytes written. */
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

/* Writes the profiles of s as a list. Returns the bytes written. */
static int print_profiles(char *ret, size_t size, const struct settings *s) {
    int n = 0;
    for (unsigned i = 0; i < s->n_profiles; i++) {
        n += snprintf(ret + n, size - (size_t)n, i ? ",\n    " : PROFILES " = (\n    ");
        n += print_profile(ret + n, size - (size_t)n, s, i);
    }
    return s->n_profiles ? n + snprintf(ret + n, size - (size_t)n, "\n);\n") : 0;
}

/* All settings and profiles fit in MAX_FILE_BYTES. */
int settings_write(const struct settings *s, const char *file, struct err *err) {
    char text[MAX_FILE_BYTES];
    int n = 0;
    for (int i = SETTING_preset + 1; i < N_SETTINGS; i++) /* which have the preset's values */
        n += print_setting(text + n, sizeof text - (size_t)n, "", s, i);
    n += print_profiles(text + n, sizeof text - (size_t)n, s);
    return file_write(file, text, (size_t)n, err);
}

/* ---- the saved file ---------------------------------------------------------------------------------------------- */

static const char about_saved[] =
    "# What the program saved: the settings of its window, and those of \"primeknet\" with --save. They override\n"
    "# those of the settings file. A profile replaces the one of its microphone there or, without values, removes it.\n"
    "#\n"
    "# The program writes this file as a whole, so put your own settings and comments in the other one. \"primeknet\n"
    "# settings\" shows where each setting comes from, and \"primeknet unset NAME\" deletes one from here.\n";

static int read_saved(struct settings *ret, const char *file, struct err *err) {
    char path[sizeof ret->file];
    if (!saved_path(path, file))
        return err_set(err, -ENOENT,
                       "there is no folder to save settings in: neither XDG_CONFIG_HOME nor HOME names a "
                       "folder, or the path is too long");
    int res = settings_read(ret, path, err);
    if (!is_absent(res))
        return res;
    *ret = defaults;
    strcpy(ret->file, path);
    return 0;
}

static int write_saved(struct settings *saved, struct err *err) {
    char text[MAX_FILE_BYTES];
    int n = snprintf(text, sizeof text, "%s", about_saved);
    strcpy(saved->preset, saved->named_preset);
    for (int i = 0; i < N_SETTINGS; i++)
        if (saved->lines[i])
            n += print_setting(text + n, sizeof text - (size_t)n, "", saved, i);
    n += print_profiles(text + n, sizeof text - (size_t)n, saved);
    const int res = settings_parse(saved, text, (size_t)n, saved->file, err); /* to get the lines */
    return res ? res : file_write(saved->file, text, (size_t)n, err);
}

enum { ANY_LINE = 1 };

/* Notes that a setting has the value of s. A preset replaces its settings. */
static void put_saved(struct settings *saved, const struct settings *s, int setting) {
    drop(saved, setting);
    saved->lines[setting] = ANY_LINE;
    copy_value(saved, s, setting);
    if (setting == SETTING_preset)
        strcpy(saved->named_preset, s->named_preset);
}

static int add_profile(struct settings *saved, const struct profile *p, struct err *err) {
    if (saved->n_profiles == MAX_PROFILES)
        return err_set(err, -ENOSPC, "%s: there are %d profiles already", saved->file, MAX_PROFILES);
    saved->profiles[saved->n_profiles++] = *p;
    return 0;
}

/* The same for a profile of s. A profile of the user's file is saved with all values that it has there. */
static int put_saved_in(struct settings *saved, const struct settings *s, const char *file, unsigned profile,
                        int setting, struct err *err) {
    struct profile p = s->profiles[profile];
    int there = find_profile(saved, p.microphone);
    size_t size;
    if (there < 0) {
        struct settings unsaved;
        int res = read_unsaved(&unsaved, file, err);
        if (res == 0 && (there = find_profile(&unsaved, p.microphone)) >= 0)
            p = unsaved.profiles[there];
        if (res == 0)
            res = add_profile(saved, &p, err);
        if (res)
            return res;
        there = (int)saved->n_profiles - 1;
    }
    strcpy(profile_text(&saved->profiles[there], setting, &size), profile_value(&s->profiles[profile], setting));
    return 0;
}

int settings_save(struct settings *ret, const struct settings *s, const char *file, int profile, int setting,
                  struct err *err) {
    const bool apart = setting == SETTING_preset && has_presets(s, profile);
    int res = read_saved(ret, file, err);
    for (int i = 0; res == 0 && i < N_SETTINGS; i++) {
        if (i != setting && !(apart && is_of_presets(i)))
            continue;
        if (profile >= 0 && profile_value(&s->profiles[profile], i))
            res = put_saved_in(ret, s, file, (unsigned)profile, i, err);
        else if (i != SETTING_preset || !apart)
            put_saved(ret, s, i);
    }
    return res ? res : write_saved(ret, err);
}

int settings_save_profile(struct settings *ret, const struct settings *s, const char *file, const char *microphone,
                          struct err *err) {
    struct profile taken = {.line = 0};
    struct settings unsaved;
    int res = read_saved(ret, file, err);
    if (res)
        return res;
    const int profile = find_profile(s, microphone);
    const bool known = read_unsaved(&unsaved, file, NULL) == 0;
    for (unsigned i = ret->n_profiles; i-- > 0;) {
        const struct profile *p = &ret->profiles[i];
        const bool takes_nothing = !has_values(p) && known && find_profile(&unsaved, p->microphone) < 0;
        if (takes_nothing || strcmp(p->microphone, microphone) == 0)
            settings_remove_profile(ret, i);
    }
    if (profile >= 0) {
        res = add_profile(ret, &s->profiles[profile], err);
    } else if (!known || find_profile(&unsaved, microphone) >= 0) {
        snprintf(taken.microphone, sizeof taken.microphone, "%s", microphone);
        res = add_profile(ret, &taken, err);
    }
    return res ? res : write_saved(ret, err);
}

int settings_unsave(struct settings *ret, const char *file, int setting, struct err *err) {
    int res = read_saved(ret, file, err);
    if (res)
        return res;
    drop(ret, setting);
    return write_saved(ret, err);
}

void settings_note_saved(struct settings *s, const struct settings *saved) {
    strcpy(s->saved, saved->file);
    memcpy(s->saved_lines, saved->lines, sizeof s->saved_lines);
    for (int i = 0; i < N_SETTINGS; i++)
        if ((saved->lines[i] || (is_of_presets(i) && saved->lines[SETTING_preset])) && agree(s, saved, i))
            s->live &= ~bit(i);
    for (unsigned i = 0; i < saved->n_profiles; i++) {
        const int there = find_profile(s, saved->profiles[i].microphone);
        if (there < 0)
            continue;
        struct profile *p = &s->profiles[there];
        p->line = saved->profiles[i].line;
        p->saved = true;
        for (int k = 0; k < N_SETTINGS; k++) {
            const char *value = profile_value(p, k), *there_too = profile_value(&saved->profiles[i], k);
            if (value && there_too && strcmp(value, there_too) == 0)
                p->live &= ~bit(k);
        }
    }
}
