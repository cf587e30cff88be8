/* service.h - notifies the service manager, by sd_notify(3). Nothing happens if none listens ($NOTIFY_SOCKET is not
 * set). One thread, not real-time safe. */
#ifndef PRIMEKNET_SERVICE_H
#define PRIMEKNET_SERVICE_H

#include <stdbool.h>

bool service_is_managed(void); /* by one that restarts the program if its exit status asks for that */

void service_ready(void);
/* service_ready must follow when the reload ends, successful or not. */
void service_reloading(void);
void service_stopping(void);

/* Sets the line that "systemctl --user status" shows, cut if too long. Sent only if it differs from the last. */
void service_status(const char *text);

/* How often service_alive must be called to satisfy the watchdog, in ms; -1 without a watchdog, as for poll(2). */
int service_watchdog_ms(void);
void service_alive(void);

#endif
