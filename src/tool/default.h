/* default.h - Enhanced Mic as the default microphone. Both print what they have done or why not, and return an exit
 * status, as in cli.h. */
#ifndef PRIMEKNET_DEFAULT_H
#define PRIMEKNET_DEFAULT_H

/* Enhanced Mic becomes the default, and listens to the previous one. */
int default_take(void);
/* The previous one becomes the default again. */
int default_return(void);

#endif
