#include "config.h"

#include "tool/portal.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#define DAEMON "primeknetd"
#define PORTAL "org.freedesktop.portal.Desktop"
#define ROOT "/org/freedesktop/portal/desktop"

enum { ANSWER_S = 300 };

/* The portal answers a request by a signal. */
struct answer {
    bool is_there, starts;
    uint32_t response; /* 0: granted, 1: the user cancelled, 2: it failed */
};

bool portal_is_needed(void) {
    const char *id = getenv("FLATPAK_ID");
    return id && id[0];
}

static int read_answer(sd_bus_message *m, struct answer *ret) {
    const char *key;
    int res = sd_bus_message_read(m, "u", &ret->response), starts;
    if (res >= 0)
        res = sd_bus_message_enter_container(m, 'a', "{sv}");
    while (res >= 0 && (res = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        res = sd_bus_message_read(m, "s", &key);
        if (res >= 0 && strcmp(key, "autostart") == 0) {
            res = sd_bus_message_read(m, "v", "b", &starts);
            ret->starts = res >= 0 && starts;
        } else if (res >= 0) {
            res = sd_bus_message_skip(m, "v");
        }
        if (res >= 0)
            res = sd_bus_message_exit_container(m);
    }
    ret->is_there = res >= 0;
    return res;
}

static int on_response(sd_bus_message *m, void *data, sd_bus_error *error) {
    (void)error;
    return read_answer(m, data);
}

/* The path of a request is known before the call, so that no answer is missed. */
static int request(sd_bus *bus, bool enable, struct answer *answer, sd_bus_error *error) {
    const char *name;
    char token[32], sender[128], path[256];
    int res = sd_bus_get_unique_name(bus, &name); /* such as ":1.42" */
    if (res < 0)
        return res;
    snprintf(token, sizeof token, "primeknet%d", (int)getpid());
    snprintf(sender, sizeof sender, "%s", name + 1);
    for (char *dot = sender; (dot = strchr(dot, '.'));)
        *dot = '_';
    snprintf(path, sizeof path, ROOT "/request/%s/%s", sender, token);
    res = sd_bus_match_signal(bus, NULL, PORTAL, path, "org.freedesktop.portal.Request", "Response", on_response,
                              answer);
    if (res < 0)
        return res;
    return sd_bus_call_method(bus, PORTAL, ROOT, "org.freedesktop.portal.Background", "RequestBackground", error, NULL,
                              "sa{sv}", "", 5, "handle_token", "s", token, "reason", "s",
                              "Enhanced Mic, the microphone without noise", "autostart", "b", (int)enable,
                              "commandline", "as", 1, DAEMON, "dbus-activatable", "b", 0);
}

static int wait_for_answer(sd_bus *bus, const struct answer *answer) {
    const time_t end = time(NULL) + ANSWER_S;
    int res = 0;
    while (res >= 0 && !answer->is_there) {
        res = sd_bus_process(bus, NULL);
        if (res == 0 && time(NULL) >= end)
            return -ETIMEDOUT;
        if (res == 0)
            res = sd_bus_wait(bus, 1000000);
    }
    return res < 0 ? res : 0;
}

int portal_start_at_login(bool enable, struct err *err) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    struct answer answer = {0};
    sd_bus *bus = NULL;
    int res = sd_bus_open_user(&bus);
    if (res >= 0)
        res = request(bus, enable, &answer, &error);
    if (res >= 0)
        res = wait_for_answer(bus, &answer);
    if (res < 0)
        err_set(err, res, "the desktop's portal does not answer: %s", error.message ? error.message : strerror(-res));
    else if (enable && (answer.response != 0 || !answer.starts))
        res = err_set(err, -EACCES,
                      "the desktop refuses to start " DAEMON " at login; allow PrimeKnet to run in the "
                      "background in the desktop's settings");
    sd_bus_error_free(&error);
    sd_bus_flush_close_unref(bus);
    return res < 0 ? res : 0;
}
