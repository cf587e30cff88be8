/* service.h - what the service manager is told, as sd_notify(3) has it. Everything does nothing where no manager
 * listens ($NOTIFY_SOCKET is not set). One thread, not real-time safe. */
#ifndef PRIMEKNET_SERVICE_H
#define PRIMEKNET_SERVICE_H

#include <stdbool.h>

bool service_is_managed(void); /* by one that starts the program again where its exit status asks for that */

void service_ready(void);
/* Followed by service_ready when the reload is over, whatever came of it. */
void service_reloading(void);
void service_stopping(void);

/* One line for people, "systemctl --user status" shows it; cut where it is too long. Sent only if it is another than
 * the last. */
void service_status(const char *text);

/* Milliseconds between two calls of service_alive that keep the watchdog quiet; -1, as for poll(2), without one. */
int service_watchdog_ms(void);
void service_alive(void);

#endif
