/* options.h - primeknetd's command line. */
#ifndef PRIMEKNET_OPTIONS_H
#define PRIMEKNET_OPTIONS_H

#include <stdbool.h>

enum { EXIT_MISUSE = 2 }; /* arguments that cannot be used, or another daemon runs: starting again does not help */

struct options {
    const char *file; /* --config, or NULL */
    bool check;       /* --check-config */
};

/* Returns -1 or, if that is all there is to do, the exit status; then everything is printed. */
int options_parse(struct options *ret, int argc, char **argv);

#endif
