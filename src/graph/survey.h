/* survey.h - a snapshot of PipeWire's graph, for commands that look once: the sources, the streams that record, their
 * settings, the sound cards, the default source, whether there is a session manager.
 *
 * One thread. Calls block, for 3 s at most if PipeWire hangs. Pointers are valid until survey_close. */
#ifndef PRIMEKNET_SURVEY_H
#define PRIMEKNET_SURVEY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct survey;

struct survey_source {
    uint32_t id, device;    /* device: UINT32_MAX where it belongs to none */
    char name[128], description[128]; /* node.name; for people */
    char profile[64];       /* of Bluetooth, "headset-head-unit", or "" */
    char codec[32];         /* of Bluetooth, "cvsd", or "" */
    bool muted;
    double volume;          /* of its loudest channel, linear */
};

struct survey_device {
    uint32_t id;
    char description[128], api[32]; /* "alsa", "bluez5" */
};

/* -EHOSTDOWN: no PipeWire answers. */
int survey_open(struct survey **ret, struct err *err);
void survey_close(struct survey *d); /* NULL is fine */

const struct survey_source *survey_source(const struct survey *d, unsigned i); /* NULL: no more */
const struct survey_source *survey_stream(const struct survey *d, unsigned i); /* the same of the streams that record */
const struct survey_source *survey_find(const struct survey *d, const char *name);
const struct survey_device *survey_device(const struct survey *d, unsigned i);
const char *survey_version(const struct survey *d);         /* of PipeWire */
bool survey_has_session_manager(const struct survey *d);
const char *survey_default_source(const struct survey *d);    /* node.name, or "" */
const char *survey_configured_source(const struct survey *d); /* the one that the user has chosen, or "" */

/* Makes a source the default, as the sound settings of a desktop do; "": the session manager chooses again. */
int survey_set_default_source(struct survey *d, const char *name, struct err *err);

#endif
