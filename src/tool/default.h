/* default.h - makes Enhanced Mic the default microphone, or reverts that. Both functions print the result, and return
 * an exit status (cli.h). */
#ifndef PRIMEKNET_DEFAULT_H
#define PRIMEKNET_DEFAULT_H

/* Makes Enhanced Mic the default; it then uses the previous default. */
int default_take(void);
/* Restores the previous default. */
int default_return(void);

#endif
