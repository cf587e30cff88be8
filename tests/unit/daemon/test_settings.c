/* Settings: the bounds of every row, a table of invalid files with the line of each error, random bytes, and the
 * shipped file against the defaults. */
#include "config.h"

#include "control/presets.h"
#include "control/protocol.h"
#include "daemon/settings.h"
#include "engine/level.h"
#include "tests/support/content.h"
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef SANITIZED
/* libconfig 1.5 leaks the string that it was reading at a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libconfig";
}
#endif

static int parse(struct settings *ret, const char *text, struct err *err) {
    return settings_parse(ret, text, strlen(text), "t.conf", err);
}

static void assert_same_values(const struct settings *a, const struct settings *b) {
#define NUMBER(name, ...) ck_assert(a->name == b->name);
#define TEXT(name, ...) ck_assert_str_eq(a->name, b->name);
#define SWITCH(name, ...) ck_assert(a->name == b->name);
#include "control/settings.def"
}

static void assert_accepted(const char *text) {
    struct settings s;
    struct err err = {0};
    ck_assert_msg(parse(&s, text, &err) == 0, "'%s' refused: %s", text, err.text);
}

/* The code that belongs to a line's message. */
static const char *code_for(const char *line) {
    static const struct {
        const char *says, *code;
    } codes[] = {
        {"no setting", CODE_UNKNOWN_SETTING}, {"more than", CODE_TOO_MANY_PROFILES},
        {"duplicate", CODE_DUPLICATE},        {" profile", CODE_BAD_PROFILE},
        {"must be", CODE_BAD_VALUE},          {"too large", CODE_BAD_VALUE},
        {"contains", CODE_BAD_VALUE},         {"longer", CODE_BAD_VALUE},
        {"syntax error", CODE_BAD_SYNTAX},    {"@include", CODE_BAD_SYNTAX},
        {"are not closed", CODE_UNENDED},     {"UTF-8", CODE_BAD_ENCODING},
        {"NUL", CODE_BAD_ENCODING},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strstr(line, codes[i].says))
            return codes[i].code;
    ck_abort_msg("no code goes with '%s'", line);
}

/* Expects a one-line refusal with this line number and these words, and unchanged settings. */
static void assert_refused(const char *text, size_t n, int line, const char *words) {
    struct settings s, before;
    struct err err = {0};
    char place[32];
    snprintf(place, sizeof place, "t.conf:%d: ", line);
    memset(&s, 0x5A, sizeof s);
    before = s;
    ck_assert_msg(settings_parse(&s, text, n, "t.conf", &err) < 0, "'%s' accepted", text);
    ck_assert_msg(strncmp(err.text, place, strlen(place)) == 0, "'%s' gives '%s', not line %d", text, err.text, line);
    ck_assert_msg(strstr(err.text, words) && !strchr(err.text, '\n'), "'%s' gives '%s', without '%s'", text, err.text,
                  words);
    ck_assert_str_eq(err.about.code, code_for(err.text));
    ck_assert_int_eq(err.about.line, line);
    if (strcmp(err.about.code, CODE_BAD_VALUE) == 0)
        ck_assert_msg(strstr(text, err.about.setting), "'%s' is said to be about %s", text, err.about.setting);
    ck_assert_mem_eq(&s, &before, sizeof s);
}

START_TEST(empty_is_defaults) {
    struct settings s;
    struct err err;
    ck_assert_int_eq(parse(&s, "", &err), 0);
#define NUMBER(name, fallback, ...) ck_assert_msg(s.name == fallback, #name);
#define TEXT(name, size, fallback, ...) ck_assert_str_eq(s.name, fallback);
#define SWITCH(name, fallback) ck_assert_msg(s.name == fallback, #name);
#include "control/settings.def"
    for (int i = 0; i < N_SETTINGS; i++)
        ck_assert_int_eq(s.lines[i], 0);
}
END_TEST

START_TEST(values_arrive) {
    struct settings s;
    struct err err = {0};
    int res = parse(&s,
                    "strength = 0.25;\nfloor_db = -20; // int\nmodel = \"/a/ä b.safetensors\"\nengine : \"cpu\"\n"
                    "gpu = \"GPU-8a3f09c1-d2\"; /* two\nlines */ microphone = \"alsa_\" \"input\"; channel = 2",
                    &err);
    ck_assert_msg(res == 0, "%s", err.text);
    ck_assert(s.strength == 0.25 && s.floor_db == -20.0);
    ck_assert_str_eq(s.model, "/a/ä b.safetensors");
    ck_assert_str_eq(s.engine, "cpu");
    ck_assert_str_eq(s.gpu, "GPU-8a3f09c1-d2");
    ck_assert_str_eq(s.microphone, "alsa_input");
    ck_assert_str_eq(s.channel, "2");
    ck_assert_int_eq(s.lines[SETTING_model], 3);
    ck_assert_int_eq(s.lines[SETTING_channel], 6);
    settings_refuse(&s, SETTING_model, -EINVAL, "no such file", &err);
    ck_assert_str_eq(err.text, "t.conf:3: model: no such file");
}
END_TEST

START_TEST(more_microphones) {
    struct settings s;
    struct err err = {0};
    char name[256] = "";
    ck_assert_int_eq(parse(&s, "", &err), 0);
    ck_assert(!settings_more_microphone(&s, 0, name));
    ck_assert_int_eq(parse(&s, "more_microphones = \" a.b ,The USB one \"", &err), 0);
    ck_assert(settings_more_microphone(&s, 0, name));
    ck_assert_str_eq(name, "a.b");
    ck_assert(settings_more_microphone(&s, 1, name));
    ck_assert_str_eq(name, "The USB one");
    ck_assert(!settings_more_microphone(&s, 2, name));
}
END_TEST

/* Each bound itself is accepted, and the next number beyond it is refused. */
static void assert_bounds(const char *name, double least, double greatest, int whole) {
    char text[128];
    double step = whole ? 1.0 : 1e-9;
    for (int side = 0; side < 2; side++) {
        double bound = side ? greatest : least, beyond = side ? bound + step : bound - step;
        snprintf(text, sizeof text, "%s = %.*f;", name, whole ? 0 : 10, bound);
        assert_accepted(text);
        snprintf(text, sizeof text, "%s = %.*f;", name, whole ? 0 : 10, beyond);
        assert_refused(text, strlen(text), 1, name);
    }
    if (whole) {
        snprintf(text, sizeof text, "%s = %.1f;", name, least);
        assert_refused(text, strlen(text), 1, name);
    }
}

static void assert_switch(const char *name) {
    static const char *const taken[] = {"true", "false", "True", "\"true\"", "\"False\"", "1", "\"on\""};
    static const char *const refused[] = {"2", "0.0", "\"auto\"", "\"True \"", "\"\"", "[ true ]"};
    char text[128];
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        snprintf(text, sizeof text, "%s = %s;", name, taken[i]);
        assert_accepted(text);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(text, sizeof text, "%s = %s;", name, refused[i]);
        assert_refused(text, strlen(text), 1, "must be \"true\" or \"false\"");
    }
}

/* What people type means the same in a file as it does to the tool. */
static const struct {
    int setting;
    const char *text, *is;
} as_typed[] = {
    {SETTING_strength, "50%", "0.5"},
    {SETTING_strength, "0,25", "0.25"},
    {SETTING_strength, "100 %", "1.0"},
    {SETTING_floor_db, "-18,5", "-18.5"},
    {SETTING_floor_db, "-19.5dB", "-19.5"},
    {SETTING_floor_db, "-20 DB", "-20.0"},
    {SETTING_floor_db, "no", "off"},
    {SETTING_floor_db, "0", "0.0"},
    {SETTING_low_cut_hz, "90,5hz", "90.5"},
    {SETTING_low_cut_hz, "OFF", "0.0"},
    {SETTING_level, "on", "-23.0"},
    {SETTING_level, "auto", "-23.0"},
    {SETTING_level, "yes", "-23.0"},
    {SETTING_level, "TRUE", "-23.0"},
    {SETTING_level, "-18,5LUFS", "-18.5"},
    {SETTING_level, "-20", "-20.0"},
    {SETTING_level, "0", "off"},
    {SETTING_level, "no", "off"},
    {SETTING_gpu_idle_s, "30 s", "30.0"},
    {SETTING_gpu_idle_s, "0", "0.0"},
    {SETTING_echo_cancel, "yes", "true"},
    {SETTING_echo_cancel, "1", "true"},
    {SETTING_transparent, "Off", "false"},
    {SETTING_speaker, "on", "default"},
    {SETTING_speaker, "No", "off"},
    {SETTING_more_microphones, "off", "none"},
    {SETTING_microphone, "yes", "yes"},
    {SETTING_model, "50%", "50%"},
};

START_TEST(a_file_takes_what_people_type) {
    struct settings from_file, set;
    struct err err = {0};
    char line[64], text[1024];
    snprintf(line, sizeof line, "%s = \"%s\";", settings_name(as_typed[_i].setting), as_typed[_i].text);
    ck_assert_msg(parse(&from_file, line, &err) == 0, "%s", err.text);
    settings_text(&from_file, as_typed[_i].setting, text, sizeof text);
    ck_assert_msg(strcmp(text, as_typed[_i].is) == 0, "%s: %s", line, text);
    ck_assert_int_eq(parse(&set, "", &err), 0);
    ck_assert_int_eq(settings_set(&set, as_typed[_i].setting, as_typed[_i].text, &err), 0);
    assert_same_values(&from_file, &set);
}
END_TEST

START_TEST(a_file_of_an_earlier_version_says_what_auto_means) {
    struct settings s;
    struct err err;
    ck_assert_int_eq(parse(&s, "level_target = -20;\nlevel = \"auto\";", &err), 0);
    ck_assert(s.level == -20);
    ck_assert_int_eq(parse(&s, "level = \"off\";\nlevel_target = -20.0;", &err), 0);
    ck_assert(isinf(s.level));
    ck_assert_int_eq(parse(&s, "level = -16;\nlevel_target = -20;", &err), 0);
    ck_assert(s.level == -16);
    ck_assert_int_lt(parse(&s, "level = \"auto\";\nlevel_target = 3;", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, ":2: level_target must be a number from -32 to -14"));
}
END_TEST

START_TEST(a_file_takes_a_level_without_quotation_marks) {
    struct settings s;
    struct err err = {0};
    ck_assert_int_eq(parse(&s, "level = true;", &err), 0);
    ck_assert(s.level == LEVEL_TARGET);
    ck_assert_int_eq(parse(&s, "level = -20;", &err), 0);
    ck_assert(s.level == -20);
    ck_assert_int_eq(parse(&s, "level = false;", &err), 0);
    ck_assert(isinf(s.level));
}
END_TEST

START_TEST(bounds_of_every_row) {
#define NUMBER(name, fallback, least, greatest, ...) assert_bounds(#name, least, greatest, 0);
#define TEXT(name, size, fallback, least, greatest, ...) \
    if (least <= greatest) \
        assert_bounds(#name, least, greatest, 1); \
    else \
        assert_refused(#name " = 1;", strlen(#name " = 1;"), 1, #name " must be ");
#define SWITCH(name, fallback) assert_switch(#name);
#include "control/settings.def"
}
END_TEST

START_TEST(channels) {
    assert_accepted("channel = \"mix\";");
    assert_accepted("channel = \"FL\";");
    assert_accepted("channel = \"AUX63\";");
    assert_accepted("channel = 64;");
}
END_TEST

/* Every way to write a value. */
START_TEST(spellings) {
    struct settings s;
    struct err err = {0};
    static const char *const ones[] = {"1", "1.", "1.0", "+1", "1e0", "10E-1", ".1e+1", "0x1", "0X01L", "1LL"};
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "strength=%s gpu:0xAL,", ones[i]);
        ck_assert_msg(parse(&s, text, &err) == 0, "'%s': %s", text, err.text);
        ck_assert(s.strength == 1);
        ck_assert_str_eq(s.gpu, "10");
    }
    ck_assert_int_eq(parse(&s, "microphone = \"\\x41\\\\\\\"\\q\\x4\" // B\n\"C\"", &err), 0);
    ck_assert_str_eq(s.microphone, "A\\\"\\q\\x4C");
}
END_TEST

START_TEST(length_of_text) {
    struct settings s;
    char text[sizeof s.microphone + 32];
    for (size_t more = 0; more < 2; more++) {
        int n = sprintf(text, "microphone = \"");
        memset(text + n, 'm', sizeof s.microphone - 1 + more);
        strcpy(text + n + sizeof s.microphone - 1 + more, "\";");
        if (more)
            assert_refused(text, strlen(text), 1, "microphone is longer than 255 bytes");
        else
            assert_accepted(text);
    }
}
END_TEST

static const struct {
    const char *text;
    int line;
    const char *words;
} garbage[] = {
    {"\nstrenght = 1;", 2, "there is no setting \"strenght\"; did you mean strength?"},
    {"strength = true;", 1, "strength must be"},
    {"strength = [1.0];", 1, "strength must be"},
    {"strength = (1.0);", 1, "strength must be"},
    {"strength = { a = 1; };", 1, "strength must be"},
    {"\nprofiles = 1", 2, "profiles must be a list, ( { microphone = NAME; ... }, ... )"},
    {"profiles = (\n1 )", 2, "profiles must be a list"},
    {"profiles = { microphone = \"a\" }", 1, "profiles must be a list"},
    {"profiles = ( {", 1, "syntax error"},
    {"\nprofiles = ( { strength = 1; } )", 2, "this profile does not name its microphone"},
    {"profiles = ( {\nmicrophone = \"default\"} )", 2, "a profile has one microphone, by its name"},
    {"profiles = ( { microphone = \"a\";\nengine = \"cpu\" } )", 2,
     "may have strength, floor_db, low_cut_hz and model"},
    {"profiles = ( { microphone = \"a\"; microphone = \"b\" } )", 1, "duplicate"},
    {"profiles = ( { microphone = \"a\"; strength = 2 } )", 1, "strength must be a number from 0 to 1"},
    {"profiles = ( { microphone = \"a\"; strength = 4294967297 } )", 1, "too large"},
    {"profiles = ( { microphone = \"a\"; profiles = ( ) } )", 1, "there is no setting \"profiles\""},
    {"strength = 1e400;", 1, "strength must be"},
    {"strength = -1e400;", 1, "strength must be"},
    {"strength = nan;", 1, "syntax error"},
    {"strength = 0,5;", 1, "syntax error"},
    {"\npreset = \"custom\"", 2, "preset must be \"natural\", \"balanced\" or \"strong\""},
    {"preset = \"Strong \"", 1, "preset must be"},
    {"preset = \"\"", 1, "preset must be"},
    {"preset = 1", 1, "preset must be"},
    {"preset = strong", 1, "syntax error"},
    {"preset = [\"strong\"]", 1, "put words in \"quotation marks\""},
    {"strength = 1\npreset = \"strong\"\npreset = \"strong\"", 3, "duplicate"},
    {"profiles = ( { microphone = \"a\"; preset = \"strong\" } )", 1, "may have strength, floor_db"},
    {"floor_db = off;", 1, "with words and percentages in \"quotation marks\""},
    {"\nstrength = 50%;", 2, "syntax error: a setting has the form NAME = VALUE, with words and percentages in"},
    {"floor_db = on;", 1, "syntax error"},
    {"floor_db = \"on\";", 1, "floor_db must be \"off\" or a number from -60 to 0"},
    {"floor_db = \"\";", 1, "floor_db must be"},
    {"floor_db = 0xFFFFFFFFFFFFFFFFFFLL;", 1, "too large"},
    {"floor_db = 4294967286;", 1, "the number 4294967286 is too large"}, /* wraps to -10 */
    {"gpu = 4294967296;", 1, "too large"},                               /* wraps to 0 */
    {"gpu = 0x100000000;", 1, "too large"},
    {"gpu = 18446744073709551616L;", 1, "too large"},
    {"gpu = \"GPU-\";", 1, "gpu must be"},
    {"gpu = \"GPU-xyz\";", 1, "gpu must be"},
    {"engine = \"null\";", 1, "engine must be \"auto\", \"cpu\" or \"cuda\""},
    {"engine = \"\";", 1, "engine must be"},
    {"model = \"\";", 1, "model must be"},
    {"model = \"a/b\";", 1, "model must be"},
    {"model = \"small.safetensors\";", 1, "full path"},
    {"model = \"~/x.safetensors\";", 1, "full path"},
    {"model = \"a\\nb\";", 1, "model contains a control character"},
    {"microphone = \"a\\x01\";", 1, "microphone contains a control character"},
    {"microphone = \"\\xff\";", 1, "microphone contains a control character or is not UTF-8"},
    {"microphone = \"\";", 1, "microphone must be"},
    {"more_microphones = \"\";", 1, "more_microphones must be"},
    {"more_microphones = \"a, default\";", 1, "more_microphones must be"},
    {"more_microphones = \"a,\";", 1, "more_microphones must be"},
    {"more_microphones = \"a,a\";", 1, "more_microphones must be"},
    {"more_microphones = \"a,b,c\";", 1, "more_microphones must be"},
    {"speaker = true;", 1, "speaker must be"},
    {"model = true;", 1, "model must be"},
    {"strength = true;", 1, "strength must be"},
    {"channel = \"fl\";", 1, "channel must be"},
    {"channel = \"UNK\";", 1, "channel must be"},
    {"channel = \"AUX64\";", 1, "channel must be"},
    {"channel = \"\";", 1, "channel must be"},
    {"strength = 1;\nmodel = \"x\";\nstrength = 1;", 3, "duplicate setting name"},
    {"microphone = \"enhanced_mic\";", 1,
     "microphone must be \"default\" (the system's) or the node.name of another source"},
    {"more_microphones = \"usb,enhanced_mic.usb\";", 1, "more_microphones must be"},
    {"speaker = \"enhanced_speaker\";", 1, "speaker must be"},
    {"floor-db = -3;", 1, "there is no setting \"floor-db\""},
    {"group = { strength = 1; };", 1, "there is no setting \"group\""},
    {"strength = 1;\n/* strength = 2;\n\n", 3, "are not closed"},
    {"\nmodel = \"small;\n\n", 3, "syntax error"},
    {"model = \"small\\\";", 1, "syntax error"},
    {"model = \"a\" /* b */ \"c", 1, "are not closed"},
    {"model = \"a\"\n/* b", 2, "are not closed"},
    {"strength = /* 1", 1, "syntax error"},
    {"strength /*", 1, "syntax error"},
    {"# fine\n  @include \"t.conf\"\n", 2, "@include is not supported"},
    {"\xEF\xBB\xBFstrength = 1;", 1, "byte order mark"},
    {"\n\n# caf\xE9\n", 3, "not UTF-8"},
    {"# \xC0\x80\n", 1, "not UTF-8"},
    {"# \xED\xA0\x80\n", 1, "not UTF-8"},
    {"# \xF4\x90\x80\x80\n", 1, "not UTF-8"},
    {"# \xE2\x82", 1, "not UTF-8"},
    {"strength 1;", 1, "syntax error"},
    {"strength = ;", 1, "syntax error"},
    {"= 1;", 1, "syntax error"},
    {"strength", 1, "syntax error"},
    {"strength = 1.0.0", 1, "syntax error"},
    {"strength = 1e", 1, "syntax error"},
    {"strength = -", 1, "syntax error"},
    {"gpu = 0x", 1, "syntax error"},
    {"gpu = 1.0", 1, "gpu must be"},
    {"strength = 1\n@include \"t.conf\"", 2, "@include is not supported"},
    {"strength = 1;;;\n}", 1, "syntax error"},
    {"\x7F\x45\x4C\x46", 1, "syntax error"},
};

START_TEST(garbage_is_refused) {
    assert_refused(garbage[_i].text, strlen(garbage[_i].text), garbage[_i].line, garbage[_i].words);
}
END_TEST

START_TEST(nul_is_refused) {
    assert_refused("strength = 1;\n\0", 15, 2, "NUL");
    assert_refused("a\0", 2, 1, "NUL");
    assert_refused("model = \"\\\0\";", 13, 1, "NUL");
}
END_TEST

START_TEST(settings_in_comments_and_strings_are_ignored) {
    assert_accepted("# @include \"x\"\n// 99999999999\n/* \" @include\n */ strength = 1; # \"\n");
    struct settings s;
    struct err err;
    ck_assert_int_eq(parse(&s, "microphone = \"a \\\"@include\\\" # 99999999999 /*\";", &err), 0);
    ck_assert_str_eq(s.microphone, "a \"@include\" # 99999999999 /*");
}
END_TEST

START_TEST(depth_is_harmless) {
    enum { DEPTH = 30000 };
    char *text = malloc(DEPTH + 16);
    strcpy(text, "model = ");
    memset(text + 8, '(', DEPTH);
    text[8 + DEPTH] = '\0';
    struct settings s;
    struct err err;
    ck_assert_int_lt(parse(&s, text, &err), 0);
    free(text);
}
END_TEST

/* Any bytes give settings, or a one-line error that names the file. */
START_TEST(random_bytes) {
    static const char *const words[] = {
        "strength",  "=",
        ";",         "\"",
        "{",         "}",
        "(",         "[",
        "/*",        "*/",
        "#",         "\n",
        "1",         "-0.5",
        "e9",        "0x",
        "@include ", "\\",
        "true",      "model",
        ",",         "\xC3\xA4",
        "\xFF",      ":",
        "L",         "floor_db = \"off\";\n",
    };
    unsigned seed = (unsigned)time(NULL);
    printf("random_bytes: seed %u\n", seed);
    for (int round = 0; round < 20000; round++) {
        char text[256] = "";
        size_t n = 0, n_words = (size_t)rand_r(&seed) % 24;
        for (size_t i = 0; i < n_words; i++)
            n += (size_t)sprintf(text + n, "%s", words[(size_t)rand_r(&seed) % (sizeof words / sizeof words[0])]);
        if (n > 0 && rand_r(&seed) % 4 == 0)
            text[(size_t)rand_r(&seed) % n] = (char)rand_r(&seed);
        struct settings s;
        struct err err = {0};
        if (settings_parse(&s, text, n, "t.conf", &err) == 0)
            ck_assert_msg(s.strength >= 0.0 && s.strength <= 1.0 && s.floor_db <= 0.0, "'%s'", text);
        else
            ck_assert_msg(strncmp(err.text, "t.conf:", 7) == 0 && !strchr(err.text, '\n'), "'%s' gives '%s'", text,
                          err.text);
    }
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char home[] = "/tmp/primeknet-settings-XXXXXX";

static void make_home(void) {
    ck_assert_ptr_nonnull(mkdtemp(home));
    setenv("HOME", home, 1);
    unsetenv("XDG_CONFIG_HOME");
}

static void remove_home(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    ck_assert_int_eq(system(command), 0);
    strcpy(home + strlen(home) - 6, "XXXXXX");
}

static const char *at(const char *name) {
    static char path[4][256];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", home, name);
    return p;
}

static void put(const char *name, const char *text) {
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", at(name));
    ck_assert_int_eq(system(command), 0);
    put_content(at(name), text);
}

/* A decimal comma in the user's language changes nothing. */
START_TEST(locale_is_ignored) {
    struct settings s;
    struct err err = {0};
    char command[256];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' > '%s' 2>&1", at("de_DE.UTF-8"), at("log"));
    bool made = system(command) == 0;
    setenv("LOCPATH", home, 1);
    if (!made || !setlocale(LC_ALL, "de_DE.UTF-8") || strcmp(localeconv()->decimal_point, ",") != 0) {
        puts("locale_is_ignored: skipped, localedef cannot make a locale here");
        return;
    }
    ck_assert_msg(parse(&s, "strength = 0.5; floor_db = -1.5e1", &err) == 0, "%s", err.text);
    ck_assert(s.strength == 0.5 && s.floor_db == -15.0);
    char text[64];
    ck_assert_int_eq(settings_set(&s, SETTING_strength, "0.25", &err), 0);
    settings_text(&s, SETTING_strength, text, sizeof text);
    ck_assert_str_eq(text, "0.25");
}
END_TEST

START_TEST(search_order) {
    struct settings s;
    struct err err;
    put(".config/primeknet/primeknet.conf", "strength = 0.1;");
    put("xdg/primeknet/primeknet.conf", "strength = 0.2;");
    put("own.conf", "strength = 0.3;");
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert(s.strength == 0.1);
    setenv("XDG_CONFIG_HOME", "xdg", 1); /* relative: does not count */
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert(s.strength == 0.1);
    setenv("XDG_CONFIG_HOME", at("xdg"), 1);
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert(s.strength == 0.2);
    ck_assert_str_eq(s.file, at("xdg/primeknet/primeknet.conf"));
    ck_assert_int_eq(settings_load(&s, at("own.conf"), &err), 0);
    ck_assert(s.strength == 0.3);
}
END_TEST

/* SYSCONFDIR is a folder of the build here: see tests/unit/local.mk. */
START_TEST(system_file_and_none) {
    struct settings s;
    struct err err;
    unlink(SYSCONFDIR "/primeknet/primeknet.conf");
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert_str_eq(s.file, "");
    ck_assert_int_eq(system("mkdir -p '" SYSCONFDIR "/primeknet'"), 0);
    put_content(SYSCONFDIR "/primeknet/primeknet.conf", "strength = 0.4;");
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert(s.strength == 0.4);
    put(".config/primeknet/primeknet.conf", "strength = ;");
    ck_assert_int_lt(settings_load(&s, NULL, &err), 0); /* the user's broken file is not passed over */
    ck_assert(s.strength == 0.4);
    unlink(SYSCONFDIR "/primeknet/primeknet.conf");
}
END_TEST

static void assert_not_a_file(const char *path, const char *words) {
    struct settings s;
    struct err err;
    ck_assert_int_lt(settings_load(&s, path, &err), 0);
    ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0 && strstr(err.text, words), "%s", err.text);
}

START_TEST(only_regular_files_are_read) {
    char *big = malloc(65538);
    memset(big, '\n', 65537);
    big[65537] = '\0';
    put("big", big);
    big[65536] = '\0';
    put("biggest", big);
    free(big);
    ck_assert_int_eq(mkfifo(at("pipe"), 0600), 0);
    assert_not_a_file(at("none"), "No such file");
    assert_not_a_file(home, "is a folder");
    assert_not_a_file(at("pipe"), "is not a regular file");
    assert_not_a_file("/dev/zero", "is not a regular file");
    assert_not_a_file(at("big"), "larger than 65536 bytes");
    struct settings s;
    struct err err;
    ck_assert_int_eq(settings_load(&s, at("biggest"), &err), 0);
    if (geteuid() != 0) { /* root reads anything */
        put("secret", "");
        ck_assert_int_eq(chmod(at("secret"), 0), 0);
        assert_not_a_file(at("secret"), "Permission denied");
    }
}
END_TEST

START_TEST(set_accepts_the_values_of_a_file) {
    static const struct {
        const char *name, *value, *words; /* words of the refusal, or NULL */
    } cases[] = {
        {"strength", "0.25", NULL},
        {"strength", "1", NULL},
        {"strength", "1.01", "from 0 to 1"},
        {"strength", "nan", "from 0"},
        {"strength", "0,5,", "from 0"},
        {"strength", "", "from 0"},
        {"strength", " 0.5", "from 0"},
        {"strength", "off", "from 0"},
        {"strength", "0x1p-1", "from 0"},
        {"strength", "150%", "from 0"},
        {"strength", "%", "from 0"},
        {"strength", "0.5dB", "from 0"},
        {"floor-db", "50%", "-60 to 0"},
        {"floor-db", "on", "-60 to 0"},
        {"low-cut-hz", "90dB", "0 (off)"},
        {"floor-db", "-18", NULL},
        {"floor_db", "off", NULL},
        {"floor-db", "-61", "-60 to 0"},
        {"low-cut-hz", "90", NULL},
        {"low_cut_hz", "0", NULL},
        {"low-cut-hz", "301", "0 (off) to 300"},
        {"low-cut-hz", "-1", "0 (off)"},
        {"low-cut-hz", "on", "0 (off)"},
        {"low-cut-hz", "inf", "0 (off)"},
        {"level", "off", NULL},
        {"level", "-16", NULL},
        {"level", "-13", "\"off\", \"auto\""},
        {"level", "auto ", "-32 to -14"},
        {"level", "-33", "-32 to -14"},
        {"level", "", "-32 to -14"},
        {"model", "base", NULL},
        {"model", "a/b", "full path"},
        {"model", "\"a\\b", NULL},
        {"model", "\n", "control character"},
        {"model", "\xFF", "not UTF-8"},
        {"engine", "steam", "engine must be"},
        {"gpu", "3", NULL},
        {"gpu", "64", "0 to 63"},
        {"gpu", "1.5", "0 to 63"},
        {"channel", "FL", NULL},
        {"channel", "0", "channel"},
        {"microphone", "", "microphone"},
        {"engine", "123456789012345678", "longer than 15 bytes"},
        {"preset", "strong", NULL},
        {"preset", "custom", "\"natural\", \"balanced\" or \"strong\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct settings s, before;
        struct err err = {0};
        char text[1024];
        ck_assert_int_eq(parse(&s, "strength = 0.5; floor_db = -3; model = \"small\";", &err), 0);
        before = s;
        int setting = settings_find(cases[i].name, NULL), res = settings_set(&s, setting, cases[i].value, &err);
        if (cases[i].words) {
            ck_assert_msg(res < 0 && strstr(err.text, cases[i].words), "%s %s: %s", cases[i].name, cases[i].value,
                          err.text);
            ck_assert_mem_eq(&s, &before, sizeof s);
            continue;
        }
        ck_assert_msg(res == 0, "%s", err.text);
        settings_text(&s, setting, text, sizeof text);
        ck_assert_msg(strncmp(text, cases[i].value, strlen(cases[i].value)) == 0, "%s is %s", cases[i].value, text);
    }
}
END_TEST

START_TEST(set_ignores_the_case_of_words) {
    static const struct {
        int setting;
        const char *value, *is;
    } capitals[] = {
        {SETTING_preset, "Natural", "natural"}, {SETTING_floor_db, "Off", "off"},
        {SETTING_level, "Off", "off"},          {SETTING_engine, "CPU", "cpu"},
        {SETTING_gpu_idle_s, "Never", "never"}, {SETTING_channel, "Mix", "mix"},
        {SETTING_channel, "FL", "FL"},          {SETTING_echo_cancel, "True", "true"},
        {SETTING_model, "Mine", "Mine"},        {SETTING_microphone, "Default", "Default"},
    };
    for (size_t i = 0; i < sizeof capitals / sizeof *capitals; i++) {
        struct settings s;
        char text[1024];
        ck_assert_int_eq(parse(&s, "", &(struct err){0}), 0);
        ck_assert_int_eq(settings_set(&s, capitals[i].setting, capitals[i].value, NULL), 0);
        settings_text(&s, capitals[i].setting, text, sizeof text);
        ck_assert_str_eq(text, capitals[i].is);
    }
}
END_TEST

START_TEST(set_finds_names_without_their_units) {
    struct err err = {0};
    ck_assert_int_lt(settings_find("flor-db", &err), 0);
    ck_assert_str_eq(err.text, "there is no setting \"flor_db\"; did you mean floor_db?");
    ck_assert_int_eq(settings_find("floor", NULL), SETTING_floor_db);
    ck_assert_int_eq(settings_find("low-cut", NULL), SETTING_low_cut_hz);
    ck_assert_int_lt(settings_find("low", &err), 0);
    ck_assert_int_lt(settings_find("floor_d", &err), 0);
    ck_assert_int_lt(settings_find("", &err), 0);
    ck_assert_str_eq(err.text, "there is no setting \"\"; primeknet.conf(5) lists them");
    ck_assert_int_lt(
        settings_find("a name that is longer than any setting has, or may ever have in this program", NULL), 0);
}
END_TEST

/* Returns the saved file's text below its head of comments. */
static const char *saved_text(const char *file) {
    const char *text = content(at(file));
    while (*text == '#')
        text = strchr(text, '\n') + 1;
    return text;
}

static void load(struct settings *ret) {
    struct err err = {0};
    ck_assert_msg(settings_load(ret, at("t.conf"), &err) == 0, "%s", err.text);
}

static int save(const struct settings *s, int profile, int setting, struct err *err) {
    struct settings saved;
    return settings_save(&saved, s, at("t.conf"), profile, setting, err);
}

static const struct {
    const char *file, *before, *name, *value, *after;
} saved[] = {
    {"", "", "strength", "0.5", "strength = 0.5;\n"},
    {"# mine\ngpu = 1", "", "strength", "0.5", "strength = 0.5;\n"},
    {"strength = 1", "gpu = 3; floor_db = -3", "strength", "0.5", "strength = 0.5;\nfloor_db = -3.0;\ngpu = 3;\n"},
    {"strength = 1", "strength = 0.25", "strength", "1", "strength = 1.0;\n"},
    {"model = # a\n \"small\"", "", "model", "base", "model = \"base\";\n"},
    {"gpu = \"GPU-12\"", "", "gpu", "3", "gpu = 3;\n"},
    {"", "gpu = 3", "gpu", "GPU-12", "gpu = \"GPU-12\";\n"},
    {"floor_db = -3", "", "floor_db", "off", "floor_db = \"off\";\n"},
    {"", "", "microphone", "a\\b \"c\" \xC3\xA4 # d", "microphone = \"a\\\\b \\\"c\\\" \xC3\xA4 # d\";\n"},
    {"", "", "microphone", "12", "microphone = \"12\";\n"},
    {"echo_cancel = \"true\"", "", "echo_cancel", "false", "echo_cancel = false;\n"},
    {"", "", "preset", "natural", "preset = \"natural\";\n"},
    {"low_cut_hz = 90", "strength = 0.5; level = \"auto\"", "preset", "natural",
     "preset = \"natural\";\nlevel = -23.0;\n"},
    {"preset = \"strong\"; floor_db = -3", "preset = \"strong\"", "preset", "balanced", "preset = \"balanced\";\n"},
    {"", "preset = \"natural\"", "low_cut_hz", "90", "preset = \"natural\";\nlow_cut_hz = 90.0;\n"},
    {"", "preset = \"natural\"; low_cut_hz = 90", "gpu", "1", "preset = \"natural\";\nlow_cut_hz = 90.0;\ngpu = 1;\n"},
};

/* Saves to the program's own file, which has precedence; the user's file is not changed. */
START_TEST(one_value_is_saved) {
    struct settings s, again, what;
    struct err err = {0};
    int line;
    put("t.conf", saved[_i].file);
    if (saved[_i].before[0])
        put("t-saved.conf", saved[_i].before);
    load(&s);
    int setting = settings_find(saved[_i].name, NULL);
    settings_set(&s, SETTING_gpu_idle_s, "90", &err); /* is not to be saved */
    ck_assert_msg(settings_set(&s, setting, saved[_i].value, &err) == 0, "%s", err.text);
    ck_assert_int_eq(settings_origin(&s, setting, &line), FROM_NO_FILE);
    ck_assert_msg(settings_save(&what, &s, at("t.conf"), -1, setting, &err) == 0, "%s", err.text);
    ck_assert_str_eq(content(at("t.conf")), saved[_i].file);
    ck_assert_str_eq(saved_text("t-saved.conf"), saved[_i].after);
    load(&again);
    ck_assert(s.gpu_idle_s == 90 && again.gpu_idle_s == 60);
    again.gpu_idle_s = 90;
    assert_same_values(&s, &again);
    settings_note_saved(&s, &what);
    ck_assert_int_eq(settings_origin(&s, setting, &line), FROM_SAVED);
    ck_assert_int_eq(line, again.saved_lines[setting]);
    ck_assert_int_eq(settings_origin(&s, SETTING_gpu_idle_s, &line), FROM_NO_FILE);
}
END_TEST

/* The saved file is beside the settings file, whatever its name; without one, where the user's file would be. */
START_TEST(where_it_is_saved) {
    static const char *const names[][2] = {
        {"t.conf", "t-saved.conf"}, {"t.conf.d", "t.conf.d-saved"}, {".conf", "-saved.conf"}, {"t", "t-saved"}};
    struct settings s, what;
    struct err err = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put(names[i][0], "gpu = 1");
        ck_assert_int_eq(settings_load(&s, at(names[i][0]), &err), 0);
        ck_assert_str_eq(s.saved, "");
        ck_assert_int_eq(settings_save(&what, &s, at(names[i][0]), -1, SETTING_gpu, &err), 0);
        ck_assert_str_eq(saved_text(names[i][1]), "gpu = 1;\n");
        ck_assert_int_eq(settings_load(&s, at(names[i][0]), &err), 0);
        ck_assert_str_eq(s.saved, at(names[i][1]));
    }
    unlink(SYSCONFDIR "/primeknet/primeknet.conf");
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    settings_set(&s, SETTING_gpu, "2", &err);
    ck_assert_int_eq(settings_save(&what, &s, NULL, -1, SETTING_gpu, &err), 0);
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert_str_eq(s.gpu, "2");
    ck_assert_str_eq(s.file, "");
    ck_assert_str_eq(s.saved, at(".config/primeknet/primeknet-saved.conf"));
    ck_assert_int_lt(access(at(".config/primeknet/primeknet.conf"), F_OK), 0);

    /* upon the system's, which is not the user's to change */
    ck_assert_int_eq(system("mkdir -p '" SYSCONFDIR "/primeknet'"), 0);
    put_content(SYSCONFDIR "/primeknet/primeknet.conf", "gpu = 4; strength = 0.5");
    ck_assert_int_eq(settings_load(&s, NULL, &err), 0);
    ck_assert(strcmp(s.gpu, "2") == 0 && s.strength == 0.5);
    ck_assert_uint_eq(s.n_hidden, 0);
    unlink(SYSCONFDIR "/primeknet/primeknet.conf");
    unsetenv("HOME");
    ck_assert_int_lt(settings_save(&what, &s, NULL, -1, SETTING_gpu, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "neither XDG_CONFIG_HOME nor HOME"));
}
END_TEST

/* Which line is in force, and which of the user's lines is overridden. */
/* clang-format off */
static const struct {
    const char *file, *saved;
    int lines[4]; /* of preset, strength, floor_db and low_cut_hz: in the saved file, negative in the other */
    const char *hidden;
} origins[] = {
    {"", "", {0}, ""},
    {"strength = 0.5", "", {0, -1, 0, 0}, ""},
    {"strength = 0.5", "\nstrength = 0.25", {0, 2, 0, 0}, "strength 1 2;"},
    {"strength = 0.5", "strength = 0.5", {0, 1, 0, 0}, ""},
    {"preset = \"strong\"", "\nstrength = 0.5", {0, 2, -1, -1}, ""},
    {"preset = \"strong\"", "preset = \"strong\"", {1, 1, 1, 1}, ""},
    {"\nfloor_db = -3\npreset = \"strong\"", "preset = \"natural\"\nlow_cut_hz = 70", {1, 1, 1, 2},
     "preset 3 1;floor_db 2 1;"},
    {"preset = \"strong\"", "strength = 0.5\nfloor_db = -3\nlow_cut_hz = 90", {0, 1, 2, 3}, "preset 1 3;"},
    {"profiles = ( { microphone = \"a\"; strength = 1 },\n{ microphone = \"b\" } )",
     "\nprofiles = ( { microphone = \"a\" } )", {0}, "profile 1 2;"},
};
/* clang-format on */

START_TEST(the_origin_of_each_value_is_known) {
    struct settings s;
    char hidden[256] = "";
    put("t.conf", origins[_i].file);
    put("t-saved.conf", origins[_i].saved);
    load(&s);
    for (int i = 0; i < 4; i++) {
        int line;
        const enum origin from = settings_origin(&s, i, &line);
        ck_assert_msg((from == FROM_FILE ? -line : line) == origins[_i].lines[i], "%s: %d:%d", settings_name(i), from,
                      line);
    }
    for (unsigned i = 0; i < s.n_hidden; i++)
        snprintf(hidden + strlen(hidden), sizeof hidden - strlen(hidden), "%s %d %d;",
                 s.hidden[i].setting < 0 ? "profile" : settings_name(s.hidden[i].setting), s.hidden[i].line,
                 s.hidden[i].saved_line);
    ck_assert_str_eq(hidden, origins[_i].hidden);
}
END_TEST

/* Without its saved value, a setting has the file's value, or the default. */
START_TEST(one_value_is_unset) {
    static const struct {
        const char *file, *before, *name, *after, *value;
    } cases[] = {
        {"strength = 0.5", "strength = 0.25; gpu = 1", "strength", "gpu = 1;\n", "0.5"},
        {"", "gpu = 1", "gpu", "", "0"},
        {"low_cut_hz = 90", "preset = \"natural\"; strength = 0.25", "preset", "", "custom"},
        {"preset = \"strong\"", "floor_db = -3", "preset", "", "strong"},
        {"preset = \"strong\"", "preset = \"natural\"; low_cut_hz = 90", "low_cut_hz", "preset = \"natural\";\n",
         "70.0"},
    };
    struct settings s, below, what;
    struct err err = {0};
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int setting = settings_find(cases[i].name, NULL);
        put("t.conf", cases[i].file);
        put("t-saved.conf", cases[i].before);
        load(&s);
        settings_set(&s, setting, setting == SETTING_preset ? "balanced" : "0", &err);
        ck_assert_msg(settings_load_without(&below, at("t.conf"), setting, &err) == 0, "%s", err.text);
        ck_assert_str_eq(content(at("t-saved.conf")), cases[i].before);
        settings_take(&s, &below, setting);
        settings_text(&s, setting, text, sizeof text);
        ck_assert_str_eq(text, cases[i].value);
        ck_assert_msg(settings_unsave(&what, at("t.conf"), setting, &err) == 0, "%s", err.text);
        ck_assert_str_eq(saved_text("t-saved.conf"), cases[i].after);
        load(&below);
        settings_note_saved(&s, &what);
        assert_same_values(&s, &below);
        ck_assert_mem_eq(s.saved_lines, below.saved_lines, sizeof s.saved_lines);
        ck_assert_uint_eq(s.live, 0);
        ck_assert_int_eq(settings_load_without(&below, at("t.conf"), setting, &err), -ENOENT);
    }
    put("t-saved.conf", "preset = \"natural\"");
    ck_assert_int_eq(settings_load_without(&below, at("t.conf"), SETTING_strength, &err), -ENOENT);
    ck_assert_str_eq(err.text, "strength is not saved, but the preset is");
}
END_TEST

/* The settings of a preset override its values, in any order; the result has the name of the preset that it equals. */
static const struct {
    const char *text;
    double strength, floor_db, low_cut_hz;
    const char *preset;
} combined[] = {
    {"", 1, -INFINITY, 70, "balanced"},
    {"preset = \"natural\"", 0.8, -18, 70, "natural"},
    {"preset = \"Natural\"; floor_db = \"OFF\"; strength = 1", 1, -INFINITY, 70, "balanced"},
    {"preset = \"strong\"", 1, -INFINITY, 100, "strong"},
    {"low_cut_hz = 90\npreset = \"natural\"", 0.8, -18, 90, "custom"},
    {"preset = \"natural\"\nlow_cut_hz = 90", 0.8, -18, 90, "custom"},
    {"preset = \"natural\"; strength = 1; floor_db = \"off\"", 1, -INFINITY, 70, "balanced"},
    {"strength = 0.8; floor_db = -18", 0.8, -18, 70, "natural"},
};

START_TEST(presets_and_values) {
    struct settings s;
    struct err err = {0};
    ck_assert_msg(parse(&s, combined[_i].text, &err) == 0, "%s", err.text);
    ck_assert(s.strength == combined[_i].strength && s.floor_db == combined[_i].floor_db);
    ck_assert(s.low_cut_hz == combined[_i].low_cut_hz);
    ck_assert_str_eq(s.preset, combined[_i].preset);
}
END_TEST

START_TEST(presets_are_named_where_they_are_refused) {
    const struct preset *p, *usual = preset_find(PRESET_DEFAULT);
    struct settings none;
    struct err err;
    ck_assert_int_eq(parse(&none, "", &err), 0);
    ck_assert_str_eq(none.preset, PRESET_DEFAULT);
    ck_assert(usual->strength == none.strength && usual->floor_db == none.floor_db);
    ck_assert(usual->low_cut_hz == none.low_cut_hz);
    for (unsigned i = 0; (p = preset_nth(i)); i++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\"", p->name);
        ck_assert_ptr_nonnull(strstr(settings_allowed(SETTING_preset), quoted));
    }
    ck_assert_ptr_null(preset_find(PRESET_NONE));
}
END_TEST

/* A preset is saved in the active profile, for those of its settings that the profile contains. */
START_TEST(a_preset_is_set_and_saved_where_its_values_come_from) {
    static const struct {
        const char *file, *saved;
    } cases[] = {
        {"preset = \"strong\";\nprofiles = ( { microphone = \"A\"; model = \"base\"; } );\n",
         "preset = \"natural\";\n"},
        {"strength = 1;\nprofiles = ( { microphone = \"A\"; strength = 0.5; } );\n",
         "floor_db = -18.0;\nlow_cut_hz = 70.0;\n"
         "profiles = (\n    {\n        microphone = \"A\";\n        strength = 0.8;\n    }\n);\n"},
        {"profiles = ( { microphone = \"A\"; low_cut_hz = 90; floor_db = -3; strength = 1; } );\n",
         "profiles = (\n    {\n        microphone = \"A\";\n        strength = 0.8;\n        floor_db = -18.0;\n"
         "        low_cut_hz = 70.0;\n    }\n);\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct settings s, used, again;
        struct err err = {0};
        put("t.conf", cases[i].file);
        unlink(at("t-saved.conf"));
        load(&s);
        ck_assert_int_lt(settings_set_in(&s, 0, SETTING_preset, "loud", &err), 0);
        ck_assert_int_eq(settings_set_in(&s, 0, SETTING_preset, "natural", &err), 0);
        used = s;
        settings_use_profile(&used, 0);
        ck_assert_str_eq(used.preset, "natural");
        ck_assert_msg(save(&s, 0, SETTING_preset, &err) == 0, "%s", err.text);
        ck_assert_str_eq(saved_text("t-saved.conf"), cases[i].saved);
        load(&again);
        assert_same_values(&s, &again);
        settings_use_profile(&again, 0);
        assert_same_values(&used, &again);
    }
}
END_TEST

START_TEST(profiles) {
    static const char file[] =
        "strength = 1; profiles = ( { microphone = \"a\"; floor_db = \"off\"; low_cut_hz = 12.5 },\n"
        "{ /* b */ model = \"base\", microphone = \"b \\\"c\\\"\", strength = 0.75 } )\nfloor_db = -20 # d";
    struct settings s, again;
    struct err err = {0};
    int line;
    put("t.conf", file);
    load(&s);
    ck_assert_uint_eq(s.n_profiles, 2);
    ck_assert_int_eq(s.profiles[1].line, 2);
    ck_assert_str_eq(s.profiles[1].microphone, "b \"c\"");
    again = s;
    settings_use_profile(&again, 0);
    ck_assert(again.strength == 1 && again.floor_db == -INFINITY && again.low_cut_hz == 12.5);
    ck_assert_str_eq(again.model, s.model);

    /* each value goes where it comes from, alone */
    ck_assert_int_eq(settings_set_in(&s, 1, SETTING_model, "large", &err), 0);
    ck_assert_int_eq(settings_set_in(&s, 1, SETTING_strength, "0.5", &err), 0);
    ck_assert_int_eq(settings_set_in(&s, 1, SETTING_floor_db, "-10", &err), 0);
    ck_assert_int_lt(settings_set_in(&s, 1, SETTING_model, "a/b", &err), 0);
    ck_assert(s.strength == 1 && s.floor_db == -10);
    ck_assert_int_eq(save(&s, 1, SETTING_model, &err), 0);
    ck_assert_int_eq(save(&s, 1, SETTING_floor_db, &err), 0);
    ck_assert_str_eq(saved_text("t-saved.conf"),
                     "floor_db = -10.0;\nprofiles = (\n    {\n        microphone = \"b \\\"c\\\"\";\n"
                     "        strength = 0.75;\n        model = \"large\";\n    }\n);\n");
    ck_assert_str_eq(content(at("t.conf")), file);
    load(&again);
    ck_assert_uint_eq(again.n_profiles, 2);
    ck_assert_str_eq(again.profiles[1].model, "large");
    settings_use_profile(&again, 1);
    ck_assert_int_eq(settings_origin(&again, SETTING_model, &line), FROM_SAVED);
    ck_assert_int_eq(line, again.profiles[1].line);
    ck_assert_int_eq(settings_origin(&again, SETTING_low_cut_hz, &line), FROM_DEFAULT);
    ck_assert_uint_eq(again.in_profile, 1u << SETTING_model | 1u << SETTING_strength);

    /* all settings, as they are */
    ck_assert_int_eq(settings_write(&s, at("copy.conf"), &err), 0);
    ck_assert_msg(settings_read(&again, at("copy.conf"), &err) == 0, "%s", err.text);
    assert_same_values(&s, &again);
    ck_assert_uint_eq(again.n_profiles, 2);
    for (unsigned i = 0; i < 2; i++) {
        again.profiles[i].line = s.profiles[i].line;
        again.profiles[i].live = s.profiles[i].live;
        ck_assert_mem_eq(&again.profiles[i], &s.profiles[i], sizeof s.profiles[i]);
    }

    /* which are not written again */
    struct stat once, twice;
    ck_assert_int_eq(stat(at("copy.conf"), &once), 0);
    ck_assert_int_eq(settings_write(&s, at("copy.conf"), &err), 0);
    ck_assert_int_eq(stat(at("copy.conf"), &twice), 0);
    ck_assert_uint_eq(once.st_ino, twice.st_ino);

    char many[1024] = "profiles = (\n";
    for (int i = 0; i <= MAX_PROFILES; i++)
        strcat(many, i ? ", { microphone = \"a\" }\n" : "{ microphone = \"a\" }\n");
    strcat(many, ")");
    assert_refused(many, strlen(many), MAX_PROFILES + 2, "more than 8 profiles");
}
END_TEST

static void save_profile(const struct settings *s, const char *microphone) {
    struct settings what;
    struct err err = {0};
    ck_assert_msg(settings_save_profile(&what, s, at("t.conf"), microphone, &err) == 0, "%s", err.text);
}

/* Removing a profile of the user's file saves an empty one, which hides it; removing any other one saves nothing. */
START_TEST(a_profile_is_added_and_removed) {
    static const char own[] = "profiles = (\n    {\n        microphone = \"a\";\n        strength = 0.5;\n"
                              "        floor_db = \"off\";\n        low_cut_hz = 70.0;\n        model = \"auto\";\n"
                              "    }\n);\n",
                      none[] = "profiles = (\n    {\n        microphone = \"a\";\n    }\n);\n";
    struct settings s;
    struct err err = {0};
    for (int there = 0; there < 2; there++) {
        put("t.conf",
            there ? "profiles = ( { microphone = \"a\"; model = \"base\" }, { microphone = \"b\" } );" : "# mine");
        unlink(at("t-saved.conf"));
        load(&s);
        while (s.n_profiles)
            settings_remove_profile(&s, 0);
        ck_assert_int_eq(settings_set(&s, SETTING_strength, "0.5", &err), 0); /* not saved elsewhere */
        ck_assert_int_eq(settings_add_profile(&s, "a", &err), 0);
        save_profile(&s, "a");
        ck_assert_str_eq(saved_text("t-saved.conf"), own);
        load(&s);
        ck_assert_uint_eq(s.n_profiles, there ? 2 : 1);
        ck_assert_str_eq(s.profiles[s.n_profiles - 1].strength, "0.5");
        ck_assert(s.strength == 1);
        settings_remove_profile(&s, s.n_profiles - 1);
        save_profile(&s, "a");
        ck_assert_str_eq(saved_text("t-saved.conf"), there ? none : "");
        load(&s);
        ck_assert_uint_eq(s.n_profiles, there);
    }
    put("t.conf", "# no more"); /* nothing is left to take away */
    save_profile(&s, "c");
    ck_assert_str_eq(saved_text("t-saved.conf"), "");
    put("t.conf", "profiles = ("); /* it may be there */
    save_profile(&s, "a");
    ck_assert_str_eq(saved_text("t-saved.conf"), none);
}
END_TEST

/* The profiles of both files count together. */
START_TEST(too_many_profiles) {
    struct settings s, what;
    struct err err = {0};
    char many[1024] = "profiles = (";
    for (int i = 0; i < MAX_PROFILES; i++)
        sprintf(many + strlen(many), "%s{ microphone = \"%d\"; strength = 1 }", i ? "," : "", i);
    strcat(many, ")");
    put("t.conf", many);
    put("t-saved.conf", "\nprofiles = ( { microphone = \"0\"; strength = 0.5 } )"); /* instead of one of them */
    load(&s);
    ck_assert_uint_eq(s.n_profiles, MAX_PROFILES);
    put("t-saved.conf", "\nprofiles = ( { microphone = \"9\"; strength = 0.5 } )");
    ck_assert_int_lt(settings_load(&what, at("t.conf"), &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "t-saved.conf:2: with those of "));
    put("t-saved.conf", many);
    strcpy(s.profiles[0].microphone, "9");
    ck_assert_int_eq(settings_save_profile(&what, &s, at("t.conf"), "9", &err), -ENOSPC);
    ck_assert_str_eq(content(at("t-saved.conf")), many);
}
END_TEST

/* Symbolic links and permissions stay. A file that has become invalid is left for the user to fix. */
START_TEST(the_saved_file_is_a_file_like_others) {
    struct settings s;
    struct err err = {0};
    struct stat st;
    put("t.conf", "gpu = 1;\n");
    put("dotfiles/p.conf", "strength = 0.5;\n");
    ck_assert_int_eq(chmod(at("dotfiles/p.conf"), 0640), 0);
    ck_assert_int_eq(symlink("dotfiles/p.conf", at("t-saved.conf")), 0);
    load(&s);
    ck_assert_msg(save(&s, -1, SETTING_gpu, &err) == 0, "%s", err.text);
    ck_assert_str_eq(saved_text("dotfiles/p.conf"), "strength = 0.5;\ngpu = 1;\n");
    ck_assert_int_eq(lstat(at("t-saved.conf"), &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(stat(at("dotfiles/p.conf"), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0640);

    put("t.conf", "gpu = ;\n");
    settings_set(&s, SETTING_gpu, "2", &err);
    ck_assert_msg(save(&s, -1, SETTING_gpu, &err) == 0, "%s", err.text);
    ck_assert_str_eq(saved_text("dotfiles/p.conf"), "strength = 0.5;\ngpu = 2;\n");
    ck_assert_str_eq(content(at("t.conf")), "gpu = ;\n");

    put("t.conf", "gpu = 1;\n");
    put("dotfiles/p.conf", "\ngpu = ;\n");
    ck_assert_int_lt(save(&s, -1, SETTING_gpu, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "/t-saved.conf:2: syntax error"));
    ck_assert_str_eq(content(at("dotfiles/p.conf")), "\ngpu = ;\n");
    strcpy(s.gpu, "3");
    ck_assert_int_lt(settings_load(&s, at("t.conf"), &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "/t-saved.conf:2: syntax error"));
    ck_assert_str_eq(s.saved, at("t-saved.conf"));
    ck_assert_str_eq(s.file, at("t.conf"));
    ck_assert_str_eq(s.gpu, "3");

    ck_assert_int_eq(unlink(at("t-saved.conf")), 0);
    ck_assert_int_eq(mkdir(at("t-saved.conf"), 0700), 0);
    ck_assert_int_lt(settings_load(&s, at("t.conf"), &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "t-saved.conf: is a folder"));
    ck_assert_int_lt(save(&s, -1, SETTING_gpu, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "t-saved.conf: is a folder"));
}
END_TEST

START_TEST(shipped_file_is_the_defaults) {
    struct settings shipped, none;
    struct err err = {0};
    ck_assert_int_eq(parse(&none, "", &err), 0);
    ck_assert_msg(settings_load(&shipped, SHIPPED, &err) == 0, "%s", err.text);
    assert_same_values(&shipped, &none);
    for (int i = 0; i < N_SETTINGS; i++) /* those of the preset would replace another preset: they stand as comments */
        ck_assert_msg((shipped.lines[i] > 0) == (i < SETTING_strength || i > SETTING_low_cut_hz),
                      "etc/primeknet.conf.in sets %s: %d", settings_name(i), shipped.lines[i] > 0);
    const char *text = content(SHIPPED);
    ck_assert(strstr(text, "\n# strength = 1\n") && strstr(text, "\n# floor_db = \"off\"\n") &&
              strstr(text, "\n# low_cut_hz = 70\n"));
}
END_TEST

START_TEST(manual_names_every_setting_and_default) {
    const char *text = content(SRCDIR "/man/primeknet.conf.5.in");
    for (int i = 0; i < N_SETTINGS; i++) {
        char item[64];
        snprintf(item, sizeof item, ".It Ic %s", settings_name(i));
        ck_assert_msg(strstr(text, item), "man/primeknet.conf.5.in lacks '%s'", item);
        snprintf(item, sizeof item, "@default_%s@", settings_name(i));
        ck_assert_msg(strstr(text, item), "man/primeknet.conf.5.in lacks '%s'", item);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("settings");
    TCase *text = tcase_create("text"), *files = tcase_create("files");
    tcase_add_test(text, empty_is_defaults);
    tcase_add_test(text, values_arrive);
    tcase_add_test(text, more_microphones);
    tcase_add_test(text, bounds_of_every_row);
    tcase_add_loop_test(text, a_file_takes_what_people_type, 0, sizeof as_typed / sizeof *as_typed);
    tcase_add_test(text, a_file_takes_a_level_without_quotation_marks);
    tcase_add_test(text, a_file_of_an_earlier_version_says_what_auto_means);
    tcase_add_test(text, channels);
    tcase_add_test(text, spellings);
    tcase_add_test(text, length_of_text);
    tcase_add_loop_test(text, presets_and_values, 0, sizeof combined / sizeof combined[0]);
    tcase_add_test(text, presets_are_named_where_they_are_refused);
    tcase_add_loop_test(text, garbage_is_refused, 0, sizeof garbage / sizeof garbage[0]);
    tcase_add_test(text, nul_is_refused);
    tcase_add_test(text, settings_in_comments_and_strings_are_ignored);
    tcase_add_test(text, depth_is_harmless);
    tcase_add_test(text, random_bytes);
    tcase_set_timeout(text, 60);
    tcase_add_checked_fixture(files, make_home, remove_home);
    tcase_add_test(files, locale_is_ignored);
    tcase_set_timeout(files, 60);
    tcase_add_test(files, search_order);
    tcase_add_test(files, system_file_and_none);
    tcase_add_test(files, only_regular_files_are_read);
    tcase_add_test(text, set_accepts_the_values_of_a_file);
    tcase_add_test(text, set_ignores_the_case_of_words);
    tcase_add_test(text, set_finds_names_without_their_units);
    tcase_add_loop_test(files, one_value_is_saved, 0, sizeof saved / sizeof saved[0]);
    tcase_add_test(files, where_it_is_saved);
    tcase_add_loop_test(files, the_origin_of_each_value_is_known, 0, sizeof origins / sizeof origins[0]);
    tcase_add_test(files, one_value_is_unset);
    tcase_add_test(files, a_preset_is_set_and_saved_where_its_values_come_from);
    tcase_add_test(files, profiles);
    tcase_add_test(files, a_profile_is_added_and_removed);
    tcase_add_test(files, too_many_profiles);
    tcase_add_test(files, the_saved_file_is_a_file_like_others);
    tcase_add_test(files, shipped_file_is_the_defaults);
    tcase_add_test(files, manual_names_every_setting_and_default);
    suite_add_tcase(suite, text);
    suite_add_tcase(suite, files);
    return run_suite(suite, CK_FORK);
}
