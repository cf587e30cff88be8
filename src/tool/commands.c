/* primeknet settings, set, unset, bypass, use, profile, model, mics, apps, app: commands to a running primeknetd. */
#include "config.h"

#include "tool/cli.h"

#include "base/text.h"
#include "control/client.h"
#include "control/names.h"
#include "graph/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *cli_ask(json_t *request) {
    struct err err;
    json_t *answer = NULL;
    int fd, res = control_connect(&fd, &err);
    if (res < 0) {
        json_decref(request);
    } else {
        res = control_ask(fd, &answer, request, &err);
        close(fd);
    }
    if (res < 0)
        cli_fail("%s", err.text);
    return answer;
}

/* Returns the width of the widest name in a list of objects. */
static int name_width(const json_t *list) {
    const json_t *one;
    size_t i;
    int width = 0;
    json_array_foreach(list, i, one) {
        const int n = (int)strlen(text_of(one, "name"));
        width = n > width ? n : width;
    }
    return width;
}

/* Prints a setting's value for people. */
static const char *value_of(const json_t *setting, char ret[32]) {
    const json_t *value = json_object_get(setting, "value");
    snprintf(ret, 32, "%.10g", json_number_value(value));
    return json_is_number(value) ? ret : text_of(setting, "value");
}

/* Prints where a value comes from. */
static void print_origin(const json_t *setting) {
    const char *const from = text_of(setting, "from"), *const profile = text_of(setting, "profile");
    if (text_of(setting, "file")[0])
        printf("%s:%" JSON_INTEGER_FORMAT, text_of(setting, "file"),
               json_integer_value(json_object_get(setting, "line")));
    else
        fputs(strcmp(from, "none") == 0     ? "not saved"
              : strcmp(from, "values") == 0 ? "what its three settings come to"
                                            : "the default",
              stdout);
    printf("%s%s\n", profile[0] ? ", in the profile of " : "", profile);
}

/* Prints a setting's new value, and anything that prevents it from taking effect. Takes ownership of the answer. */
static int print_change(json_t *answer, bool save, bool unset) {
    char value[32];
    if (!answer)
        return cli_failed;
    printf("%s is now %s", text_of(answer, "name"), value_of(answer, value));
    if (unset) {
        fputs(", from ", stdout);
        print_origin(answer);
    } else if (save) {
        printf(", saved in %s\n", text_of(answer, "saved"));
    } else {
        puts(", until the settings are reloaded; --save keeps it");
    }
    if (json_is_true(json_object_get(answer, "bypass")))
        printf("bypass is on, so it has no effect until primeknet bypass off\n");
    if (text_of(answer, "missing")[0])
        cli_fail("%s", text_of(answer, "missing"));
    json_decref(answer);
    return cli_done;
}

static int set(const char *name, const char *value, bool save) {
    return print_change(
        cli_ask(json_pack("{s:s, s:s, s:s, s:b}", "command", COMMAND_SET, "name", name, "value", value, "save", save)),
        save, false);
}

#define SAVE \
    { 's', "save", .help = "also save it, beside the settings file" }

static int run_set(const struct cli_call *call) {
    return set(call->words[0], call->words[1], cli_option(call, 's'));
}

const struct cli_command set_command = {
    .name = "set",
    .summary = "change a setting, such as strength 0.7",
    .run = run_set,
    .arguments = {{"NAME", .kind = CLI_SETTING}, {"VALUE", .kind = CLI_VALUE}},
    .options = {SAVE},
    .about = "Changes a setting of the running primeknetd. primeknet.conf(5) explains the settings:\n\n"
#define ROW(name, allowed) "  " #name ": " allowed "\n"
#include "control/settings.def"
};

static int run_unset(const struct cli_call *call) {
    return print_change(cli_ask(json_pack("{s:s, s:s}", "command", COMMAND_UNSET, "name", call->words[0])), false,
                        true);
}

const struct cli_command unset_command = {
    .name = "unset",
    .summary = "forget what was saved of a setting",
    .run = run_unset,
    .arguments = {{"NAME", .kind = CLI_SETTING}},
    .about = "Takes a setting out of the file that --save and the window save in, so that your settings file counts\n"
             "again or, if that omits it, the default.\n",
};

static int run_settings(const struct cli_call *call) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", COMMAND_SETTINGS)), *one;
    if (!answer)
        return cli_failed;
    const json_t *list = json_object_get(answer, "settings");
    const int width = name_width(list);
    char value[32];
    size_t i;
    if (cli_option(call, 'j'))
        cli_print_json(answer);
    else
        json_array_foreach(list, i, one) {
            printf("%-*s  %-8s  ", width, text_of(one, "name"), value_of(one, value));
            print_origin(one);
        }
    if (text_of(answer, "refused")[0])
        cli_fail("the files as they are now are not in force: %s", text_of(answer, "refused"));
    json_decref(answer);
    return cli_done;
}

const struct cli_command settings_command = {
    .name = "settings",
    .summary = "list the settings, and where each comes from",
    .run = run_settings,
    .options = {{'j', "json", .help = "as one JSON object, for scripts; see primeknet(1)"}},
    .about = "Lists the settings in force, and the file and line that each comes from: the settings file or, upon\n"
             "that, what --save and the window saved.\n",
};

static int run_model(const struct cli_call *call) {
    return set("model", call->words[0], cli_option(call, 's'));
}

const struct cli_command model_command = {
    .name = "model",
    .summary = "switch to another model",
    .run = run_model,
    .arguments = {{"NAME", .kind = CLI_MODEL}},
    .options = {SAVE},
    .about = "Switches to another model: small, base, large, auto, or the full path of a .safetensors file. It is\n"
             "loaded beside the running one and then faded in.\n",
};

static int run_bypass(const struct cli_call *call) {
    json_t *answer = cli_ask(call->n_words ? json_pack("{s:s, s:s}", "command", COMMAND_BYPASS, "state", call->words[0])
                                           : json_pack("{s:s}", "command", COMMAND_STATUS));
    if (!answer)
        return cli_failed;
    printf("bypass is %s\n", json_is_true(json_object_get(answer, "bypass")) ? "on" : "off");
    json_decref(answer);
    return cli_done;
}

const struct cli_command bypass_command = {
    .name = "bypass",
    .summary = "turn bypass on or off: the microphone unchanged",
    .run = run_bypass,
    .arguments = {{"on|off|toggle", .kind = CLI_ONE_OF, .optional = true}},
    .about = "With bypass on, Enhanced Mic passes the microphone through unchanged, with the same delay. Without an\n"
             "argument, prints whether it is on.\n",
};

/* ---- microphones ------------------------------------------------------------------------------------------------- */

static int run_mics(const struct cli_call *call) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", COMMAND_MICROPHONES)), *mic;
    if (!answer)
        return cli_failed;
    if (cli_option(call, 'j')) {
        cli_print_json(answer);
        json_decref(answer);
        return cli_done;
    }
    const json_t *mics = json_object_get(answer, "microphones");
    const int width = name_width(mics);
    size_t i;
    json_array_foreach(mics, i, mic)
        printf("%c %-*s  %s\n", json_is_true(json_object_get(mic, "in_use")) ? '*' : ' ', width, text_of(mic, "name"),
               text_of(mic, "description"));
    if (json_array_size(mics) == 0)
        puts("There is no microphone.");
    const char *chosen = text_of(answer, "chosen");
    if (strcmp(chosen, "default") == 0)
        puts("Enhanced Mic follows the system's default.");
    else
        printf("Enhanced Mic uses %s; primeknet use default makes it follow the system's default.\n", chosen);
    json_decref(answer);
    return cli_done;
}

const struct cli_command mics_command = {
    .name = "mics",
    .summary = "list the microphones",
    .run = run_mics,
    .options = {{'j', "json", .help = "as one JSON object, for scripts; see primeknet(1)"}},
    .about = "Lists the microphones: the name for primeknet use, and a description. * marks the one in use.\n",
};

/* Finds the object with this name, or else those that contain the words in their name or description. Returns their
 * number; *ret is one of them. */
static int find(const json_t **ret, const json_t *list, const char *wanted) {
    const json_t *one;
    size_t i;
    int n_found = 0;
    json_array_foreach(list, i, one) {
        const char *name = text_of(one, "name"), *description = text_of(one, "description");
        const bool is_it = strcmp(name, wanted) == 0;
        if (!is_it && (!wanted[0] || (!strcasestr(name, wanted) && !strcasestr(description, wanted))))
            continue;
        *ret = one;
        if (is_it)
            return 1;
        n_found++;
    }
    return n_found;
}

/* Finds the only microphone that matches the words. Prints an error if there is not exactly one. */
static bool find_microphone(char *ret, size_t size, const char *wanted) {
    if (!wanted[0]) {
        cli_fail("the name is empty; primeknet mics lists the microphones");
        return false;
    }
    json_t *answer = cli_ask(json_pack("{s:s}", "command", COMMAND_MICROPHONES));
    if (!answer)
        return false;
    const json_t *found;
    const int n_found = find(&found, json_object_get(answer, "microphones"), wanted);
    if (n_found == 1)
        snprintf(ret, size, "%s", text_of(found, "name"));
    else if (n_found > 1)
        cli_fail("\"%s\" matches %d microphones; primeknet mics lists their names", wanted, n_found);
    else
        cli_fail("there is no microphone \"%s\"; primeknet mics lists them", wanted);
    json_decref(answer);
    return n_found == 1;
}

static int run_use(const struct cli_call *call) {
    char name[256] = "default";
    if (strcmp(call->words[0], "default") != 0 && !find_microphone(name, sizeof name, call->words[0]))
        return cli_failed;
    return set("microphone", name, cli_option(call, 's'));
}

const struct cli_command use_command = {
    .name = "use",
    .summary = "switch to another microphone",
    .run = run_use,
    .arguments = {{"MICROPHONE", .kind = CLI_MICROPHONE}},
    .options = {SAVE},
    .about = "Switches to another microphone: a name that primeknet mics lists, a part of one, or default.\n",
};

/* ---- a profile --------------------------------------------------------------------------------------------------- */

static int run_profile(const struct cli_call *call) {
    json_t *answer = cli_ask(call->n_words
                                 ? json_pack("{s:s, s:s}", "command", COMMAND_PROFILE, "state", call->words[0])
                                 : json_pack("{s:s}", "command", COMMAND_STATUS));
    if (!answer)
        return cli_failed;
    const char *microphone = text_of(json_object_get(answer, "microphone"), "description");
    const char *profile = text_of(answer, "profile");
    printf("%s has %s of its own%s%s\n", microphone[0] ? microphone : "the microphone",
           profile[0] ? "settings" : "no settings", profile[0] ? ": the profile of " : "", profile);
    json_decref(answer);
    return cli_done;
}

const struct cli_command profile_command = {
    .name = "profile",
    .summary = "give the microphone in use settings of its own",
    .run = run_profile,
    .arguments = {{"on|off", .kind = CLI_ONE_OF, .optional = true}},
    .about = "With on, strength, floor_db, low_cut_hz and model as they are become a profile of the microphone in\n"
             "use, which is saved: to set one of them is then to set it for this microphone. off removes the\n"
             "profile.\n"
             "Without an argument, prints whether there is one.\n",
};

/* ---- applications ------------------------------------------------------------------------------------------------ */

static void print_application(const json_t *app, int width) {
    const json_t *from = json_object_get(app, "from"), *source;
    size_t i;
    printf("%c %-*s  ", json_is_true(json_object_get(app, "enhanced")) ? '*' : ' ', width, text_of(app, "name"));
    json_array_foreach(from, i, source)
        printf("%s%s", i ? ", " : "", json_string_value(source));
    if (json_array_size(from) == 0)
        fputs("nothing now", stdout);
    if (text_of(app, "choice")[0])
        printf(" (chosen: %s)", text_of(app, "choice"));
    putchar('\n');
}

static int run_apps(const struct cli_call *call) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", COMMAND_APPS)), *app;
    if (!answer)
        return cli_failed;
    const json_t *apps = json_object_get(answer, "applications");
    const int width = name_width(apps);
    size_t i;
    if (cli_option(call, 'j'))
        cli_print_json(answer);
    else if (json_array_size(apps) == 0)
        puts("No application records.");
    else
        json_array_foreach(apps, i, app)
            print_application(app, width);
    json_decref(answer);
    return cli_done;
}

const struct cli_command apps_command = {
    .name = "apps",
    .summary = "list the applications that record",
    .run = run_apps,
    .options = {{'j', "json", .help = "as one JSON object, for scripts; see primeknet(1)"}},
    .about = "Lists the applications that record, what they record, and what primeknet app chose for them. * marks\n"
             "those that record Enhanced Mic.\n",
};

/* Finds the only application that matches the words. Otherwise prints an error that lists the applications. */
static bool find_application(char *ret, size_t size, const char *wanted) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", COMMAND_APPS)), *app;
    if (!answer)
        return false;
    const json_t *apps = json_object_get(answer, "applications"), *found;
    const int n_found = find(&found, apps, wanted);
    char names[512] = "";
    size_t i;
    if (n_found == 1)
        snprintf(ret, size, "%s", text_of(found, "name"));
    json_array_foreach(apps, i, app)
        text_add(names, sizeof names, "%s%s", i ? ", " : "", text_of(app, "name"));
    if (!names[0])
        cli_fail("there is no application \"%s\": none records", wanted);
    else if (n_found > 1)
        cli_fail("\"%s\" matches %d applications; there are: %s", wanted, n_found, names);
    else if (n_found == 0)
        cli_fail("there is no application \"%s\"; there are: %s", wanted, names);
    json_decref(answer);
    return n_found == 1;
}

static int run_app(const struct cli_call *call) {
    const char *choice = call->words[1];
    char name[256];
    if (!find_application(name, sizeof name, call->words[0]))
        return cli_failed;
    json_t *answer = cli_ask(json_pack("{s:s, s:s, s:s}", "command", COMMAND_APP, "name", name, "choice", choice));
    if (!answer)
        return cli_failed;
    if (strcmp(choice, CHOICE_AUTO) == 0)
        printf("%s records what it asks for itself\n", name);
    else
        printf("%s records %s, from now on\n", name,
               strcmp(choice, CHOICE_ON) == 0 ? "Enhanced Mic" : "the microphone itself");
    json_decref(answer);
    return cli_done;
}

const struct cli_command app_command = {
    .name = "app",
    .summary = "move an application to Enhanced Mic or away from it",
    .run = run_app,
    .arguments = {{"NAME", .kind = CLI_APPLICATION}, {CHOICE_ON "|" CHOICE_OFF "|" CHOICE_AUTO, .kind = CLI_ONE_OF}},
    .about = "Moves an application that records to Enhanced Mic (on) or to the microphone that Enhanced Mic uses\n"
             "(off), now and whenever it records, until it is moved by other means. auto forgets the choice: the\n"
             "application records what it asks for itself. NAME is one that primeknet apps lists, or a part of it.\n",
};
