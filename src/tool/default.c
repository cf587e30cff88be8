/* primeknet default: makes Enhanced Mic the default microphone, and undoes that; for setup also "transparent". */
#include "config.h"

#include "tool/default.h"

#include "base/state.h"
#include "base/text.h"
#include "control/client.h"
#include "daemon/settings.h"
#include "graph/names.h"
#include "graph/survey.h"
#include "tool/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATE "setup"

enum { APPEAR_MS = 5000, POLL_MS = 100 };

/* The content of the state file, for undoing; "" means nothing. */
struct before {
    char default_source[256]; /* the user's choice before Enhanced Mic */
    bool microphone;          /* whether default_take set the microphone */
    bool transparent;         /* whether default_stand_in set "transparent" */
};

static void read_before(struct before *ret) {
    char line[512];
    *ret = (struct before){0};
    json_t *object = state_read(STATE, line, sizeof line) ? json_loads(line, 0, NULL) : NULL;
    const char *source = json_string_value(json_object_get(object, "default_source"));
    snprintf(ret->default_source, sizeof ret->default_source, "%s", source ? source : "");
    ret->microphone = json_is_true(json_object_get(object, "microphone"));
    ret->transparent = json_is_true(json_object_get(object, "transparent"));
    json_decref(object);
}

static int write_before(const struct before *b) {
    json_t *object = json_pack("{s:s, s:b, s:b}", "default_source", b->default_source, "microphone", b->microphone,
                               "transparent", b->transparent);
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    bool ok = line && state_write(STATE, line);
    free(line);
    json_decref(object);
    return ok ? cli_done
              : cli_fail("cannot save what is to be undone; is the disk full, or ~/.local/state not writable?");
}

/* Asks the daemon, if it runs, so that it changes together with the file. */
static int set_saved(int setting, const char *value) {
    struct settings s, saved;
    struct err err;
    int fd;
    if (control_connect(&fd, &err) == 0) {
        close(fd);
        json_t *answer = cli_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", COMMAND_SET, "name",
                                           settings_name(setting), "value", value, "save", true));
        json_decref(answer);
        return answer ? cli_done : cli_failed;
    }
    if (settings_load(&s, NULL, &err) == 0 &&
        (settings_set(&s, setting, value, &err) < 0 || settings_save(&saved, &s, NULL, -1, setting, &err) < 0))
        return cli_fail("%s", err.text);
    return cli_done;
}

/* ---- taking over ------------------------------------------------------------------------------------------------- */

/* Waits until Enhanced Mic is in the graph, and returns a survey of it; prints why there is none, and returns NULL. */
static struct survey *await_enhanced(void) {
    struct err err;
    for (int ms = 0;; ms += POLL_MS) {
        struct survey *d = NULL;
        int res = survey_open(&d, &err);
        if (res == 0 && d->has_session_manager && survey_find(d, ENHANCED_MIC))
            return d;
        survey_close(d);
        if (ms >= APPEAR_MS) {
            cli_fail("%s; primeknet doctor says why",
                     res ? err.text : "Enhanced Mic did not appear among the microphones");
            return NULL;
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* Enhanced Mic followed the default and now becomes the default, so the user's previous choice becomes its microphone,
 * by name. */
int default_take(void) {
    struct settings s;
    struct err err;
    if (settings_load(&s, NULL, &err) < 0)
        return cli_fail("%s", err.text);
    struct survey *d = await_enhanced();
    if (!d)
        return cli_failed;
    const char *chosen = d->configured_source;
    int status = cli_done;
    if (strcmp(chosen, ENHANCED_MIC) != 0) {
        struct before b;
        read_before(&b);
        snprintf(b.default_source, sizeof b.default_source, "%s", chosen);
        bool keep = chosen[0] && !text_begins(chosen, ENHANCED_MIC) && survey_find(d, chosen) &&
                    strcmp(s.microphone, "default") == 0;
        b.microphone |= keep;
        status = write_before(&b);
        if (status == cli_done && keep)
            status = set_saved(SETTING_microphone, chosen);
        if (status == cli_done && survey_set_default_source(d, ENHANCED_MIC, &err) < 0)
            status = cli_fail("%s", err.text);
    }
    survey_close(d);
    if (status == cli_done)
        puts("default   Enhanced Mic is now the default microphone");
    return status;
}

bool default_can_stand_in(void) {
    struct survey *d;
    struct err err;
    if (survey_open(&d, &err) < 0)
        return false;
    const bool can = d->has_filters;
    survey_close(d);
    return can;
}

int default_stand_in(void) {
    struct before b;
    struct survey *d = await_enhanced();
    if (!d)
        return cli_failed;
    const bool possible = d->has_filters;
    survey_close(d);
    if (!possible)
        return cli_fail("this session manager inserts no filters: that takes WirePlumber 0.5; instead: "
                        "primeknet setup --default");
    read_before(&b);
    b.transparent = true;
    if (write_before(&b) != cli_done || set_saved(SETTING_transparent, "true") != cli_done)
        return cli_failed;
    puts("microphone  applications that record it now hear Enhanced Mic");
    return cli_done;
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

/* Returns the microphone that Enhanced Mic uses, or any other; "": there is none. */
static const char *find_other(const struct survey *d) {
    json_t *status = NULL;
    struct err err;
    int fd;
    if (control_connect(&fd, &err) == 0) {
        control_ask(fd, &status, json_pack("{s:s}", "command", COMMAND_STATUS), &err);
        close(fd);
    }
    const struct survey_source *found = survey_find(d, text_of(json_object_get(status, "microphone"), "name"));
    json_decref(status);
    for (const struct survey_source *s = d->sources; s && !found; s = s->next)
        found = text_begins(s->name, ENHANCED_MIC) ? NULL : s;
    return found ? found->name : "";
}

/* Sets a choice even for a user who had none: WirePlumber remembers every choice, so it would otherwise return to
 * Enhanced Mic whenever that exists. */
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

int default_return(void) {
    struct before b;
    read_before(&b);
    int status = restore_default(&b);
    if (b.microphone && set_saved(SETTING_microphone, "default") != cli_done)
        status = cli_failed;
    if (b.transparent && set_saved(SETTING_transparent, "false") != cli_done)
        status = cli_failed;
    if (status == cli_done)
        state_remove(STATE);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run_default(const struct cli_call *call) {
    if (call->n_words)
        return strcmp(call->words[0], "on") == 0 ? default_take() : default_return();
    json_t *status = cli_ask(json_pack("{s:s}", "command", COMMAND_STATUS));
    if (!status)
        return cli_failed;
    puts(json_is_true(json_object_get(status, "default")) ? "default   Enhanced Mic is the default microphone"
                                                          : "default   Enhanced Mic is not the default microphone");
    json_decref(status);
    return cli_done;
}

const struct cli_command default_command = {
    .name = "default",
    .summary = "make Enhanced Mic the default microphone, or undo that",
    .run = run_default,
    .arguments = {{"on|off", .kind = CLI_ONE_OF, .optional = true}},
    .about = "With on, applications that follow the default record Enhanced Mic, even those that offer no choice,\n"
             "also after it was absent; Enhanced Mic records the previous default. With off, that one is the\n"
             "default again. Without an argument, prints the current state.\n",
};
