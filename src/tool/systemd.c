#include "tool/systemd.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>

enum { CALL_US = 5000000, START_MS = 60000, POLL_MS = 100 };

#define SERVICE "org.freedesktop.systemd1"
#define ROOT "/org/freedesktop/systemd1"

struct systemd {
    sd_bus *bus;
};

/* Opens the manager's private socket, which needs no D-Bus. */
static int open_private(sd_bus **ret) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char address[256];
    sd_bus *bus = NULL;
    if (!runtime || snprintf(address, sizeof address, "unix:path=%s/systemd/private", runtime) >= (int)sizeof address)
        return -ENOENT;
    int res = sd_bus_new(&bus);
    if (res >= 0)
        res = sd_bus_set_address(bus, address);
    if (res >= 0)
        res = sd_bus_start(bus);
    if (res < 0)
        sd_bus_unref(bus);
    else
        *ret = bus;
    return res;
}

static int get_string(struct systemd *m, const char *path, const char *interface, const char *name, char *ret,
                      size_t size) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    char *text = NULL;
    int res = sd_bus_get_property_string(m->bus, SERVICE, path, interface, name, &error, &text);
    sd_bus_error_free(&error);
    snprintf(ret, size, "%s", res >= 0 ? text : "");
    free(text);
    return res;
}

int systemd_open(struct systemd **ret, struct err *err) {
    struct systemd *m = calloc(1, sizeof *m);
    char version[64];
    if (!m)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    int res = open_private(&m->bus);
    if (res < 0)
        res = sd_bus_open_user(&m->bus);
    if (res >= 0)
        res = sd_bus_set_method_call_timeout(m->bus, CALL_US);
    if (res >= 0)
        res = get_string(m, ROOT, SERVICE ".Manager", "Version", version, sizeof version);
    if (res < 0) {
        systemd_close(m);
        return err_set(err, -EHOSTDOWN, "no systemd user manager runs here");
    }
    *ret = m;
    return 0;
}

void systemd_close(struct systemd *m) {
    if (!m)
        return;
    sd_bus_flush_close_unref(m->bus);
    free(m);
}

static int refused(int res, const char *what, const char *unit, sd_bus_error *error, struct err *err) {
    err_set(err, res, "cannot %s %s: %s", what, unit, error->message ? error->message : strerror(-res));
    sd_bus_error_free(error);
    return res;
}

int systemd_unit(struct systemd *m, struct systemd_unit *ret, const char *unit, struct err *err) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    struct systemd_unit u = {0};
    const char *path = NULL;
    int32_t status = 0;
    uint32_t restarts = 0;
    int res = sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", "LoadUnit", &error, &reply, "s", unit);
    if (res >= 0)
        res = sd_bus_message_read(reply, "o", &path);
    if (res < 0) {
        sd_bus_message_unref(reply);
        return refused(res, "inspect", unit, &error, err);
    }
    get_string(m, path, SERVICE ".Unit", "LoadState", u.load, sizeof u.load);
    get_string(m, path, SERVICE ".Unit", "UnitFileState", u.file, sizeof u.file);
    get_string(m, path, SERVICE ".Unit", "ActiveState", u.active, sizeof u.active);
    get_string(m, path, SERVICE ".Service", "Result", u.result, sizeof u.result);
    sd_bus_get_property_trivial(m->bus, SERVICE, path, SERVICE ".Service", "ExecMainStatus", NULL, 'i', &status);
    sd_bus_get_property_trivial(m->bus, SERVICE, path, SERVICE ".Service", "NRestarts", NULL, 'u', &restarts);
    sd_bus_message_unref(reply);
    u.status = status;
    u.restarts = restarts;
    *ret = u;
    return 0;
}

int systemd_reload(struct systemd *m, struct err *err) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int res = sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", "Reload", &error, NULL, "");
    return res < 0 ? refused(res, "reload", "the units", &error, err) : 0;
}

int systemd_enable(struct systemd *m, const char *unit, bool enable, struct err *err) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int res = enable ? sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", "EnableUnitFiles", &error, NULL,
                                          "asbb", 1, unit, false, false)
                     : sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", "DisableUnitFiles", &error, NULL,
                                          "asb", 1, unit, false);
    if (res < 0)
        return refused(res, enable ? "enable" : "disable", unit, &error, err);
    return systemd_reload(m, err);
}

/* Returns the id of the unit's job, or 0. */
static uint32_t job(struct systemd *m, const char *unit) {
    sd_bus_message *reply = NULL, *value = NULL;
    const char *path;
    uint32_t id = 0;
    if (sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", "LoadUnit", NULL, &reply, "s", unit) >= 0 &&
        sd_bus_message_read(reply, "o", &path) >= 0 &&
        sd_bus_get_property(m->bus, SERVICE, path, SERVICE ".Unit", "Job", NULL, &value, "(uo)") >= 0)
        sd_bus_message_read(value, "(uo)", &id, NULL);
    sd_bus_message_unref(value);
    sd_bus_message_unref(reply);
    return id;
}

static int await(struct systemd *m, struct systemd_unit *ret, const char *unit, struct err *err) {
    for (int ms = 0; job(m, unit); ms += POLL_MS) {
        if (ms >= START_MS)
            return err_set(err, -ETIMEDOUT, "%s neither starts nor stops", unit);
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    return systemd_unit(m, ret, unit, err);
}

static int order(struct systemd *m, const char *method, const char *unit, const char *what, struct systemd_unit *ret,
                 struct err *err) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int res = sd_bus_call_method(m->bus, SERVICE, ROOT, SERVICE ".Manager", method, &error, NULL, "ss", unit,
                                 "replace");
    return res < 0 ? refused(res, what, unit, &error, err) : await(m, ret, unit, err);
}

int systemd_start(struct systemd *m, const char *unit, struct err *err) {
    struct systemd_unit u;
    int res = order(m, "RestartUnit", unit, "start", &u, err);
    if (res == 0 && strcmp(u.active, "active") != 0)
        return err_set(err, -ECANCELED, "%s did not start (%s, exit status %d)", unit, u.result, u.status);
    return res;
}

int systemd_stop(struct systemd *m, const char *unit, struct err *err) {
    struct systemd_unit u;
    return order(m, "StopUnit", unit, "stop", &u, err);
}
