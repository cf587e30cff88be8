#include "config.h"

#include "daemon/options.h"

#include "daemon/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void print_help(void) {
    puts("Usage: primeknetd [--config FILE] [--check-config]\n\n"
         "Provides \"Enhanced Mic\", the microphone without noise, to every application on PipeWire.\n\n"
         "  -c, --config FILE   read FILE instead of $XDG_CONFIG_HOME/primeknet/primeknet.conf\n"
         "                      or " SYSCONFDIR "/primeknet/primeknet.conf, and save\n"
         "                      in FILE-saved.conf, which overrides it\n"
         "  -k, --check-config  report whether the settings are valid, and exit\n"
         "  -h, --help          print this\n"
         "  -V, --version       print the version\n\n"
         "Settings, see primeknet.conf(5); SIGHUP reloads them:\n");
    for (int i = 0; i < N_SETTINGS; i++)
        printf("  %-16s  %s\n", settings_name(i), settings_allowed(i));
}

int options_parse(struct options *ret, int argc, char **argv) {
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"check-config", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    *ret = (struct options){0};
    for (int c; (c = getopt_long(argc, argv, "c:khV", options, NULL)) != -1;) {
        switch (c) {
        case 'c': ret->file = optarg; break;
        case 'k': ret->check = true; break;
        case 'h': print_help(); return EXIT_SUCCESS;
        case 'V': puts("primeknetd " PACKAGE_VERSION); return EXIT_SUCCESS;
        default: fputs("primeknetd --help lists the options\n", stderr); return EXIT_MISUSE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "primeknetd: \"%s\" is not an option; primeknetd --help lists them\n", argv[optind]);
        return EXIT_MISUSE;
    }
    return -1;
}
