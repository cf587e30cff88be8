/* default.h - has all applications hear Enhanced Mic, or reverts that. The functions with a result print it, and return
 * an exit status (cli.h). */
#ifndef PRIMEKNET_DEFAULT_H
#define PRIMEKNET_DEFAULT_H

#include <stdbool.h>

/* Makes Enhanced Mic the default; it then uses the previous default. */
int default_take(void);
/* Has it stand in for the microphone, for whoever records that (node_transparent); and whether the session manager can
 * do so. */
int default_stand_in(void);
bool default_can_stand_in(void);
/* Restores what was before. */
int default_return(void);

#endif
