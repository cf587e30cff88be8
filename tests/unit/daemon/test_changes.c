/* Changes of settings (changes.h). The test decides when an engine has been loaded, the nodes only record calls, and
 * some tests use a control socket. */
#include "config.h"

#include "base/errands.h"
#include "daemon/changes.h"
#include "control/client.h"
#include "control/server.h"
#include "tests/support/content.h"
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- what is around --------------------------------------------------------------------------------------------- */

static char home[] = "/tmp/primeknet-changes-XXXXXX";
static struct changes *changes;
static struct errands *errands; /* NULL: files are written at once */
static const struct in_force *now;

/* One line per action or answer since the last NOTES. */
static char notes[4096];

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...) {
    size_t n = strlen(notes);
    va_list args;
    va_start(args, format);
    vsnprintf(notes + n, sizeof notes - n, format, args);
    va_end(args);
    strcat(notes, "\n");
}

static void assert_notes(const char *expected, int line) {
    ck_assert_msg(strcmp(notes, expected) == 0, "line %d: notes are\n%snot\n%s", line, notes, expected);
    notes[0] = '\0';
}
#define NOTES(expected) assert_notes(expected, __LINE__)

static unsigned room = 1; /* signals that the engine takes */
static int open_fails, apply_fails;
static bool says; /* log lines are recorded, too */

static int open_all(void *data, const struct settings *s, struct err *err) {
    ck_assert_ptr_eq(data, home);
    note("open %s", s->model);
    if (open_fails && strcmp(s->model, "broken") == 0)
        return settings_refuse(s, SETTING_model, open_fails, "it is broken", err);
    return 0;
}

static bool has_room(void *data, const struct settings *s) {
    ck_assert_ptr_eq(data, home);
    return settings_streams(s) <= room;
}

static void load(void *data, const struct settings *s) {
    ck_assert_ptr_eq(data, home);
    note("load %s", s ? s->model : "nothing");
}

static int apply(void *data, const struct settings *before, const struct settings *next, const struct ready_engine *e,
                 struct err *err) {
    ck_assert_ptr_eq(data, home);
    ck_assert_ptr_eq(before, &now->settings);
    ck_assert(e || strcmp(before->model, next->model) == 0);
    return apply_fails ? settings_refuse(next, SETTING_channel, apply_fails, "there is none", err) : 0;
}

static void follow(void *data) {
    ck_assert_ptr_eq(data, home);
    struct settings defaults;
    char strength[32] = "";
    ck_assert_int_eq(settings_parse(&defaults, "", 0, "", NULL), 0);
    if (now->settings.strength != defaults.strength)
        snprintf(strength, sizeof strength, ", %g", now->settings.strength);
    note("%s%s%s", now->settings.model, strength, now->bypass ? ", bypassed" : "");
}

static void say(const char *priority, const char *format, ...) {
    char line[1024];
    va_list args;
    (void)priority;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (says)
        note("%s", line);
}

static const char *code; /* the last answer's code; "": no refusal, or no code */

static void answer(void *data, const struct request *r, int res, const struct err *err) {
    code = res && err->about.code ? err->about.code : "";
    note("%s %u: %s", (const char *)data, r->client, res ? err->text : "done");
}

static const char *at(const char *name) {
    static char path[2][256];
    static unsigned turn;
    char *p = path[turn++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", home, name);
    return p;
}

/* Returns the saved file's text below its head of comments. */
static const char *saved(void) {
    const char *text = content(at("config/primeknet/primeknet-saved.conf"));
    while (*text == '#')
        text = strchr(text, '\n') + 1;
    return text;
}

static void put_file(const char *text) {
    put_content(at("config/primeknet/primeknet.conf"), text);
}

static int open_changes(void) {
    struct err err = {0};
    int res = changes_open(&changes,
                           &(struct changes_options){.errands = errands,
                                                     .open = open_all,
                                                     .has_room = has_room,
                                                     .load = load,
                                                     .apply = apply,
                                                     .follow = follow,
                                                     .say = say,
                                                     .data = home},
                           &err);
    now = res ? NULL : changes_now(changes);
    return res;
}

static void start(void) {
    ck_assert_int_eq(open_changes(), 0);
    NOTES("open small\n");
}

static void end(void) {
    changes_close(changes);
    changes = NULL;
}

static void set_up(void) {
    char command[256];
    strcpy(home + strlen(home) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    snprintf(command, sizeof command, "mkdir -p '%s/config/primeknet'", home);
    ck_assert_int_eq(system(command), 0);
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    setenv("XDG_STATE_HOME", at("state"), 1);
    setenv("XDG_RUNTIME_DIR", home, 1);
    put_file("model = \"small\"\n");
    notes[0] = '\0';
    room = 1;
    open_fails = apply_fails = 0;
    says = false;
}

static void tear_down(void) {
    char command[256];
    end();
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    ck_assert_int_eq(system(command), 0);
}

/* ---- who asks ---------------------------------------------------------------------------------------------------- */

static struct request client_sets(unsigned client, int setting, const char *value) {
    return (struct request){.what = REQUEST_SET,
                            .setting = setting,
                            .value = value,
                            .until = 1000,
                            .answer = answer,
                            .data = "client",
                            .client = client};
}

static void ask(unsigned client, int setting, const char *value) {
    struct request r = client_sets(client, setting, value);
    changes_ask(changes, &r);
}

static void ask_to_save(unsigned client, int setting, const char *value) {
    struct request r = client_sets(client, setting, value);
    r.save = true;
    changes_ask(changes, &r);
}

static void unset(unsigned client, int setting) {
    changes_ask(changes, &(struct request){.what = REQUEST_UNSET,
                                           .setting = setting,
                                           .until = 1000,
                                           .answer = answer,
                                           .data = "client",
                                           .client = client});
}

static enum origin origin(int setting) {
    int line;
    return settings_origin(&now->settings, setting, &line);
}

static void hang_up_signal(unsigned number) {
    changes_ask(
        changes,
        &(struct request){.what = REQUEST_RELOAD, .until = 1000, .answer = answer, .data = "reload", .client = number});
}

static void set_props(float strength) {
    changes_ask_controls(changes, strength, now->bypass);
}

static void bypass(int how) {
    changes_ask(changes, &(struct request){.what = REQUEST_BYPASS, .bypass = how, .answer = answer, .data = "bypass"});
}

static void loaded(int res, const char *why) {
    struct err err = {0};
    if (res)
        err_set(&err, res, "%s", why);
    changes_loaded(changes, res, (const struct ready_engine *)home, &err); /* any address: it is never read */
}

/* ---- one at a time ----------------------------------------------------------------------------------------------- */

START_TEST(requests_that_take_effect_at_once) {
    start();
    ask(1, SETTING_strength, "0.5");
    NOTES("small, 0.5\nclient 1: done\n");
    set_props(0.25f);
    NOTES("small, 0.25\n");
    bypass(BYPASS_TOGGLE);
    bypass(BYPASS_ON);
    NOTES("small, 0.25, bypassed\nbypass 0: done\nsmall, 0.25, bypassed\nbypass 0: done\n");
    bypass(BYPASS_TOGGLE);
    bypass(BYPASS_OFF);
    NOTES("small, 0.25\nbypass 0: done\nsmall, 0.25\nbypass 0: done\n");
    changes_ask_controls(changes, 0.7f, true);
    NOTES("small, 0.7\nsmall, 0.7, bypassed\n");
    ck_assert(now->settings.strength == 0.7);  /* not the float next to it */
    changes_ask_controls(changes, 0.7f, true); /* nothing new */
    NOTES("");
    changes_ask_controls(changes, 2, false); /* one is refused, the other is not */
    NOTES("small, 0.7\n");
    put_file("model = \"small\"; strength = 0.75");
    hang_up_signal(1);
    NOTES("small, 0.75\nreload 1: done\n");
}
END_TEST

/* All ways to set a value have the same bounds, and keep the last good value. */
START_TEST(invalid_values_are_refused) {
    start();
    ask(1, SETTING_strength, "1.5");
    NOTES("client 1: strength must be a number from 0 to 1\n");
    ck_assert_str_eq(code, CODE_BAD_VALUE);
    static const float wrong[] = {1.0001f, -0.1f, NAN, INFINITY, -INFINITY, 1e30f};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        set_props(wrong[i]);
    NOTES("");
    put_file("model = \"small\"; strength = 1.5");
    hang_up_signal(1);
    char text[512];
    snprintf(text, sizeof text, "reload 1: %s:1: strength must be a number from 0 to 1\n",
             at("config/primeknet/primeknet.conf"));
    NOTES(text);
    ck_assert_ptr_nonnull(strstr(now->refused.text, ":1: strength must be"));
    ck_assert_str_eq(now->refused.about.code, CODE_BAD_VALUE);
    ck_assert_str_eq(now->refused.about.setting, "strength");
    ck_assert_int_eq(now->refused.about.line, 1);
    ck_assert_str_eq(now->instead, "those from before");
    put_file("strenght = 0.5"); /* not taken for a file that is missing */
    hang_up_signal(3);
    ck_assert_ptr_nonnull(strstr(notes, ":1: there is no setting \"strenght\"; did you mean strength?\n"));
    ck_assert_str_eq(now->refused.about.code, CODE_UNKNOWN_SETTING);
    notes[0] = '\0';
    apply_fails = -EINVAL;
    ask(2, SETTING_channel, "FL");
    NOTES("client 2: channel: there is none\n");
    ck_assert_str_eq(code, CODE_UNUSABLE);
    ck_assert_str_eq(now->settings.channel, "mix");
    put_file("model = \"small\"");
    apply_fails = 0;
    hang_up_signal(2);
    NOTES("small\nreload 2: done\n");
    ck_assert_str_eq(now->refused.text, "");
}
END_TEST

START_TEST(saved_and_remembered) {
    start();
    ask_to_save(1, SETTING_strength, "0.5");
    NOTES("small, 0.5\nclient 1: done\n");
    ck_assert_str_eq(saved(), "strength = 0.5;\n");
    ck_assert_str_eq(content(at("config/primeknet/primeknet.conf")), "model = \"small\"\n");
    ck_assert_str_eq(now->settings.saved, at("config/primeknet/primeknet-saved.conf"));
    ck_assert_ptr_nonnull(strstr(content(at("state/primeknet/settings")), "strength = 0.5;"));
    ask(2, SETTING_strength, "0.25"); /* not saved */
    ck_assert_str_eq(saved(), "strength = 0.5;\n");
    ck_assert_int_eq(origin(SETTING_strength), FROM_NO_FILE);
    notes[0] = '\0';
    put_file("model = ;"); /* it is the user's to mend */
    ask_to_save(3, SETTING_strength, "0.75");
    NOTES("small, 0.75\nclient 3: done\n");
    ck_assert_str_eq(saved(), "strength = 0.75;\n");
    ck_assert_int_eq(origin(SETTING_strength), FROM_SAVED);
    ck_assert_str_eq(content(at("config/primeknet/primeknet.conf")), "model = ;");
    put_content(at("config/primeknet/primeknet-saved.conf"), "model = ;"); /* in force nevertheless */
    ask_to_save(4, SETTING_strength, "0.5");
    ck_assert_ptr_nonnull(strstr(notes, "small, 0.5\nclient 4: strength is now 0.5, but not saved: "));
    ck_assert_ptr_nonnull(strstr(notes, "primeknet-saved.conf:1: syntax error"));
    ck_assert_str_eq(saved(), "model = ;");
    ck_assert_int_eq(origin(SETTING_strength), FROM_NO_FILE);
}
END_TEST

/* Each reload reports a user's line that a saved value overrides; once that value is gone, the line takes effect
 * again. */
START_TEST(saved_and_unset) {
    char text[1024];
    start();
    ask_to_save(1, SETTING_strength, "0.5");
    ask_to_save(2, SETTING_model, "small");
    put_file("model = \"small\"\nstrength = 0.75");
    says = true;
    hang_up_signal(1);
    says = false;
    snprintf(text, sizeof text,
             "small, 0.5\nclient 1: done\nsmall, 0.5\nclient 2: done\nsmall, 0.5\n"
             "settings reloaded: %s/primeknet.conf, %s/primeknet-saved.conf\n"
             "%s/primeknet.conf:2: strength has no effect, because %s/primeknet-saved.conf:6 overrides it\n"
             "reload 1: done\n",
             at("config/primeknet"), at("config/primeknet"), at("config/primeknet"), at("config/primeknet"));
    NOTES(text);
    ask(3, SETTING_floor_db, "-20"); /* which stays */
    unset(4, SETTING_strength);
    NOTES("small, 0.5\nclient 3: done\nsmall, 0.75\nclient 4: done\n");
    ck_assert_str_eq(saved(), "model = \"small\";\n");
    ck_assert_int_eq(origin(SETTING_strength), FROM_FILE);
    ck_assert(now->settings.floor_db == -20);
    ck_assert_ptr_nonnull(strstr(content(at("state/primeknet/settings")), "strength = 0.75;"));
    unset(5, SETTING_strength);
    NOTES("client 5: strength is not saved\n");
    put_file("model = \"base\"");
    unset(6, SETTING_model);
    NOTES("load base\n");
    loaded(-EIO, "broken"); /* refused, so it changes nothing */
    NOTES("client 6: broken\n");
    ck_assert_str_eq(saved(), "model = \"small\";\n");
    unset(7, SETTING_model);
    ask_to_save(8, SETTING_strength, "0.25");
    loaded(0, NULL);
    NOTES("load base\nsmall, 0.25\nclient 8: done\nbase, 0.25\nclient 7: done\n");
    ck_assert_str_eq(saved(), "strength = 0.25;\n");
    put_file("model = ");
    unset(9, SETTING_strength);
    ck_assert_ptr_nonnull(strstr(notes, "client 9: "));
    ck_assert_ptr_nonnull(strstr(notes, "primeknet.conf:1: syntax error"));
    ck_assert_str_eq(saved(), "strength = 0.25;\n");
}
END_TEST

/* A reload in the meantime still reads the saved value, so it must not answer the pending unset. */
START_TEST(a_reload_does_not_answer_a_pending_unset) {
    put_content(at("config/primeknet/primeknet-saved.conf"), "model = \"small\"; strength = 0.5;");
    put_file("model = \"base\"");
    ck_assert_int_eq(open_changes(), 0);
    NOTES("open small\n");
    unset(1, SETTING_model);
    NOTES("load base\n");
    hang_up_signal(1);
    NOTES("load nothing\nsmall, 0.5\nreload 1: done\nload base\n");
    ck_assert_str_eq(saved(), "model = \"small\"; strength = 0.5;");
    put_file("model = \"large\"; floor_db = -20");
    hang_up_signal(2); /* of the file's own model */
    NOTES("load nothing\nsmall, 0.5\nreload 2: done\nload large\n");
    unset(2, SETTING_strength);
    NOTES("small\nclient 2: done\n");
    put_file("model = ;"); /* refused, so that both go on */
    hang_up_signal(3);
    ck_assert_ptr_nonnull(strstr(notes, "reload 3: "));
    notes[0] = '\0';
    loaded(0, NULL);
    NOTES("large\nclient 1: done\n");
    ck_assert_str_eq(now->settings.model, "large");
    ck_assert_str_eq(saved(), "");
    put_file("model = \"large\"");
    hang_up_signal(4);
    NOTES("large\nreload 4: done\n");
}
END_TEST

/* Without a file, and while an engine is being loaded. */
START_TEST(saved_while_one_loads) {
    ck_assert_int_eq(unlink(at("config/primeknet/primeknet.conf")), 0);
    ck_assert_int_eq(open_changes(), 0);
    ck_assert_str_eq(now->settings.file, "");
    ask(1, SETTING_model, "base");
    ask_to_save(2, SETTING_strength, "0.5");
    loaded(0, NULL);
    NOTES("open auto\nload base\nauto, 0.5\nclient 2: done\nbase, 0.5\nclient 1: done\n");
    ck_assert_str_eq(now->settings.file, "");
    ck_assert_str_eq(now->settings.saved, at("config/primeknet/primeknet-saved.conf"));
    ck_assert_str_eq(saved(), "strength = 0.5;\n");
}
END_TEST

/* ---- another engine ---------------------------------------------------------------------------------------------- */

START_TEST(a_request_waits_for_its_engine) {
    start();
    ask(1, SETTING_model, "base");
    NOTES("load base\n");
    ck_assert(now->loading);
    loaded(0, NULL);
    NOTES("base\nclient 1: done\n");
    ck_assert(!now->loading);
    ask(1, SETTING_model, "large");
    loaded(-ENOENT, "there is no such model");
    NOTES("load large\nclient 1: there is no such model\n");
    ck_assert_str_eq(now->settings.model, "base");
    ask(1, SETTING_model, "large");
    apply_fails = -EINVAL;
    loaded(0, NULL);
    NOTES("load large\nclient 1: channel: there is none\n");
    ck_assert_str_eq(now->settings.model, "base");
    ask(1, SETTING_speaker, "default"); /* for which the engine has no room */
    NOTES("load base\n");
    room = 2;
    apply_fails = 0;
    loaded(0, NULL);
    NOTES("base\nclient 1: done\n");
    ck_assert_str_eq(now->settings.speaker, "default");
}
END_TEST

/* Requests that need no engine proceed meanwhile, and their values survive the load, whether it succeeds or not. */
START_TEST(requests_while_one_loads) {
    for (int fails = 0; fails < 2; fails++) {
        put_file("model = \"small\"");
        end();
        start();
        ask(1, SETTING_model, "base");
        ask(2, SETTING_strength, "0.5");
        set_props(0.25f);
        bypass(BYPASS_ON);
        ask(3, SETTING_low_cut_hz, "301");
        NOTES("load base\nsmall, 0.5\nclient 2: done\nsmall, 0.25\nsmall, 0.25, bypassed\nbypass 0: done\n"
              "client 3: low_cut_hz must be a number from 0 (off) to 300\n");
        ask_to_save(4, SETTING_floor_db, "-20");
        loaded(fails ? -EIO : 0, "broken");
        NOTES(fails ? "small, 0.25, bypassed\nclient 4: done\nclient 1: broken\n"
                    : "small, 0.25, bypassed\nclient 4: done\nbase, 0.25, bypassed\nclient 1: done\n");
        ck_assert(now->settings.floor_db == -20);
        ck_assert_str_eq(now->settings.model, fails ? "small" : "base");
    }
}
END_TEST

/* The newest request wins. Earlier ones are answered together with it, and save the values in force. */
START_TEST(a_newer_request_supersedes) {
    start();
    ask_to_save(1, SETTING_model, "base");
    ask(2, SETTING_engine, "cpu");
    NOTES("load base\nload base\n");
    ask(3, SETTING_model, "large");
    NOTES("load large\n");
    ask(4, SETTING_model, "large"); /* the same request again does not restart the load */
    NOTES("");
    loaded(0, NULL);
    NOTES("large\nclient 1: done\nclient 2: done\nclient 3: done\nclient 4: done\n");
    ck_assert_str_eq(now->settings.engine, "cpu");
    ck_assert_str_eq(saved(), "model = \"large\";\n");
    ask(1, SETTING_model, "base");
    ask(2, SETTING_model, "small");
    loaded(-EIO, "broken");
    NOTES("load base\nload small\nclient 1: broken\nclient 2: broken\n");
}
END_TEST

START_TEST(the_engine_in_use_is_requested_again) {
    start();
    ask(1, SETTING_model, "base");
    ask(2, SETTING_strength, "0.5");
    ask(3, SETTING_model, "small");
    NOTES("load base\nsmall, 0.5\nclient 2: done\nload nothing\nsmall, 0.5\nclient 1: done\nclient 3: done\n");
    ck_assert(!now->loading);
}
END_TEST

/* A reload replaces all settings: unsaved values are lost, also those set while its engine is being loaded. */
START_TEST(a_reload_discards_unsaved_values) {
    start();
    ask(1, SETTING_strength, "0.5");
    ask(2, SETTING_model, "base");
    hang_up_signal(1);
    NOTES("small, 0.5\nclient 1: done\nload base\nload nothing\nsmall\nclient 2: done\nreload 1: done\n");
    put_file("model = \"large\"; strength = 0.75");
    ask(3, SETTING_model, "base");
    hang_up_signal(2);
    ask(4, SETTING_strength, "0.25");
    NOTES("load base\nload large\nsmall, 0.25\nclient 4: done\n");
    ck_assert(changes_reloading(changes));
    loaded(0, NULL);
    NOTES("large, 0.25\nclient 3: done\nreload 2: done\n");
    ck_assert(!changes_reloading(changes));
}
END_TEST

/* Of two pending reloads, the newer one is answered. A refused reload does not affect a pending one. */
START_TEST(a_reload_during_a_reload) {
    start();
    put_file("model = \"base\"");
    hang_up_signal(1);
    put_file("model = \"large\"");
    hang_up_signal(2);
    loaded(0, NULL);
    NOTES("load base\nload large\nlarge\nreload 2: done\n");
    put_file("model = \"base\"");
    hang_up_signal(3);
    put_file("model = ");
    hang_up_signal(4);
    ck_assert_ptr_nonnull(strstr(notes, "load base\nreload 4: "));
    ck_assert(changes_reloading(changes));
    notes[0] = '\0';
    says = true;
    loaded(0, NULL);
    ck_assert_ptr_nonnull(strstr(notes, "as they were before those that are refused\nreload 3: done"));
    ck_assert_ptr_nonnull(strstr(now->refused.text, "syntax error"));
    put_file("model = \"small\"");
    hang_up_signal(5);
    put_file("strength = ");
    hang_up_signal(6);
    loaded(-EIO, "broken");
    ck_assert_ptr_nonnull(strstr(notes, "reload 5: broken"));
    ck_assert_ptr_nonnull(strstr(now->refused.text, "syntax error")); /* the file as it is now, not as it was */
}
END_TEST

START_TEST(a_deadline_passes) {
    start();
    ck_assert_int_eq(changes_step(changes, 0), INT32_MAX);
    struct request r = client_sets(1, SETTING_model, "base");
    r.until = 3000;
    changes_ask(changes, &r);
    ask(2, SETTING_model, "base"); /* until 1000 */
    NOTES("load base\n");
    ck_assert_int_eq(changes_step(changes, 400), 2600);
    ck_assert_int_eq(changes_step(changes, 1400), 1600); /* the engine is still wanted */
    NOTES("");
    ck_assert_int_eq(changes_step(changes, 3000), INT32_MAX);
    NOTES("load nothing\nclient 1: the engine for it takes too long to load; the settings are unchanged\n"
          "client 2: the engine for it takes too long to load; the settings are unchanged\n");
    ck_assert_str_eq(code, CODE_TIMEOUT);
    ck_assert(!now->loading);
    ck_assert_str_eq(now->settings.model, "small");
    ask(3, SETTING_model, "base"); /* and it can be requested again */
    loaded(0, NULL);
    NOTES("load base\nbase\nclient 3: done\n");
}
END_TEST

static void ask_again(void *data, const struct request *r, int res, const struct err *err) {
    answer(data, r, res, err);
    if (r->client < 3) {
        struct request next = client_sets(r->client + 1, SETTING_model, r->client == 1 ? "large" : "base");
        next.answer = ask_again;
        changes_ask(changes, &next);
    }
}

START_TEST(an_answer_triggers_a_request) {
    start();
    struct request r = client_sets(1, SETTING_model, "base");
    r.answer = ask_again;
    changes_ask(changes, &r);
    ask(9, SETTING_model, "base");
    loaded(0, NULL);
    NOTES("load base\nbase\nclient 1: done\nload large\nclient 9: done\n");
    loaded(0, NULL);
    NOTES("large\nclient 2: done\nload base\n");
    loaded(-EIO, "broken");
    NOTES("client 3: broken\n");
}
END_TEST

static void use(const char *name, const char *description) {
    changes_ask(changes,
                &(struct request){.what = REQUEST_MICROPHONE, .name = name, .description = description, .until = 1000});
}

static void own(unsigned client, bool has) {
    changes_ask(
        changes,
        &(struct request){
            .what = REQUEST_PROFILE, .own = has, .until = 1000, .answer = answer, .data = "client", .client = client});
}

/* More requests than the control socket has clients. Requests that need not wait are still served. */
START_TEST(too_many_requests_wait) {
    start();
    use("yeti", "Blue Yeti");
    for (unsigned i = 0; i < 64; i++)
        ask(i, SETTING_model, i % 2 ? "base" : "large");
    notes[0] = '\0';
    ask(64, SETTING_model, "large");
    NOTES("client 64: too many requests already wait for an engine\n");
    ck_assert_str_eq(code, CODE_BUSY);
    own(65, true);
    NOTES("client 65: too many requests already wait for an engine\n");
    ck_assert_str_eq(content(at("config/primeknet/primeknet.conf")), "model = \"small\"\n");
    bypass(BYPASS_TOGGLE);
    ask(66, SETTING_strength, "0.5");
    NOTES("small, bypassed\nbypass 0: done\nsmall, 0.5, bypassed\nclient 66: done\n");
    loaded(0, NULL);
    ck_assert_ptr_nonnull(strstr(notes, "base, 0.5, bypassed\nclient 0: done\n"));
    ck_assert_ptr_nonnull(strstr(notes, "client 63: done\n"));
}
END_TEST

/* If the microphone changes repeatedly while an engine is being loaded, only the last one waits for its own engine. */
START_TEST(microphones_in_quick_succession) {
    put_file("model = \"small\"\nprofiles = ( { microphone = \"a\"; model = \"base\"; },\n"
             "{ microphone = \"b\"; model = \"large\"; } )\n");
    start();
    says = true;
    for (unsigned i = 0; i < 200; i++)
        use(i % 2 ? "b" : "a", i % 2 ? "Microphone b" : "Microphone a");
    notes[0] = '\0';
    ask(1, SETTING_model, "medium");
    ask(2, SETTING_engine, "cpu");
    bypass(BYPASS_TOGGLE);
    NOTES("load medium\nload medium\nsmall, bypassed\nbypass 0: done\n");
    use("a", "Microphone a");
    use("b", "Microphone b");
    loaded(-EIO, "broken");
    NOTES("load base\nload medium\nclient 1: broken\nclient 2: broken\n"
          "the profile of Microphone b is not used: broken\n");
    ck_assert_int_eq(now->profile, -1);
    ck_assert_str_eq(now->settings.model, "small");
}
END_TEST

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

static const char with_profiles[] = "model = \"small\"\n"
                                    "profiles = ( { microphone = \"Blue Yeti\"; strength = 0.5; },\n"
                                    "{ microphone = \"alsa_input.usb-Headset-00.mono\"; model = \"base\"; "
                                    "strength = 0.25 } )\n";

/* A profile matches by description, by name, or by the device if its name has changed; other microphones have none. */
START_TEST(a_profile_follows_the_microphone) {
    put_file(with_profiles);
    start();
    ck_assert_int_eq(now->profile, -1);
    use("alsa_input.usb-Yeti-00.stereo", "Blue Yeti");
    NOTES("small, 0.5\n");
    ck_assert_int_eq(now->profile, 0);
    use("alsa_input.usb-Yeti-00.stereo", "Blue Yeti"); /* nothing new */
    NOTES("");
    use("alsa_input.usb-Headset-00.analog-stereo", "Headset");
    NOTES("load base\n");
    ck_assert_int_eq(now->profile, 0);
    use("alsa_input.usb-Headset-00.analog-stereo", "Headset"); /* it is reported repeatedly */
    ask(1, SETTING_low_cut_hz, "90");
    loaded(0, NULL);
    NOTES("base, 0.25\nclient 1: done\n");
    ck_assert_int_eq(now->profile, 1);
    ck_assert(now->settings.low_cut_hz == 90);
    use("another", "Another");
    NOTES("load small\n");
    use("alsa_input.usb-Headset-00.mono", "Headset");
    NOTES("load nothing\nbase, 0.25\n");
    use("alsa_input.usb-Headset-00.mono", "Blue Yeti"); /* the name counts more */
    NOTES("");
    put_file("model = \"base\"\nprofiles = ( { microphone = \"alsa_input.usb-Headset-00.mono\"; strength = 0.25 },\n"
             "{ microphone = \"Blue Yeti\"; strength = 0.5; } )\n");
    hang_up_signal(1);
    NOTES("base, 0.25\nreload 1: done\n");
}
END_TEST

/* A value is set and saved where it comes from. */
START_TEST(a_profile_is_set_and_saved) {
    put_file(with_profiles);
    start();
    use("", "Blue Yeti");
    use("yeti", "Blue Yeti");
    set_props(0.75f);
    NOTES("small, 0.5\nsmall, 0.75\n");
    use("another", "Another");
    use("yeti", "Blue Yeti");
    NOTES("small\nsmall, 0.75\n");
    ask_to_save(1, SETTING_strength, "0.625");
    ask_to_save(2, SETTING_low_cut_hz, "90"); /* which the profile does not have */
    NOTES("small, 0.625\nclient 1: done\nsmall, 0.625\nclient 2: done\n");
    ck_assert_str_eq(saved(), "low_cut_hz = 90.0;\nprofiles = (\n    {\n        microphone = \"Blue Yeti\";\n"
                              "        strength = 0.625;\n    }\n);\n");
    ck_assert_str_eq(content(at("config/primeknet/primeknet.conf")), with_profiles);
    ck_assert_ptr_nonnull(strstr(content(at("state/primeknet/settings")), "strength = 0.625;\n    }\n);\n"));
    ck_assert_int_eq(origin(SETTING_strength), FROM_SAVED);
    hang_up_signal(3);
    NOTES("small, 0.625\nreload 3: done\n");
    ck_assert_int_eq(now->profile, 1);
    unset(4, SETTING_strength);
    NOTES("client 4: strength is not saved\n"); /* but in a profile */
    unset(5, SETTING_low_cut_hz);
    NOTES("small, 0.625\nclient 5: done\n");
    ck_assert(now->settings.low_cut_hz == 70);
}
END_TEST

/* The last good state is the one without the profile, until the settings are read again. */
START_TEST(an_unusable_profile_is_refused) {
    put_file(with_profiles);
    start();
    says = true;
    use("alsa_input.usb-Headset-00.mono", "Headset");
    loaded(-ENOENT, "model: no such model");
    NOTES("load base\nthe profile of Headset is not used: model: no such model\n");
    ck_assert_int_eq(now->profile, -1);
    ck_assert_str_eq(now->profile_refused.text, "model: no such model");
    use("alsa_input.usb-Headset-00.mono", "Headset");
    ask(1, SETTING_strength, "0.75");
    NOTES("small, 0.75\nclient 1: done\n");
    says = false;
    hang_up_signal(2); /* the same file: refused, and all stays as it is */
    loaded(-ENOENT, "model: no such model");
    ask(2, SETTING_strength, "0.625");
    NOTES("load base\nreload 2: model: no such model\nsmall, 0.625\nclient 2: done\n");
    ck_assert_int_eq(now->profile, -1);
    hang_up_signal(1);
    loaded(0, NULL);
    NOTES("load base\nbase, 0.25\nreload 1: done\n");
    ck_assert_str_eq(now->profile_refused.text, "");
    use("yeti", "Blue Yeti");
    loaded(0, NULL);
    NOTES("load small\nsmall, 0.5\n");
    use("alsa_input.usb-Headset-00.mono", "Headset");
    loaded(-EIO, "broken");
    ck_assert_str_eq(now->profile_refused.text, "broken");
    use("yeti", "Blue Yeti"); /* whose profile can be had */
    NOTES("load base\nsmall\nsmall, 0.5\n");
    ck_assert_str_eq(now->profile_refused.text, "");
    use("another", "Another");
    notes[0] = '\0';
    use("alsa_input.usb-Headset-00.mono", "Headset"); /* which is tried once more */
    loaded(0, NULL);
    NOTES("load base\nbase, 0.25\n");
    use("yeti", "Blue Yeti"); /* from a profile to one that cannot be had */
    loaded(0, NULL);
    NOTES("load small\nsmall, 0.5\n");
    use("alsa_input.usb-Headset-00.mono", "Headset");
    loaded(-EIO, "broken");
    NOTES("load base\nsmall\n");
    ck_assert_int_eq(now->profile, -1);
}
END_TEST

/* A new profile contains the values in force, and later changes are made in it. After its removal, everything is as
 * before. */
START_TEST(a_profile_is_made_and_removed) {
    start();
    own(1, true);
    NOTES("client 1: there is no microphone\n");
    ck_assert_str_eq(code, CODE_NO_MICROPHONE);
    use("yeti", "Blue Yeti");
    ask(1, SETTING_strength, "0.5");
    own(2, false);
    own(3, true);
    NOTES("small, 0.5\nclient 1: done\nclient 2: done\nsmall, 0.5\nclient 3: done\n");
    ck_assert_int_eq(now->profile, 0);
    own(4, true); /* nothing new */
    ask_to_save(5, SETTING_strength, "0.25");
    NOTES("client 4: done\nsmall, 0.25\nclient 5: done\n");
    ck_assert_str_eq(saved(), "profiles = (\n    {\n        microphone = \"yeti\";\n"
                              "        strength = 0.25;\n        floor_db = \"off\";\n        low_cut_hz = 70.0;\n"
                              "        model = \"small\";\n    }\n);\n");
    ck_assert_ptr_nonnull(strstr(content(at("state/primeknet/settings")), "microphone = \"yeti\""));
    use("another", "Another");
    use("yeti", "Blue Yeti");
    hang_up_signal(1);
    NOTES("small, 0.5\nsmall, 0.25\nsmall, 0.25\nreload 1: done\n");
    own(6, false);
    NOTES("small\nclient 6: done\n");
    ck_assert_int_eq(now->profile, -1);
    ck_assert_str_eq(saved(), "");
    put_file(with_profiles); /* one matches by its description */
    hang_up_signal(2);
    NOTES("small, 0.5\nreload 2: done\n");
    own(7, false);
    NOTES("small\nclient 7: done\n");
    ck_assert_str_eq(saved(), "profiles = (\n    {\n        microphone = \"Blue Yeti\";\n    }\n);\n");
    hang_up_signal(3);
    NOTES("small\nreload 3: done\n");
    put_content(at("config/primeknet/primeknet-saved.conf"), "model = ;");
    own(8, true);
    ck_assert_ptr_nonnull(strstr(notes, "primeknet-saved.conf:1: syntax error"));
    ck_assert_int_eq(now->profile, -1);
}
END_TEST

/* Without its profile the microphone may need another engine; values set meanwhile stay. */
START_TEST(a_profile_is_removed_while_one_loads) {
    put_file(with_profiles);
    start();
    use("alsa_input.usb-Headset-00.mono", "Headset");
    loaded(-EIO, "broken");
    NOTES("load base\n");
    own(2, true);
    NOTES("client 2: the profile of Headset is not used: broken\n");
    ck_assert_str_eq(code, CODE_PROFILE_REFUSED);
    own(3, false);
    NOTES("small\nclient 3: done\n");
    ck_assert_str_eq(now->profile_refused.text, "");
    ck_assert_uint_eq(now->settings.n_profiles, 1);
    ck_assert_int_eq(unlink(at("config/primeknet/primeknet-saved.conf")), 0);
    hang_up_signal(1);
    loaded(0, NULL);
    notes[0] = '\0';
    own(4, false);
    ck_assert_ptr_nonnull(strstr(saved(), "Headset"));
    ask(5, SETTING_low_cut_hz, "100");
    loaded(0, NULL);
    NOTES("load small\nbase, 0.25\nclient 5: done\nsmall\nclient 4: done\n");
    ck_assert_int_eq(now->profile, -1);
    ck_assert(now->settings.low_cut_hz == 100);
    ask(6, SETTING_model, "large");
    own(7, true);
    ask_to_save(8, SETTING_strength, "0.5");
    NOTES("load large\nsmall\nclient 7: done\nsmall, 0.5\nclient 8: done\n");
    loaded(0, NULL);
    NOTES("large, 0.5\nclient 6: done\n");
    ck_assert_int_eq(now->profile, 1);
}
END_TEST

/* ---- a client that hangs up -------------------------------------------------------------------------------------- */

static struct control *control;

static void reply(void *data, const struct request *r, int res, const struct err *err) {
    (void)data;
    control_reply(control, r->client,
                  res ? control_refuse(CODE_FAILED, "%s", err->text)
                      : json_pack("{s:s}", "model", now->settings.model));
}

static void take_request(void *data, unsigned client, const char *command, const json_t *request) {
    struct request r = client_sets(client, SETTING_model, command);
    (void)data, (void)request;
    r.answer = reply;
    changes_ask(changes, &r);
}

static int connect_and_ask(const char *line) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at("primeknet/control"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
    struct pollfd server = {.fd = control_fd(control), .events = POLLIN};
    while (poll(&server, 1, 0) > 0)
        control_dispatch(control);
    return fd;
}

static void assert_hears(int fd, const char *line) {
    char text[256] = "";
    ck_assert_int_ge(recv(fd, text, sizeof text - 1, MSG_DONTWAIT), 0);
    ck_assert_str_eq(text, line);
}

/* The client's request is still carried out, and its place is free for the next client. */
START_TEST(a_client_hangs_up) {
    struct err err = {0};
    start();
    ck_assert_msg(control_open(&control, take_request, NULL, &err) == 0, "%s", err.text);
    int gone = connect_and_ask("{\"command\":\"base\"}\n"), stays = connect_and_ask("{\"command\":\"large\"}\n");
    close(gone);
    NOTES("load base\nload large\n");
    loaded(0, NULL);
    NOTES("large\n");
    assert_hears(stays, "{\"model\":\"large\"}\n");
    int next = connect_and_ask("{\"command\":\"small\"}\n");
    loaded(-EIO, "broken");
    assert_hears(next, "{\"error\":\"broken\",\"code\":\"failed\"}\n");
    close(next);
    close(stays);
    control_close(control);
}
END_TEST

/* ---- the start --------------------------------------------------------------------------------------------------- */

START_TEST(a_start_with_the_last_good_ones) {
    put_file("model = \"base\"; strength = 0.5");
    ck_assert_int_eq(open_changes(), 0);
    NOTES("open base\n");
    put_file("model = \"base\"; strength = 5");
    end();
    says = true;
    ck_assert_int_eq(open_changes(), 0);
    char text[1024];
    snprintf(text, sizeof text,
             "%s:1: strength must be a number from 0 to 1\nopen base\nsettings in force: the last good ones\n",
             at("config/primeknet/primeknet.conf"));
    NOTES(text);
    ck_assert(now->settings.strength == 0.5);
    ck_assert_int_eq(origin(SETTING_strength), FROM_NO_FILE);
    ck_assert_ptr_nonnull(strstr(now->refused.text, "strength must be"));
    says = false;
    apply_fails = -EINVAL;
    ask(0, SETTING_microphone, "usb");
    NOTES("client 0: channel: there is none\n"); /* no line of any file */
    apply_fails = 0;
    ask_to_save(1, SETTING_strength, "0.25");
    NOTES("base, 0.25\nclient 1: done\n");
    ck_assert_ptr_nonnull(strstr(content(at("state/primeknet/settings")), "strength = 0.5;"));
    put_file("model = \"base\"; strength = 0.875");
    hang_up_signal(1);
    NOTES("base, 0.25\nreload 1: done\n");
    ck_assert_str_eq(now->refused.text, "");
    put_content(at("config/primeknet/primeknet-saved.conf"), "strength = 0.25;\nstrength = 0.5");
    end();
    ck_assert_int_eq(open_changes(), 0);
    ck_assert(now->settings.strength == 0.25);
    ck_assert_ptr_nonnull(strstr(now->refused.text, "primeknet-saved.conf:2: "));
}
END_TEST

/* ---- a disk that stalls ------------------------------------------------------------------------------------------ */

static sem_t disk;

static void stall(void *data) {
    (void)data;
    sem_wait(&disk);
}

/* Waits until the disk has finished, and at least one more answer has arrived. */
static void until_told(const char *last) {
    while (!strstr(notes, last)) {
        struct pollfd fd = {.fd = errands_fd(errands), .events = POLLIN};
        ck_assert_msg(poll(&fd, 1, 60000) == 1, "not told: %s", last);
        errands_dispatch(errands);
    }
}

/* A request to save takes effect immediately, and is answered after saving. Others proceed meanwhile. */
START_TEST(a_stalled_disk_does_not_delay_other_requests) {
    struct err err;
    ck_assert_int_eq(sem_init(&disk, 0, 0), 0);
    ck_assert_int_eq(errands_open(&errands, &err), 0);
    start();
    ck_assert_int_eq(errands_send(errands, stall, NULL, "", 0), 0);
    ask_to_save(1, SETTING_strength, "0.5");
    ask_to_save(2, SETTING_floor_db, "-20");
    ask(3, SETTING_strength, "0.25");
    NOTES("small, 0.5\nsmall, 0.5\nsmall, 0.25\nclient 3: done\n");
    sem_post(&disk);
    until_told("client 2: done");
    NOTES("client 1: done\nclient 2: done\n");
    ck_assert_str_eq(saved(), "strength = 0.5;\nfloor_db = -20.0;\n");
    ck_assert_int_eq(origin(SETTING_strength), FROM_NO_FILE);

    /* A profile is created once the file has it; requests that still wait at the end get no answer. */
    use("yeti", "Blue Yeti");
    own(4, true);
    own(5, true);
    ask(6, SETTING_strength, "0.125");
    NOTES("small, 0.125\nclient 6: done\n");
    until_told("client 5: done");
    NOTES("small, 0.125\nclient 4: done\nsmall, 0.125\nclient 5: done\n");
    ck_assert_int_eq(now->profile, 0);
    ck_assert_int_eq(errands_send(errands, stall, NULL, "", 0), 0);
    ask_to_save(7, SETTING_strength, "0.75");
    NOTES("small, 0.75\n");
    sem_post(&disk);
    errands_close(errands);
    errands = NULL;
    NOTES("");
    sem_destroy(&disk);
}
END_TEST

/* The same thread reads a reload's file. The file's old content does not undo values saved meanwhile. */
START_TEST(a_stalled_disk_does_not_delay_a_reload) {
    struct err err;
    ck_assert_int_eq(sem_init(&disk, 0, 0), 0);
    ck_assert_int_eq(errands_open(&errands, &err), 0);
    start();
    put_file("model = \"small\"\nfloor_db = -20.0\n");
    ck_assert_int_eq(errands_send(errands, stall, NULL, "", 0), 0);
    hang_up_signal(1);
    bypass(BYPASS_ON);
    ask(2, SETTING_strength, "0.5");
    NOTES("small, bypassed\nbypass 0: done\nsmall, 0.5, bypassed\nclient 2: done\n");
    ck_assert(changes_reloading(changes));
    sem_post(&disk);
    until_told("reload 1: done");
    NOTES("small, bypassed\nreload 1: done\n");
    ck_assert(!changes_reloading(changes) && now->settings.floor_db == -20);

    ck_assert_int_eq(errands_send(errands, stall, NULL, "", 0), 0);
    hang_up_signal(3);
    ask_to_save(4, SETTING_strength, "0.25");
    NOTES("small, 0.25, bypassed\n");
    sem_post(&disk);
    until_told("reload 3: done");
    NOTES("client 4: done\nsmall, 0.25, bypassed\nreload 3: done\n");

    ck_assert_int_eq(errands_send(errands, stall, NULL, "", 0), 0);
    put_file("strength = ");
    hang_up_signal(5);
    NOTES("");
    sem_post(&disk);
    until_told("reload 5: ");
    ck_assert_ptr_nonnull(strstr(now->refused.text, "syntax error"));
    errands_close(errands);
    errands = NULL;
    sem_destroy(&disk);
}
END_TEST

START_TEST(a_start_with_the_defaults) {
    put_file("model = \"broken\"");
    open_fails = -ENOENT;
    ck_assert_int_eq(open_changes(), 0);
    NOTES("open broken\nopen auto\n");
    ck_assert_str_eq(now->instead, "the defaults");
    ck_assert_ptr_nonnull(strstr(now->refused.text, "primeknet.conf:1: model: it is broken"));
    ck_assert_ptr_nonnull(strstr(now->settings.file, "primeknet.conf"));
    ck_assert_int_ne(access(at("state/primeknet/settings"), F_OK), 0); /* they are not good ones */
    end();
    open_fails = -ENOMEM; /* no settings' fault: other settings do not help */
    ck_assert_int_eq(open_changes(), -ENOMEM);
    NOTES("open broken\n");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("changes");
    TCase *t = tcase_create("changes");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, requests_that_take_effect_at_once);
    tcase_add_test(t, invalid_values_are_refused);
    tcase_add_test(t, saved_and_remembered);
    tcase_add_test(t, saved_and_unset);
    tcase_add_test(t, a_reload_does_not_answer_a_pending_unset);
    tcase_add_test(t, saved_while_one_loads);
    tcase_add_test(t, a_request_waits_for_its_engine);
    tcase_add_test(t, requests_while_one_loads);
    tcase_add_test(t, a_newer_request_supersedes);
    tcase_add_test(t, the_engine_in_use_is_requested_again);
    tcase_add_test(t, a_reload_discards_unsaved_values);
    tcase_add_test(t, a_reload_during_a_reload);
    tcase_add_test(t, a_deadline_passes);
    tcase_add_test(t, an_answer_triggers_a_request);
    tcase_add_test(t, too_many_requests_wait);
    tcase_add_test(t, microphones_in_quick_succession);
    tcase_add_test(t, a_profile_follows_the_microphone);
    tcase_add_test(t, a_profile_is_set_and_saved);
    tcase_add_test(t, an_unusable_profile_is_refused);
    tcase_add_test(t, a_profile_is_made_and_removed);
    tcase_add_test(t, a_profile_is_removed_while_one_loads);
    tcase_add_test(t, a_client_hangs_up);
    tcase_add_test(t, a_start_with_the_last_good_ones);
    tcase_add_test(t, a_start_with_the_defaults);
    tcase_add_test(t, a_stalled_disk_does_not_delay_other_requests);
    tcase_add_test(t, a_stalled_disk_does_not_delay_a_reload);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
