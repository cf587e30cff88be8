/* `primeknet`: what people say to a running primeknetd, the network on files, and how fast it is. */
#include "cli.h"

#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"status", status_command, "what Enhanced Mic is doing"},
    {"monitor", monitor_command, "the same, live, with level meters"},
    {"set", set_command, "change a setting while it runs: strength 0.7"},
    {"bypass", bypass_command, "on, off or toggle: the microphone as it is"},
    {"mics", mics_command, "the microphones there are"},
    {"use", use_command, "another microphone"},
    {"model", model_command, "another network"},
#ifdef HAVE_DAEMON
    {"setup", setup_command, "have it at every login"},
    {"doctor", doctor_command, "what is wrong, and what to do"},
#endif
    {"enhance", enhance_command, "clean the speech in a sound file"},
    {"plot", plot_command, "a picture of what the network does to a sound file"},
    {"mix", mix_command, "noisy test material, of speech, noise and rooms"},
    {"compare", compare_command, "how near enhanced files are to the clean one"},
    {"bench", bench_command, "time the network on this machine"},
};
enum { n_commands = sizeof commands / sizeof *commands };

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("primeknet: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return cli_failed;
}

bool cli_number(const char *text, double least, double most, double *ret) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !(value >= least && value <= most))
        return false;
    *ret = value;
    return true;
}

static void usage(FILE *f) {
    fputs("Usage: primeknet COMMAND [ARGUMENTS]\n\n", f);
    for (int i = 0; i < n_commands; i++)
        fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].help);
    fputs("\n`primeknet COMMAND --help` tells a command's arguments; the daemon is primeknetd(1).\n", f);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        usage(stderr);
        return cli_misused;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        usage(stdout);
        return cli_done;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("primeknet " PACKAGE_VERSION);
        return cli_done;
    }
    for (int i = 0; i < n_commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "primeknet: no command '%s'; see primeknet --help\n", argv[1]);
    return cli_misused;
}
