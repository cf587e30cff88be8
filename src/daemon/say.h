/* say.h - writes to the daemon's log: to stderr, or to the journal if stderr is connected to it. Any thread. */
#ifndef PRIMEKNET_SAY_H
#define PRIMEKNET_SAY_H

#include <systemd/sd-daemon.h>

/* Writes one line, cut at 1024 bytes, with spaces in place of control characters. priority: SD_INFO etc. of
 * sd-daemon(3). */
void say(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
