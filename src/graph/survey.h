/* survey.h - a snapshot of PipeWire's graph for commands: the sources, the streams that record, their volumes, the
 * sound cards, the default source, whether a session manager runs.
 *
 * Plain data, valid until survey_close. One thread. Calls block, for at most 3 s if PipeWire hangs. */
#ifndef PRIMEKNET_SURVEY_H
#define PRIMEKNET_SURVEY_H

#include "base/err.h"
#include "graph/volume.h"

#include <stdbool.h>
#include <stdint.h>

struct survey_source {
    struct survey_source *next;
    uint32_t id, device;              /* device: UINT32_MAX if it belongs to none */
    char name[128], description[128]; /* node.name; for display */
    char profile[64];                 /* of Bluetooth, "headset-head-unit", or "" */
    char codec[32];                   /* of Bluetooth, "cvsd", or "" */
    struct volume volume;
    bool records_enhanced; /* of a stream: linked to Enhanced Mic */
};

struct survey_device {
    struct survey_device *next;
    uint32_t id;
    char description[128], api[32]; /* "alsa", "bluez5" */
};

struct survey {
    char version[32]; /* of PipeWire */
    bool has_session_manager;
    bool has_filters;                        /* the session manager has smart filters (WirePlumber 0.5) */
    char default_source[256];                /* node.name, or "" */
    char configured_source[256];             /* the user's choice, or "" */
    struct survey_source *sources, *streams; /* streams: those that record */
    struct survey_device *devices;
};

/* Returns 0 or -errno; -EHOSTDOWN: PipeWire does not answer. */
int survey_open(struct survey **ret, struct err *err);
void survey_close(struct survey *d); /* d may be NULL */

/* Returns the source with this name, or NULL. */
const struct survey_source *survey_find(const struct survey *d, const char *name);

/* Makes a source the default, as a desktop's sound settings do; "": lets the session manager choose. */
int survey_set_default_source(struct survey *d, const char *name, struct err *err);

#endif
