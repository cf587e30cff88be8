/* survey.h - a snapshot of PipeWire's graph, for commands that look once: the sources, the streams that record, their
 * settings, the sound cards, the default source, whether there is a session manager.
 *
 * Plain data to be read, until survey_close. One thread. Calls block, for 3 s at most if PipeWire hangs. */
#ifndef PRIMEKNET_SURVEY_H
#define PRIMEKNET_SURVEY_H

#include "base/err.h"
#include "graph/volume.h"

#include <stdbool.h>
#include <stdint.h>

struct survey_source {
    struct survey_source *next;
    uint32_t id, device;    /* device: UINT32_MAX where it belongs to none */
    char name[128], description[128]; /* node.name; for people */
    char profile[64];       /* of Bluetooth, "headset-head-unit", or "" */
    char codec[32];         /* of Bluetooth, "cvsd", or "" */
    struct volume volume;
    bool records_enhanced;  /* of a stream: it is linked to Enhanced Mic */
};

struct survey_device {
    struct survey_device *next;
    uint32_t id;
    char description[128], api[32]; /* "alsa", "bluez5" */
};

struct survey {
    char version[32]; /* of PipeWire */
    bool has_session_manager;
    char default_source[256];    /* node.name, or "" */
    char configured_source[256]; /* the one that the user has chosen, or "" */
    struct survey_source *sources, *streams; /* the second: those that record */
    struct survey_device *devices;
};

/* -EHOSTDOWN: no PipeWire answers. */
int survey_open(struct survey **ret, struct err *err);
void survey_close(struct survey *d); /* NULL is fine */

/* The source of that name. NULL: there is none. */
const struct survey_source *survey_find(const struct survey *d, const char *name);

/* Makes a source the default, as the sound settings of a desktop do; "": the session manager chooses again. */
int survey_set_default_source(struct survey *d, const char *name, struct err *err);

#endif
