/* default.h - makes all applications hear Enhanced Mic, or reverts that. Functions that return an int print the result,
 * and return an exit status (cli.h). */
#ifndef PRIMEKNET_DEFAULT_H
#define PRIMEKNET_DEFAULT_H

#include <stdbool.h>

/* Makes Enhanced Mic the default; it then uses the previous default. */
int default_take(void);
/* Makes Enhanced Mic stand in for the microphone in every application that records that (node_transparent). */
int default_stand_in(void);
bool default_can_stand_in(void); /* whether the session manager supports that */
/* Restores the state before these. */
int default_return(void);

#endif
