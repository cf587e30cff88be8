/* say.h - a line for the daemon's log: stderr, or the journal where that is the journal's. Any thread. */
#ifndef PRIMEKNET_SAY_H
#define PRIMEKNET_SAY_H

#include <systemd/sd-daemon.h>

/* One line, cut at 1024 bytes; control characters become blanks. priority: SD_INFO and its like of sd-daemon(3). */
void say(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
