/* desktop.h - PipeWire's graph as it is at one moment, for commands that look and end: the sources and how they are set,
 * the sound cards, which source is the default, whether a session manager is there.
 *
 * One thread; calls block, for 3 s at most where PipeWire hangs. What is returned is the snapshot's, until it is closed. */
#ifndef PRIMEKNET_DESKTOP_H
#define PRIMEKNET_DESKTOP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct desktop;

struct desktop_source {
    uint32_t id, device;    /* device: UINT32_MAX where it belongs to none */
    char name[128], description[128]; /* node.name; for people */
    char profile[64];       /* of Bluetooth, "headset-head-unit", or "" */
    char codec[32];         /* of Bluetooth, "cvsd", or "" */
    bool muted;
    double volume;          /* of its loudest channel, linear */
};

struct desktop_device {
    uint32_t id;
    char description[128], api[32]; /* "alsa", "bluez5" */
};

/* -EHOSTDOWN: no PipeWire answers. */
int desktop_open(struct desktop **ret, struct err *err);
void desktop_close(struct desktop *d); /* NULL is fine */

const struct desktop_source *desktop_source(const struct desktop *d, unsigned i); /* NULL: no more */
const struct desktop_source *desktop_find(const struct desktop *d, const char *name);
const struct desktop_device *desktop_device(const struct desktop *d, unsigned i);
const char *desktop_version(const struct desktop *d);         /* of PipeWire */
bool desktop_has_manager(const struct desktop *d);
const char *desktop_default_source(const struct desktop *d);    /* node.name, or "" */
const char *desktop_configured_source(const struct desktop *d); /* the one that the user has chosen, or "" */

/* Makes a source the default, as the sound settings of a desktop do; "": the session manager chooses again. */
int desktop_set_default_source(struct desktop *d, const char *name, struct err *err);

#endif
