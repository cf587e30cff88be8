#include "graph/microphone.h"

#include "base/text.h"

/* Returns the length of the constant part of a sound card's or a headset's name; 0 for other names. */
static size_t device_length(const char *name) {
    if (!text_begins(name, "alsa_input.") && !text_begins(name, "bluez_input."))
        return 0;
    const char *device = strchr(name, '.') + 1, *profile = strrchr(device, '.');
    size_t n = profile ? (size_t)(profile - name) : strlen(name);
    size_t digits = n;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (text_begins(device, "usb-") && digits < n && digits > (size_t)(device - name) && name[digits - 1] == '.')
        n = digits - 1; /* its number among devices of the same kind, in the order of plugging in */
    return n;
}

/* Bluetooth addresses are written in two ways. */
static bool same(char a, char b) {
    return a == b || (a == ':' && b == '_') || (a == '_' && b == ':');
}

int microphone_fits(const char *chosen, const char *name, const char *description) {
    if (strcmp(chosen, name) == 0)
        return 3;
    if (strcmp(chosen, description) == 0)
        return 2;
    size_t n = device_length(chosen);
    if (n == 0 || device_length(name) != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!same(chosen[i], name[i]))
            return 0;
    return 1;
}
