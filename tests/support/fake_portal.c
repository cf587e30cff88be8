/* The desktop's portal for programs that start at login, on the session bus: prints one line per request. Its answer is
 * in the file that the argument names: "yes", "no" or, for a user who cancels, anything else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>

static const char *file;

static int answer(sd_bus *bus, const char *to, const char *path, int autostart) {
    char word[16] = "";
    FILE *f = fopen(file, "r");
    if (f && fscanf(f, "%15s", word) != 1)
        word[0] = '\0';
    if (f)
        fclose(f);
    const int yes = strcmp(word, "yes") == 0, no = strcmp(word, "no") == 0;
    sd_bus_message *m = NULL;
    int res = sd_bus_message_new_signal(bus, &m, path, "org.freedesktop.portal.Request", "Response");
    if (res >= 0)
        res = yes || no ? sd_bus_message_append(m, "ua{sv}", (uint32_t)0, 2, "background", "b", yes, "autostart", "b",
                                                yes && autostart)
                        : sd_bus_message_append(m, "ua{sv}", (uint32_t)1, 0);
    if (res >= 0)
        res = sd_bus_send_to(bus, m, to, NULL);
    sd_bus_message_unref(m);
    return res;
}

static int on_request(sd_bus_message *m, void *data, sd_bus_error *error) {
    const char *window, *key, *token = "", *reason = "", *program = "", *more = "";
    char sender[128], path[256];
    int autostart = 0, activatable = 0;
    (void)data, (void)error;
    int res = sd_bus_message_read(m, "s", &window);
    if (res >= 0)
        res = sd_bus_message_enter_container(m, 'a', "{sv}");
    while (res >= 0 && (res = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        sd_bus_message_read(m, "s", &key);
        if (strcmp(key, "handle_token") == 0)
            res = sd_bus_message_read(m, "v", "s", &token);
        else if (strcmp(key, "reason") == 0)
            res = sd_bus_message_read(m, "v", "s", &reason);
        else if (strcmp(key, "autostart") == 0)
            res = sd_bus_message_read(m, "v", "b", &autostart);
        else if (strcmp(key, "dbus-activatable") == 0)
            res = sd_bus_message_read(m, "v", "b", &activatable);
        else if (strcmp(key, "commandline") == 0)
            res = sd_bus_message_read(m, "v", "as", 1, &program);
        else
            res = sd_bus_message_read(m, "v", "s", &more);
        if (res >= 0)
            res = sd_bus_message_exit_container(m);
    }
    if (res < 0)
        return res;
    snprintf(sender, sizeof sender, "%s", sd_bus_message_get_sender(m) + 1);
    for (char *dot = sender; (dot = strchr(dot, '.'));)
        *dot = '_';
    snprintf(path, sizeof path, "/org/freedesktop/portal/desktop/request/%s/%s", sender, token);
    printf("autostart %d, activatable %d: %s (%s)\n", autostart, activatable, program, reason);
    fflush(stdout);
    res = sd_bus_reply_method_return(m, "o", path);
    return res < 0 ? res : answer(sd_bus_message_get_bus(m), sd_bus_message_get_sender(m), path, autostart);
}

static const sd_bus_vtable methods[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("RequestBackground", "sa{sv}", "o", on_request, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

int main(int argc, char **argv) {
    sd_bus *bus;
    if (argc != 2)
        return EXIT_FAILURE;
    file = argv[1];
    if (sd_bus_open_user(&bus) < 0 ||
        sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/portal/desktop", "org.freedesktop.portal.Background",
                                 methods, NULL) < 0 ||
        sd_bus_request_name(bus, "org.freedesktop.portal.Desktop", 0) < 0)
        return EXIT_FAILURE;
    puts("ready");
    fflush(stdout);
    while (sd_bus_process(bus, NULL) >= 0 && sd_bus_wait(bus, UINT64_MAX) >= 0)
        ;
    return EXIT_FAILURE;
}
