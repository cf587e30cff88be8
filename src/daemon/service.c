#include "daemon/service.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

enum { STATUS_BYTES = 2048 }; /* the manager reads at most 4096 bytes, and rejects a message that is not UTF-8 */

bool service_is_managed(void) {
    const char *socket = getenv("NOTIFY_SOCKET");
    return socket && socket[0];
}

void service_ready(void) {
    sd_notify(0, "READY=1");
}

/* Type=notify-reload needs the time to match this message to a reload. */
void service_reloading(void) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns() / 1000);
}

void service_stopping(void) {
    sd_notify(0, "STOPPING=1");
}

void service_status(const char *text) {
    static char last[STATUS_BYTES];
    char line[sizeof last];
    text_copy(line, sizeof line, text); /* a second line would be another assignment */
    if (strcmp(line, last) == 0)
        return;
    strcpy(last, line);
    sd_notifyf(0, "STATUS=%s", last);
}

/* A third of the manager's limit, so that one late and one missed call are harmless. */
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
