/* primeknet setup: runs Enhanced Mic now and at every login, optionally as the default microphone, and undoes all
 * that. */
#include "config.h"

#include "tool/cli.h"

#include "engine/choose.h"
#include "daemon/control.h"
#include "graph/node.h"
#include "graph/survey.h"
#include "tool/autostart.h"
#include "tool/systemd.h"
#include "daemon/settings.h"
#include "base/state.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNIT "primeknet.service"
#define STATE "setup"

enum { APPEAR_MS = 5000, POLL_MS = 100 };

/* What setup must undo, as the state file has it; "" means nothing. */
struct before {
    char default_source[256]; /* the user's choice before Enhanced Mic */
    bool microphone;          /* whether setup set the microphone */
};

static void read_before(struct before *ret) {
    char line[512];
    *ret = (struct before){0};
    json_t *object = state_read(STATE, line, sizeof line) ? json_loads(line, 0, NULL) : NULL;
    const char *source = json_string_value(json_object_get(object, "default_source"));
    snprintf(ret->default_source, sizeof ret->default_source, "%s", source ? source : "");
    ret->microphone = json_is_true(json_object_get(object, "microphone"));
    json_decref(object);
}

static bool write_before(const struct before *b) {
    json_t *object = json_pack("{s:s, s:b}", "default_source", b->default_source, "microphone", b->microphone);
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    bool ok = line && state_write(STATE, line);
    free(line);
    json_decref(object);
    return ok;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

/* Measures which model "auto" will use, which takes seconds. */
static int choose_network(const struct settings *s) {
    struct choice c;
    struct err err;
    bool automatic = strcmp(s->model, "auto") == 0, gpu_alone = strcmp(s->engine, "cuda") == 0;
    puts("model     measuring which model this processor can run, for a few seconds ...");
    fflush(stdout);
    if (choose_model(&c, "cpu", CHOOSE_ANEW, NULL, &err) < 0)
        return cli_fail("%s", err.text);
    bool slow = c.p99_us >= c.limit_us;
    if (c.p99_us == 0)
        printf("model     %s is the only model installed\n", c.model);
    else
        printf("model     %s suits this processor: a hop of %s takes %s%.0f us of the %.0f us allowed\n", c.model,
               choice_measured(&c), slow ? "at least " : "", c.p99_us, c.limit_us);
    if (!automatic)
        printf("          model stays %s; primeknet model auto --save uses the measured one%s\n", s->model,
               gpu_alone ? " where there is no GPU" : "");
    return cli_done;
}

/* Without systemd. */
static int start_process(void) {
    char path[AUTOSTART_PATH];
    struct err err;
    if (autostart_enable(true, &err) < 0 || autostart_start(&err) < 0)
        return cli_fail("%s", err.text);
    autostart_path(path);
    printf("service   primeknetd runs now; desktops start it at login because of\n          %s\n"
           "          Without a desktop, start it with your session: primeknetd &\n", path);
    return cli_done;
}

static int start_service(struct systemd *m) {
    struct systemd_unit unit;
    struct err err;
    int fd;
    if (systemd_reload(m, &err) < 0 || systemd_unit(m, &unit, UNIT, &err) < 0)
        return cli_fail("%s", err.text);
    if (strcmp(unit.load, "loaded") != 0)
        return cli_fail("systemd has no " UNIT " (%s): install PrimeKnet with its unit in "
                        "~/.local/share/systemd/user or /usr/lib/systemd/user",
                        unit.load);
    const bool runs = strcmp(unit.active, "inactive") != 0 && strcmp(unit.active, "failed") != 0; /* or is starting */
    if (!runs && control_connect(&fd, &err) == 0) {
        close(fd);
        return cli_fail("primeknetd runs already, but not as the service; stop it, then run setup again");
    }
    if (systemd_enable(m, UNIT, true, &err) < 0)
        return cli_fail("%s", err.text);
    if (systemd_start(m, UNIT, &err) < 0)
        return cli_fail("%s; primeknet doctor says why", err.text);
    puts("service   runs now and after every login");
    return cli_done;
}

/* Waits until Enhanced Mic is in the graph, and returns a survey of it. */
static int await_enhanced(struct survey **ret, struct err *err) {
    for (int ms = 0;; ms += POLL_MS) {
        struct survey *d;
        int res = survey_open(&d, err);
        if (res == 0 && d->has_session_manager && survey_find(d, ENHANCED_MIC)) {
            *ret = d;
            return 0;
        }
        if (res == 0)
            survey_close(d);
        if (ms >= APPEAR_MS)
            return res ? res : err_set(err, -ETIMEDOUT, "Enhanced Mic did not appear among the microphones");
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* Enhanced Mic followed the default and now becomes the default, so the user's previous choice becomes its microphone,
 * by name. */
static int make_default(const struct settings *s) {
    struct survey *d = NULL;
    struct err err;
    if (await_enhanced(&d, &err) < 0)
        return cli_fail("%s; primeknet doctor says why", err.text);
    const char *chosen = d->configured_source;
    int status = cli_done;
    if (strcmp(chosen, ENHANCED_MIC) != 0) {
        struct before b;
        read_before(&b);
        snprintf(b.default_source, sizeof b.default_source, "%s", chosen);
        bool keep = chosen[0] && !text_begins(chosen, ENHANCED_MIC) && survey_find(d, chosen) &&
                    strcmp(s->microphone, "default") == 0;
        b.microphone |= keep;
        json_t *answer = NULL;
        if (!write_before(&b))
            status = cli_fail(
                "cannot save what --remove must undo; is the disk full, or ~/.local/state not writable?");
        else if (keep && !(answer = cli_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", "set", "name", "microphone",
                                                      "value", chosen, "save", true))))
            status = cli_failed;
        json_decref(answer);
        if (status == cli_done && survey_set_default_source(d, ENHANCED_MIC, &err) < 0)
            status = cli_fail("%s", err.text);
    }
    survey_close(d);
    if (status == cli_done)
        puts("default   Enhanced Mic is now the default microphone");
    return status;
}

static int set_up(struct systemd *m, bool by_default) {
    struct settings s;
    struct err err;
    if (settings_load(&s, NULL, &err) < 0)
        return cli_fail("%s", err.text);
    int status = choose_network(&s);
    if (status == cli_done)
        status = m ? start_service(m) : start_process();
    if (status == cli_done && by_default)
        status = make_default(&s);
    if (status == cli_done)
        puts(by_default ? "To undo this: primeknet setup --remove"
                        : "Choose Enhanced Mic as the microphone in your applications, or make it the default:\n"
                          "primeknet setup --default. To undo this: primeknet setup --remove");
    return status;
}

/* ---- undoing it -------------------------------------------------------------------------------------------------- */

/* The microphone that Enhanced Mic takes, or any other; "": there is none. */
static const char *find_other(const struct survey *d) {
    json_t *status = NULL;
    struct err err;
    int fd;
    if (control_connect(&fd, &err) == 0) {
        control_ask(fd, &status, json_pack("{s:s}", "command", "status"), &err);
        close(fd);
    }
    const struct survey_source *found = survey_find(d, text_of(json_object_get(status, "microphone"), "name"));
    json_decref(status);
    for (const struct survey_source *s = d->sources; s && !found; s = s->next)
        found = text_begins(s->name, ENHANCED_MIC) ? NULL : s;
    return found ? found->name : "";
}

/* A user who had chosen none gets a choice: WirePlumber remembers every choice, so without one it would return to
 * Enhanced Mic whenever that is there. */
static int restore_default(const struct before *b) {
    struct survey *d = NULL;
    struct err err;
    int res = survey_open(&d, &err);
    if (res == -EHOSTDOWN)
        return cli_done; /* nothing to do: without Enhanced Mic the default changes by itself */
    if (res)
        return cli_fail("%s", err.text);
    if (strcmp(d->configured_source, ENHANCED_MIC) == 0) {
        const char *other = b->default_source[0] ? b->default_source : find_other(d);
        res = survey_set_default_source(d, other, &err);
        if (res == 0)
            printf("default   %s\n", other[0] ? other : "chosen by the session manager");
    }
    survey_close(d);
    return res ? cli_fail("%s", err.text) : cli_done;
}

static int stop_service(struct systemd *m, struct err *err) {
    struct systemd_unit unit;
    int res;
    if (!m)
        return (res = autostart_enable(false, err)) ? res : autostart_stop(err);
    res = systemd_unit(m, &unit, UNIT, err);
    if (res < 0 || strcmp(unit.load, "not-found") == 0)
        return res;
    res = systemd_enable(m, UNIT, false, err);
    return res < 0 ? res : systemd_stop(m, UNIT, err);
}

static int undo(struct systemd *m) {
    struct before b;
    struct settings s;
    struct err err;
    read_before(&b);
    int status = restore_default(&b);
    if (b.microphone && settings_load(&s, NULL, &err) == 0 &&
        (settings_set(&s, SETTING_microphone, "default", &err) < 0 ||
         settings_save(&s, -1, SETTING_microphone, &err) < 0))
        status = cli_fail("%s", err.text);
    if (stop_service(m, &err) < 0)
        return cli_fail("%s", err.text);
    puts("service   stopped, and no longer started at login");
    if (status == cli_done) {
        state_remove(STATE);
        state_remove("model");
    }
    return status;
}

static int run_setup(const struct cli_call *call) {
    bool by_default = cli_option(call, 'd'), removes = cli_option(call, 'r');
    struct systemd *m = NULL; /* stays so where none runs */
    struct err err;
    if (by_default && removes)
        return cli_misuse(call->command, "--default or --remove, not both");
    int fd, res = control_connect(&fd, &err);
    if (res == 0)
        close(fd);
    if (res == -EPERM || !getenv("XDG_RUNTIME_DIR"))
        return cli_fail("%s", err.text);
    systemd_open(&m, NULL);
    int status = removes ? undo(m) : set_up(m, by_default);
    systemd_close(m);
    return status;
}

const struct cli_command setup_command = {
    .name = "setup",
    .summary = "run Enhanced Mic now and at every login",
    .run = run_setup,
    .options = {{'d', "default", .help = "also make Enhanced Mic the default microphone"},
                {'r', "remove", .help = "undo setup; the settings file stays"}},
    .about = "Measures which model this processor can run, and has primeknetd started now and at every login: by\n"
             "systemd or, where that does not run, by the desktop. It can be run again. With --default, applications\n"
             "that follow the default use Enhanced Mic, even those that offer no choice, and return to it after it was\n"
             "away; it listens to the previous default.\n",
};
