#include "daemon/commands.h"

#include "base/clock.h"
#include "control/protocol.h"
#include "graph/choices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void answer(void *data, const struct request *r, int res, const struct err *err) {
    const struct commands *c = data;
    control_reply(c->control, r->client,
                  res                          ? report_refusal(err)
                  : r->what == REQUEST_PROFILE ? report_status(&c->report, false)
                  : r->what == REQUEST_BYPASS  ? json_pack("{s:b}", "bypass", c->report.now->bypass)
                                               : report_setting(&c->report, r->setting));
}

/* Refuses a request without the command's arguments. */
static void misused(const struct commands *c, unsigned client, const char *why) {
    control_reply(c->control, client, control_refuse(CODE_BAD_REQUEST, "%s", why));
}

static void ask(struct commands *c, unsigned client, struct request r) {
    r.until = now_ms() + CHANGES_PATIENCE_MS;
    r.answer = answer;
    r.data = c;
    r.client = client;
    changes_ask(c->changes, &r);
}

static void set(struct commands *c, unsigned client, const json_t *request) {
    const json_t *given = json_object_get(request, "value"), *save = json_object_get(request, "save");
    const char *name = json_string_value(json_object_get(request, "name")), *value = json_string_value(given);
    char number[32];
    struct err err;
    if (json_is_number(given)) {
        snprintf(number, sizeof number, "%.10g", json_number_value(given));
        value = number;
    } else if (json_is_boolean(given)) {
        value = json_is_true(given) ? "true" : "false";
    }
    if (!name || !value || (save && !json_is_boolean(save))) {
        misused(c, client, "set takes the string \"name\", a \"value\", and \"save\", true or false");
        return;
    }
    const int setting = settings_find(name, &err);
    if (setting < 0)
        control_reply(c->control, client, report_refusal(&err));
    else
        ask(c, client,
            (struct request){.what = REQUEST_SET, .setting = setting, .value = value, .save = json_is_true(save)});
}

static void unset(struct commands *c, unsigned client, const json_t *request) {
    const char *name = json_string_value(json_object_get(request, "name"));
    struct err err;
    const int setting = name ? settings_find(name, &err) : -EINVAL;
    if (!name)
        misused(c, client, "unset takes the string \"name\"");
    else if (setting < 0)
        control_reply(c->control, client, report_refusal(&err));
    else
        ask(c, client, (struct request){.what = REQUEST_UNSET, .setting = setting});
}

/* Returns the index of the request's "state" among the first n words; -1: none. */
static int state_of(const json_t *request, int n) {
    static const char *const states[] = {[BYPASS_OFF] = "off", [BYPASS_ON] = "on", [BYPASS_TOGGLE] = "toggle"};
    const char *state = json_string_value(json_object_get(request, "state"));
    while (state && n-- > 0)
        if (strcmp(state, states[n]) == 0)
            return n;
    return -1;
}

static void profile(struct commands *c, unsigned client, const json_t *request) {
    const int state = state_of(request, BYPASS_ON + 1);
    if (state < 0)
        misused(c, client, "profile is \"on\" or \"off\"");
    else
        ask(c, client, (struct request){.what = REQUEST_PROFILE, .own = state == BYPASS_ON});
}

static void bypass(struct commands *c, unsigned client, const json_t *request) {
    const int state = state_of(request, BYPASS_TOGGLE + 1);
    if (state < 0)
        misused(c, client, "bypass is \"on\", \"off\" or \"toggle\"");
    else
        ask(c, client, (struct request){.what = REQUEST_BYPASS, .bypass = state});
}

static void status(struct commands *c, unsigned client, const json_t *request) {
    control_reply(c->control, client, report_status(&c->report, json_is_true(json_object_get(request, "bands"))));
}

static void settings(struct commands *c, unsigned client, const json_t *request) {
    (void)request;
    control_reply(c->control, client, report_settings(&c->report));
}

static void watch(struct commands *c, unsigned client, const json_t *request) {
    (void)request;
    control_watch(c->control, client);
    control_reply(c->control, client, report_status(&c->report, false));
}

static void microphones(struct commands *c, unsigned client, const json_t *request) {
    (void)request;
    control_reply(c->control, client, report_microphones(&c->report));
}

static void apps(struct commands *c, unsigned client, const json_t *request) {
    (void)request;
    control_reply(c->control, client, report_applications(&c->report));
}

static void app(struct commands *c, unsigned client, const json_t *request) {
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *choice = json_string_value(json_object_get(request, "choice"));
    struct err err;
    int res = name && choice ? node_choose(c->report.nodes->all[0].node, name, choice, &err) : -EINVAL;
    if (res == -EINVAL) {
        misused(c, client,
                "app takes the strings \"name\" and \"choice\", which is \"" CHOICE_ON "\", \"" CHOICE_OFF
                "\" or \"" CHOICE_AUTO "\"");
        return;
    }
    if (res == 0)
        control_changed(c->control); /* nothing in the graph may change as a result */
    control_reply(c->control, client,
                  res == -ENOENT ? control_refuse(CODE_UNKNOWN_APPLICATION, "%s", err.text)
                  : res          ? report_refusal(&err)
                                 : report_applications(&c->report));
}

void commands_request(void *data, unsigned client, const char *command, const json_t *request) {
    static const struct {
        const char *name;
        void (*run)(struct commands *c, unsigned client, const json_t *request);
    } commands[] = {{COMMAND_STATUS, status},  {COMMAND_WATCH, watch}, {COMMAND_MICROPHONES, microphones},
                    {COMMAND_APPS, apps},      {COMMAND_APP, app},     {COMMAND_SETTINGS, settings},
                    {COMMAND_SET, set},        {COMMAND_UNSET, unset}, {COMMAND_BYPASS, bypass},
                    {COMMAND_PROFILE, profile}};
    struct commands *c = data;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(command, commands[i].name) == 0) {
            commands[i].run(c, client, request);
            return;
        }
    control_reply(c->control, client, control_refuse(CODE_BAD_REQUEST, "there is no command \"%.40s\"", command));
}
