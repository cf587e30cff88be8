/* service.h - notifies the service manager with sd_notify(3). Does nothing if $NOTIFY_SOCKET is not set. One thread,
 * not real-time safe. */
#ifndef PRIMEKNET_SERVICE_H
#define PRIMEKNET_SERVICE_H

#include <stdbool.h>

bool service_is_managed(void); /* by a manager that restarts the program after a failure status */

void service_ready(void);
/* Call service_ready when the reload ends, successful or not. */
void service_reloading(void);
void service_stopping(void);

/* Sets the line that "systemctl --user status" shows, cut if too long. Sends it only if it has changed. */
void service_status(const char *text);

/* Returns the interval in ms at which to call service_alive for the watchdog; -1, as for poll(2), without one. */
int service_watchdog_ms(void);
void service_alive(void);

#endif
