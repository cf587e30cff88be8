/* The program `primeknet`: its command line, help and errors. The commands are in the other files of this folder. */
#include "config.h"

#include "tool/cli.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct cli_command *const cli_commands[] = {
    &status_command, &monitor_command, &settings_command, &set_command, &unset_command, &bypass_command, &mics_command,
    &use_command, &profile_command, &model_command, &apps_command, &app_command,
#ifdef HAVE_DAEMON
    &default_command, &setup_command, &doctor_command,
#endif
    &enhance_command, &plot_command, &mix_command, &compare_command, &bench_command,
    &help_command, &version_command, &complete_command, NULL,
};
/* clang-format on */

/* ---- helpers for commands ---------------------------------------------------------------------------------------- */

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("primeknet: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return cli_failed;
}

const char *cli_option(const struct cli_call *call, char letter) {
    for (int i = 0; i < CLI_MAX_OPTIONS; i++)
        if (call->command->options[i].letter == letter)
            return call->values[i];
    return NULL;
}

const struct cli_command *cli_find(const char *name) {
    for (int i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

void cli_print_json(const json_t *json) {
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void print_usage(FILE *f, const struct cli_command *c) {
    int n_options = 0;
    if (c->usage[0]) {
        fprintf(f, "Usage: primeknet %s %s\n       primeknet %s %s\n", c->name, c->usage[0], c->name, c->usage[1]);
        return;
    }
    fprintf(f, "Usage: primeknet %s", c->name);
    for (const struct cli_argument *a = c->arguments; a->name; a++)
        fprintf(f, a->optional ? " [%s%s]" : " %s%s", a->name, a->many ? "..." : "");
    for (const struct cli_option *o = c->options; o->name; o++)
        if (o->required)
            fprintf(f, " --%s %s", o->name, o->value);
        else
            n_options++;
    if (n_options > 2)
        fputs(" [OPTION...]", f);
    for (const struct cli_option *o = c->options; o->name && n_options <= 2; o++)
        if (!o->required)
            fprintf(f, o->value ? " [--%s %s]" : " [--%s]", o->name, o->value);
    fputc('\n', f);
}

static void print_option(const struct cli_option *o) {
    int n = printf("  -%c, --%s%s%s", o->letter, o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("%*s  %s\n", n < 28 ? 28 - n : 0, "", o->help);
}

static const struct cli_option help_option = {'h', "help", .help = "this"};

static void print_help(const struct cli_command *c) {
    print_usage(stdout, c);
    printf("\n%s\n", c->about);
    for (const struct cli_option *o = c->options; o->name; o++)
        print_option(o);
    print_option(&help_option);
}

static void print_commands(FILE *f) {
    fputs("Usage: primeknet COMMAND [ARGUMENT...]\n\n", f);
    for (int i = 0; cli_commands[i]; i++)
        if (cli_commands[i]->summary)
            fprintf(f, "  %-9s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("\n`primeknet help COMMAND` explains a command; primeknetd(1) is the daemon.\n", f);
}

static int misnamed(const char *name) {
    struct likest l = {.word = name};
    for (int i = 0; cli_commands[i]; i++)
        if (cli_commands[i]->summary)
            likest_try(&l, cli_commands[i]->name);
    if (l.name)
        cli_fail("there is no command '%s'; did you mean %s?", name, l.name);
    else
        cli_fail("there is no command '%s'; primeknet help lists them", name);
    return cli_misused;
}

static int run_help(const struct cli_call *call) {
    if (!call->n_words) {
        print_commands(stdout);
        return cli_done;
    }
    const struct cli_command *c = cli_find(call->words[0]);
    if (!c)
        return misnamed(call->words[0]);
    print_help(c);
    return cli_done;
}

const struct cli_command help_command = {
    .name = "help",
    .summary = "list the commands, or explain one",
    .run = run_help,
    .arguments = {{"COMMAND", .kind = CLI_COMMAND, .optional = true}},
    .about = "Lists the commands of primeknet, or explains one.\n",
};

static int run_version(const struct cli_call *call) {
    (void)call;
    puts("primeknet " PACKAGE_VERSION);
    return cli_done;
}

const struct cli_command version_command = {
    .name = "version", .summary = "print the version", .run = run_version, .about = "Prints the version.\n"};

int cli_misuse(const struct cli_command *command, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "primeknet %s: ", command->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    print_usage(stderr, command);
    return cli_misused;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

enum { GO_ON = -1 }; /* not an exit status */

static const struct cli_option *find_option(const struct cli_command *c, char letter, const char *name) {
    for (const struct cli_option *o = c->options; o->name; o++)
        if (o->letter == letter || strcmp(o->name, name) == 0)
            return o;
    return letter == 'h' || strcmp(name, "help") == 0 ? &help_option : NULL;
}

/* `attached` is the value in the option's own word; NULL: the value is the next word. */
static int take_option(struct cli_call *call, const struct cli_option *o, char *attached, char ***next) {
    if (o == &help_option) {
        print_help(call->command);
        return cli_done;
    }
    if (attached && !o->value)
        return cli_misuse(call->command, "--%s takes no value", o->name);
    if (!attached && o->value && !(attached = *(*next)++))
        return cli_misuse(call->command, "%s is missing after --%s", o->value, o->name);
    call->values[o - call->command->options] = attached ? attached : (char *)"";
    return GO_ON;
}

static int take_long(struct cli_call *call, char *name, char ***next) {
    char *value = name;
    strsep(&value, "="); /* which ends the name there */
    const struct cli_option *o = find_option(call->command, '\0', name);
    if (o)
        return take_option(call, o, value, next);
    struct likest l = {.word = name};
    for (o = call->command->options; o->name; o++)
        likest_try(&l, o->name);
    return l.name ? cli_misuse(call->command, "there is no option --%s; did you mean --%s?", name, l.name)
                  : cli_misuse(call->command, "there is no option --%s", name);
}

static int take_short(struct cli_call *call, char *letters, char ***next) {
    int status = GO_ON;
    for (; *letters && status == GO_ON; letters++) {
        const struct cli_option *o = find_option(call->command, *letters, "");
        if (!o)
            return cli_misuse(call->command, "there is no option -%c", *letters);
        if (o->value)
            return take_option(call, o, letters[1] ? letters + 1 : NULL, next);
        status = take_option(call, o, NULL, next);
    }
    return status;
}

/* Writes a word as it stands in `name`, such as "on|off", whatever its case. option: whose value it is, or NULL. */
static int check_one_of(const struct cli_command *c, const char *option, const char *name, char **word) {
    char allowed[64] = "", *rest = strdupa(name);
    bool on;
    const char *as_switch = text_switch(*word, &on) ? (on ? "on" : "off") : NULL;
    for (char *one; (one = strsep(&rest, "|"));) {
        if (strcasecmp(one, *word) == 0) {
            strcpy(*word, one);
            return GO_ON;
        }
        if (as_switch && strcmp(one, as_switch) == 0) {
            *word = (char *)as_switch;
            return GO_ON;
        }
        text_add(allowed, sizeof allowed, "%s%s", !allowed[0] ? "" : rest ? ", " : " or ", one);
    }
    return cli_misuse(c, "%s%s%s'%s' is not %s", option ? "--" : "", option ? option : "", option ? ": " : "", *word,
                      allowed);
}

/* Collects the arguments at the start of argv. getopt is not suitable, because an argument may begin with a dash ("set
 * floor-db -18"). */
static int parse(struct cli_call *call, char **argv) {
    const struct cli_command *c = call->command;
    bool words_only = false;
    int status = GO_ON;
    call->words = argv;
    for (char *word; status == GO_ON && (word = *argv);) {
        argv++;
        if (words_only || word[0] != '-' || !(word[1] == '-' || isalpha((unsigned char)word[1])))
            call->words[call->n_words++] = word;
        else if (word[1] != '-')
            status = take_short(call, word + 1, &argv);
        else if (word[2])
            status = take_long(call, word + 2, &argv);
        else
            words_only = true;
    }
    if (status != GO_ON)
        return status;
    call->words[call->n_words] = NULL;
    unsigned i = 0, n_most = 0;
    for (const struct cli_argument *a = c->arguments; a->name; a++, i++) {
        if (i >= call->n_words && !a->optional)
            return cli_misuse(c, "%s is missing", a->name);
        if (i < call->n_words && a->kind == CLI_ONE_OF &&
            (status = check_one_of(c, NULL, a->name, &call->words[i])) != GO_ON)
            return status;
        n_most = a->many ? UINT_MAX : n_most + 1;
    }
    if (call->n_words > n_most)
        return cli_misuse(c, "'%s' is not expected", call->words[n_most]);
    for (i = 0; c->options[i].name; i++) {
        const struct cli_option *o = &c->options[i];
        if (o->required && !call->values[i])
            return cli_misuse(c, "--%s %s is missing", o->name, o->value);
        if (call->values[i] && o->kind == CLI_ONE_OF &&
            (status = check_one_of(c, o->name, o->value, &call->values[i])) != GO_ON)
            return status;
    }
    return GO_ON;
}

/* Checks that the output was written; the disk may be full. */
static int finish(int status) {
    errno = EIO;
    if (!(ferror(stdout) | fflush(stdout)))
        return status;
    const int failed = cli_fail("the output cannot be written: %s", strerror(errno));
    return status == cli_done ? failed : status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr);
        return cli_misused;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    struct cli_call call = {.command = cli_find(name)};
    if (!call.command)
        return misnamed(name);
    int status = parse(&call, argv + 2);
    return finish(status == GO_ON ? call.command->run(&call) : status);
}
