#include "daemon/service.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

enum { STATUS_BYTES = 2048 }; /* the manager takes 4096 of a message, and nothing of one that is not UTF-8 */

bool service_is_managed(void) {
    const char *socket = getenv("NOTIFY_SOCKET");
    return socket && socket[0];
}

void service_ready(void) {
    sd_notify(0, "READY=1");
}

/* The time tells the manager which reload this answers; Type=notify-reload needs it. */
void service_reloading(void) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns() / 1000);
}

void service_stopping(void) {
    sd_notify(0, "STOPPING=1");
}

void service_status(const char *text) {
    static char last[STATUS_BYTES];
    char line[sizeof last];
    text_copy(line, sizeof line, text); /* a second line would be another message */
    if (strcmp(line, last) == 0)
        return;
    strcpy(last, line);
    sd_notifyf(0, "STATUS=%s", last);
}

/* A third of the manager's limit: one call may be late, and one may be left out, before it acts. */
int service_watchdog_ms(void) {
    uint64_t usec;
    if (sd_watchdog_enabled(0, &usec) <= 0)
        return -1;
    uint64_t ms = usec / 3000;
    return ms < 1 ? 1 : ms > 3600000 ? 3600000 : (int)ms;
}

void service_alive(void) {
    sd_notify(0, "WATCHDOG=1");
}
