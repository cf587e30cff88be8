/* primeknet complete: answers the shells' completion scripts (completions/). Prints one line per matching word, with a
 * tab and a short explanation if there is one, and ":files" if file names match, too. */
#include "config.h"

#include "base/text.h"
#include "control/names.h"
#include "tool/cli.h"

#include <stdio.h>
#include <string.h>

/* Prints the word if it begins with what is typed so far. */
static void offer(const char *typed, const char *word, const char *about) {
    if (text_begins(word, typed))
        printf(about[0] ? "%s\t%s\n" : "%s\n", word, about);
}

/* Offers the names in a list of the daemon's answer. */
static void offer_names(const char *typed, const char *command, const char *list) {
    json_t *answer = cli_ask(json_pack("{s:s}", "command", command)), *one;
    size_t i;
    json_array_foreach(json_object_get(answer, list), i, one)
        offer(typed, text_of(one, "name"), text_of(one, "description"));
    json_decref(answer);
}

/* A setting's name as commands spell it, with dashes. */
static void spell(char ret[32], const char *name) {
    snprintf(ret, 32, "%s", name);
    for (char *c = ret; (c = strchr(c, '_'));)
        *c = '-';
}

static void offer_settings(const char *typed) {
    char name[32];
    for (int i = 0; i < N_SETTINGS; i++) {
        spell(name, settings_name(i));
        offer(typed, name, settings_allowed(i));
    }
}

/* Offers the words in quotation marks in the setting's help, and other values it accepts. */
static void offer_values(const char *typed, const char *setting) {
    char wanted[32], word[32];
    spell(wanted, setting);
    const int meant = settings_meant(setting);
    for (const char *c = meant < 0 ? "" : settings_allowed(meant); (c = strchr(c, '"')); c += strlen(word) + 2) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(c + 1, "\""), c + 1);
        offer(typed, word, "");
    }
    if (strstr(wanted, "microphone"))
        offer_names(typed, "microphones", "microphones");
    if (strcmp(wanted, "model") == 0) {
        offer(typed, "small", "");
        offer(typed, "base", "");
        offer(typed, "large", "");
        puts(":files");
    }
}

/* Offers the words in a name such as "on|off". */
static void offer_one_of(const char *typed, const char *name) {
    for (char *rest = strdupa(name); rest;)
        offer(typed, strsep(&rest, "|"), "");
}

/* Completes a word of this kind and name; `before` is the word before it. */
static void offer_kind(enum cli_kind kind, const char *name, const char *typed, const char *before) {
    switch (kind) {
    case CLI_FILE: puts(":files"); break;
    case CLI_COMMAND:
        for (int i = 0; cli_commands[i]; i++)
            if (cli_commands[i]->summary)
                offer(typed, cli_commands[i]->name, cli_commands[i]->summary);
        break;
    case CLI_SETTING: offer_settings(typed); break;
    case CLI_VALUE: offer_values(typed, before); break;
    case CLI_MICROPHONE: offer_values(typed, "microphone"); break;
    case CLI_MODEL: offer_values(typed, "model"); break;
    case CLI_APPLICATION: offer_names(typed, "apps", "applications"); break;
    case CLI_ONE_OF: offer_one_of(typed, name); break;
    case CLI_ANY: break;
    }
}

static void offer_options(const struct cli_command *c, const char *typed) {
    char word[32];
    for (const struct cli_option *o = c->options; o->name; o++) {
        snprintf(word, sizeof word, "--%s", o->name);
        offer(typed, word, o->help);
    }
    offer(typed, "--help", "");
}

/* The option whose value is the next word, or NULL. */
static const struct cli_option *awaits_value(const struct cli_command *c, const char *word) {
    for (const struct cli_option *o = c->options; o->name; o++)
        if (o->value && ((word[0] == '-' && word[1] == o->letter && !word[2]) ||
                         (strncmp(word, "--", 2) == 0 && strcmp(word + 2, o->name) == 0)))
            return o;
    return NULL;
}

/* Arguments: the words after "primeknet", the last one incomplete. */
static int run(const struct cli_call *call) {
    const char *typed = call->words[call->n_words - 1];
    const struct cli_command *c = call->n_words > 1 ? cli_find(call->words[0]) : NULL;
    const struct cli_option *awaiting = NULL;
    const struct cli_argument *argument;
    if (call->n_words == 1)
        offer_kind(CLI_COMMAND, "", typed, "");
    if (!c)
        return cli_done;
    argument = c->arguments;
    for (unsigned i = 1; i + 1 < call->n_words; i++) {
        const char *word = call->words[i];
        if (awaiting)
            awaiting = NULL;
        else if (word[0] == '-' && word[1])
            awaiting = awaits_value(c, word);
        else if (argument->name && !argument->many)
            argument++;
    }
    if (awaiting)
        offer_kind(awaiting->kind, awaiting->value, typed, awaiting->name);
    else if (argument->name && typed[0] != '-')
        offer_kind(argument->kind, argument->name, typed, call->words[call->n_words - 2]);
    else
        offer_options(c, typed);
    return cli_done;
}

const struct cli_command complete_command = {
    .name = "complete",
    .run = run,
    .arguments = {{"WORD", .many = true}},
    .about = "Prints the completions of the last word, for shells: primeknet complete -- WORD...\n",
};
