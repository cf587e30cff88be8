#include "config.h"

#include "daemon/options.h"

#include "daemon/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void print_help(void) {
    puts("Usage: primeknetd [--config FILE] [--check-config]\n\n"
         "Offers \"Enhanced Mic\", the microphone without noise, to every application on PipeWire.\n\n"
         "  -c, --config FILE   settings from FILE instead of $XDG_CONFIG_HOME/primeknet/primeknet.conf\n"
         "                      or " SYSCONFDIR "/primeknet/primeknet.conf, and upon them\n"
         "                      what was saved, in FILE-saved.conf beside FILE.conf\n"
         "  -k, --check-config  say whether the settings are fine, and end\n"
         "  -h, --help          this\n"
         "  -V, --version       the version\n\n"
         "Settings, see primeknet.conf(5); SIGHUP reads them again:\n");
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
        case 'c':
            ret->file = optarg;
            break;
        case 'k':
            ret->check = true;
            break;
        case 'h':
            print_help();
            return EXIT_SUCCESS;
        case 'V':
            puts("primeknetd " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        default:
            fputs("primeknetd --help tells the options\n", stderr);
            return EXIT_MISUSE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "primeknetd: \"%s\" is no option; primeknetd --help tells them\n", argv[optind]);
        return EXIT_MISUSE;
    }
    return -1;
}
