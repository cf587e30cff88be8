/* cli.h - the commands of `primeknet`. Each command is one row, next to its code; dispatch, help, usage errors,
 * suggestions and shell completion all use the row. A command prints an error as one line on stderr and returns the
 * exit status: 0 done, 1 failed, 2 usage error, 3 an input file could not be read completely. */
#ifndef PRIMEKNET_CLI_H
#define PRIMEKNET_CLI_H

#include "control/client.h"

#include <jansson.h>
#include <stdbool.h>

enum { cli_done = 0, cli_failed = 1, cli_misused = 2, cli_cut_short = 3 };
enum { CLI_MAX_ARGUMENTS = 4, CLI_MAX_OPTIONS = 10 };

/* The kind of a word on the command line, for completion. CLI_ONE_OF: one of the words in the argument's name, such as
 * "on|off", in any case; any other word is a usage error. */
enum cli_kind {
    CLI_ANY,
    CLI_FILE,
    CLI_COMMAND,
    CLI_SETTING,
    CLI_VALUE,
    CLI_MICROPHONE,
    CLI_MODEL,
    CLI_APPLICATION,
    CLI_ONE_OF
};

struct cli_argument {
    const char *name;
    enum cli_kind kind;
    bool optional, many; /* many: one or more (with optional: zero or more); only for the last argument */
};

struct cli_option {
    char letter;       /* -m, and ... */
    const char *name;  /* ... --model */
    const char *value; /* the name of its value, in capitals; NULL: takes none */
    enum cli_kind kind;
    const char *help;
    bool required;
};

/* clang-format off */
#define CLI_MODEL_OPTION \
    {'m', "model", "NAME|FILE", .kind = CLI_MODEL, .help = "small, base (default), large, auto, or a .safetensors file"}
#define CLI_ENGINE_OPTION \
    {'e', "engine", "auto|cuda|cpu", .kind = CLI_ONE_OF, .help = "what runs the model; default: auto, the best"}
/* clang-format on */

struct cli_call;

struct cli_command {
    const char *name;
    const char *summary; /* one line; NULL hides the command from lists */
    int (*run)(const struct cli_call *call);
    const char *usage[2]; /* for commands with two forms, which `arguments` cannot express */
    struct cli_argument arguments[CLI_MAX_ARGUMENTS]; /* the last one has no name */
    struct cli_option options[CLI_MAX_OPTIONS];       /* likewise; every command also has --help */
    const char *about;                                /* further help, whole lines */
};

extern const struct cli_command status_command, monitor_command, settings_command, set_command, unset_command,
    bypass_command, mics_command, use_command, profile_command, model_command, apps_command, app_command,
    default_command, setup_command, doctor_command, enhance_command, plot_command, mix_command, compare_command,
    bench_command, help_command, version_command, complete_command;
extern const struct cli_command *const cli_commands[]; /* terminated by NULL */

/* A parsed command line. */
struct cli_call {
    const struct cli_command *command;
    char **words; /* the arguments, terminated by NULL */
    unsigned n_words;
    char *values[CLI_MAX_OPTIONS]; /* of the options, in the row's order; NULL: not given */
};

/* Returns the value of an option: "" if it takes none, NULL if it was not given. */
const char *cli_option(const struct cli_call *call, char letter);
/* Returns the command with this name, or NULL. */
const struct cli_command *cli_find(const char *name);

/* Prints "primeknet: ..." on stderr; returns cli_failed. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "primeknet COMMAND: ..." and the usage on stderr; returns cli_misused. */
int cli_misuse(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sends a request to primeknetd and returns the answer. Takes ownership of `request`. Without an answer, prints the
 * reason and returns NULL. */
json_t *cli_ask(json_t *request);
void cli_print_json(const json_t *json);

#endif
