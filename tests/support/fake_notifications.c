/* A notification service on the session bus: prints one line per notification. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-bus.h>

static int on_notify(sd_bus_message *m, void *data, sd_bus_error *error) {
    const char *program, *icon, *summary, *body;
    uint32_t replaced;
    (void)data, (void)error;
    int res = sd_bus_message_read(m, "susss", &program, &replaced, &icon, &summary, &body);
    if (res < 0)
        return res;
    printf("%s: %s: %s\n", program, summary, body);
    fflush(stdout);
    return sd_bus_reply_method_return(m, "u", (uint32_t)1);
}

static const sd_bus_vtable methods[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Notify", "susssasa{sv}i", "u", on_notify, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

int main(void) {
    static const char name[] = "org.freedesktop.Notifications";
    sd_bus *bus;
    if (sd_bus_open_user(&bus) < 0 ||
        sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/Notifications", name, methods, NULL) < 0 ||
        sd_bus_request_name(bus, name, 0) < 0)
        return EXIT_FAILURE;
    puts("ready");
    fflush(stdout);
    while (sd_bus_process(bus, NULL) >= 0 && sd_bus_wait(bus, UINT64_MAX) >= 0)
        ;
    return EXIT_FAILURE;
}
