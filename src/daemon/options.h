/* options.h - primeknetd's command line. */
#ifndef PRIMEKNET_OPTIONS_H
#define PRIMEKNET_OPTIONS_H

#include <stdbool.h>

enum { EXIT_MISUSE = 2 }; /* wrong arguments, or another daemon runs; restarting does not help */

struct options {
    const char *file; /* --config, or NULL */
    bool check;       /* --check-config */
};

/* Returns -1 to continue, or the exit status after --help, --version or a usage error. */
int options_parse(struct options *ret, int argc, char **argv);

#endif
