#include "daemon/power.h"

#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { path_max = 4096 };

/* Reads the first line of directory/entry/file; "" if there is none. */
static void read_line(char ret[32], const char *directory, const char *entry, const char *file) {
    char path[path_max];
    int n = snprintf(path, sizeof path, "%s/%s/%s", directory, entry, file);
    FILE *f = n < path_max ? fopen(path, "re") : NULL;
    if (!f || !fgets(ret, 32, f))
        ret[0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    if (f)
        fclose(f);
}

bool power_on_battery(const char *sys) {
    char directory[path_max], type[32], scope[32], state[32];
    bool discharging = false, mains = false;
    if (snprintf(directory, sizeof directory, "%s/class/power_supply", sys) >= path_max)
        return false;
    DIR *supplies = opendir(directory);
    for (const struct dirent *entry; supplies && (entry = readdir(supplies));) {
        read_line(type, directory, entry->d_name, "type");
        read_line(scope, directory, entry->d_name, "scope");
        if (strcmp(type, "Battery") == 0 && strcmp(scope, "Device") != 0) {
            read_line(state, directory, entry->d_name, "status");
            discharging |= strcmp(state, "Discharging") == 0;
        } else if (strcmp(type, "Mains") == 0 || strcmp(type, "USB") == 0) {
            read_line(state, directory, entry->d_name, "online");
            mains |= strcmp(state, "1") == 0;
        }
    }
    if (supplies)
        closedir(supplies);
    return discharging && !mains;
}

bool power_gpu_sleeps(const char *sys) {
    char directory[path_max], vendor[32], class[32], status[32];
    unsigned n_gpus = 0, n_asleep = 0;
    if (snprintf(directory, sizeof directory, "%s/bus/pci/devices", sys) >= path_max)
        return false;
    DIR *devices = opendir(directory);
    for (const struct dirent *entry; devices && (entry = readdir(devices));) {
        read_line(vendor, directory, entry->d_name, "vendor");
        read_line(class, directory, entry->d_name, "class");
        if (strcmp(vendor, "0x10de") != 0 || !text_begins(class, "0x03")) /* NVIDIA; a display controller */
            continue;
        read_line(status, directory, entry->d_name, "power/runtime_status");
        n_gpus++;
        n_asleep += strcmp(status, "suspended") == 0;
    }
    if (devices)
        closedir(devices);
    return n_gpus && n_asleep == n_gpus;
}
