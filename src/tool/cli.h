/* cli.h - the commands of `primeknet`. Each is one row, which stands beside what runs it: dispatch, help, usage errors,
 * suggestions and the shells' completions all come from the row. A command prints what went wrong as one line on stderr and
 * returns the exit status: 0 done, 1 failed, 2 called wrongly, 3 done as far as a file goes that is cut short. */
#ifndef PRIMEKNET_CLI_H
#define PRIMEKNET_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { cli_done = 0, cli_failed = 1, cli_misused = 2, cli_cut_short = 3 };
enum { CLI_MAX_ARGUMENTS = 4, CLI_MAX_OPTIONS = 8 };

/* What a word of the command line is, for who completes it. */
enum cli_kind { CLI_ANY, CLI_FILE, CLI_COMMAND, CLI_SETTING, CLI_VALUE, CLI_MICROPHONE, CLI_MODEL, CLI_ENGINE, CLI_SWITCH };

struct cli_argument {
    const char *name;
    enum cli_kind kind;
    bool optional, many; /* many: one or more, or with optional any number; the last only */
};

struct cli_option {
    char letter; /* -m, and ... */
    const char *name; /* ... --model */
    const char *value; /* what follows it, in capitals; NULL: nothing */
    enum cli_kind kind;
    const char *help;
    bool required;
};

#define CLI_MODEL_OPTION \
    {'m', "model", "NAME|FILE", .kind = CLI_MODEL, .help = "small, base (default), large, auto, or a .safetensors file"}
#define CLI_ENGINE_OPTION \
    {'e', "engine", "auto|cuda|cpu", .kind = CLI_ENGINE, .help = "what computes; default: auto, the best that opens"}

struct cli_call;

struct cli_command {
    const char *name;
    const char *summary; /* a line; NULL: it is not listed */
    int (*run)(const struct cli_call *call);
    const char *usage[2]; /* where there are two ways to call it, which the arguments cannot say */
    struct cli_argument arguments[CLI_MAX_ARGUMENTS]; /* up to one without a name */
    struct cli_option options[CLI_MAX_OPTIONS];       /* the same; --help is every command's */
    const char *about;   /* lines, the last one ended */
};

extern const struct cli_command status_command, monitor_command, set_command, bypass_command, mics_command, use_command,
    model_command, setup_command, doctor_command, enhance_command, plot_command, mix_command, compare_command, bench_command,
    help_command, version_command, complete_command;
extern const struct cli_command *const cli_commands[]; /* up to NULL */

/* What was typed, as far as the row has it. */
struct cli_call {
    const struct cli_command *command;
    char **words; /* the arguments, NULL after the last */
    unsigned n_words;
    const char *values[CLI_MAX_OPTIONS]; /* of options, in the row's order: NULL where one was not given */
};

/* The value of the option with that letter, "" of one that has none; NULL: it was not given. */
const char *cli_option(const struct cli_call *call, char letter);
/* NULL: there is none of that name. */
const struct cli_command *cli_find(const char *name);

/* "primeknet: ..." on stderr; returns cli_failed. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "primeknet COMMAND: ..." and how the command is called, on stderr; returns cli_misused. */
int cli_misuse(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Asks primeknetd once. Takes `request` over; NULL, with the reason on stderr, where no answer comes. */
json_t *cli_ask(json_t *request);
void cli_print_json(const json_t *json);
/* Of an answer: the text, or number, of a key; "" and 0 where there is none. */
static inline const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static inline double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* A number in [least, most] and nothing after it. */
bool cli_number(const char *text, double least, double most, double *ret);

#endif
