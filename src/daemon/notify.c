#include "daemon/notify.h"

#include "base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <systemd/sd-bus.h>

enum { PATIENCE_US = 5000000 };

struct message {
    char summary[64], body[256];
};

static void *show(void *data) {
    struct message *m = data;
    sd_bus *bus = NULL;
    if (sd_bus_open_user(&bus) >= 0) {
        sd_bus_set_method_call_timeout(bus, PATIENCE_US);
        /* Replaces no notification, has no actions or hints, and lets the desktop decide how long to show it. */
        sd_bus_call_method(bus, "org.freedesktop.Notifications", "/org/freedesktop/Notifications",
                           "org.freedesktop.Notifications", "Notify", NULL, NULL, "susssasa{sv}i", "PrimeKnet",
                           (uint32_t)0, "audio-input-microphone", m->summary, m->body, (unsigned)0, (unsigned)0,
                           (int32_t)-1);
    }
    sd_bus_flush_close_unref(bus);
    free(m);
    return NULL;
}

void notify(const char *summary, const char *body) {
    struct message *m = malloc(sizeof *m);
    if (!m)
        return;
    text_copy(m->summary, sizeof m->summary, summary);
    text_copy(m->body, sizeof m->body, body);
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, show, m))
        free(m);
    else
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
