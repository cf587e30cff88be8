/* options.h - primeknetd's command line. */
#ifndef PRIMEKNET_OPTIONS_H
#define PRIMEKNET_OPTIONS_H

#include <stdbool.h>

enum { EXIT_MISUSE = 2 }; /* wrong arguments, or another daemon runs: a restart does not help */

struct options {
    const char *file; /* --config, or NULL */
    bool check;       /* --check-config */
};

/* Returns -1 to go on, or the exit status after --help, --version or a mistake. */
int options_parse(struct options *ret, int argc, char **argv);

#endif
