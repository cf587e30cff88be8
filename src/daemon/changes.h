/* changes.h - handles all changes of settings.
 *
 * Every change (a reload at SIGHUP, a client of the control socket, a program that sets a node's Props) is a request to
 * changes_ask. changes_ask validates, applies, saves and answers it, immediately unless it needs another engine. A
 * request for another engine waits until the engine is loaded; others proceed meanwhile:
 *
 * - A change that needs no engine takes effect immediately, and stays in effect when the engine arrives.
 * - A newer request for an engine supersedes the one that is being loaded. All waiting requests are answered when the
 *   newest is decided.
 * - A newer reload replaces a waiting one, and a newer microphone a waiting microphone.
 * - A request for the current engine cancels the loading.
 * - When the last deadline of the waiting requests has passed, the loading is cancelled and all of them are refused.
 *
 * The active profile, if the current microphone has one, overrides the base settings. Switching microphones is
 * therefore a request like any other. Setting a value changes, and saves, the profile if the value comes from it, else
 * the base settings. A profile that cannot be used is ignored until the settings are read again. A new profile starts
 * with the values in force, so creating it changes nothing else. Creating or removing a profile changes the saved file
 * first. Unsetting a saved value first puts the value without it into force, then removes it from the saved file.
 *
 * A request to save is answered after saving, and a reload waits for its file; others proceed meanwhile. If something
 * is saved while a reload reads the file, the file is read again. A waiting request to unset is made again after a
 * reload, which has read the value that is to go.
 *
 * A refused request changes nothing. Each request is answered once, except one that a newer request replaces.
 *
 * One thread. Independent of PipeWire and engines: the functions in changes_options do the work. Errors name the
 * setting or the file's line, and carry a code of protocol.h unless it is CODE_FAILED. */
#ifndef PRIMEKNET_CHANGES_H
#define PRIMEKNET_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/settings.h"

struct changes;
struct errands;
struct ready_engine;

enum { CHANGES_PATIENCE_MS = 120000 }; /* from a request to its usual deadline */

struct request {
    enum { REQUEST_RELOAD, REQUEST_SET, REQUEST_BYPASS, REQUEST_MICROPHONE, REQUEST_PROFILE, REQUEST_UNSET } what;
    int setting;                    /* REQUEST_UNSET, REQUEST_SET: the setting ... */
    const char *value;              /* ... REQUEST_SET: its value for settings_set; valid until changes_ask returns */
    bool save;                      /* REQUEST_SET: also save it */
    const char *name, *description; /* REQUEST_MICROPHONE: the new one; valid as long as value */
    enum { BYPASS_OFF, BYPASS_ON, BYPASS_TOGGLE } bypass;
    bool own;      /* REQUEST_PROFILE: create a profile for the current microphone, or remove it */
    int64_t until; /* the deadline in ms, as now_ms() */
    /* Receives the answer: 0 or -errno, and the error. May be NULL. */
    void (*answer)(void *data, const struct request *r, int res, const struct err *err);
    void *data;
    unsigned client; /* for `answer` */
};

/* The settings in force. */
struct in_force {
    struct settings settings;
    int profile;                /* index of the active profile in these settings; -1: none */
    struct err profile_refused; /* why the current microphone's profile is not active, or "" */
    bool bypass;
    bool loading;        /* an engine for other settings is being loaded */
    struct err refused;  /* why the file's settings are not in force, or "" ... */
    const char *instead; /* ... and which are in force instead, for display */
};

struct changes_options {
    const char *file;        /* as for settings_load */
    struct errands *errands; /* reads and writes files; NULL: files are accessed directly */
    /* Opens the engine and the nodes with these settings; on failure, leaves nothing open. Errors other than -ENOMEM
     * and -EIO may be caused by the settings. */
    int (*open)(void *data, const struct settings *s, struct err *err);
    /* Whether the engine in use, or being loaded, has enough streams for these settings. */
    bool (*has_room)(void *data, const struct settings *s);
    /* Starts loading the engine for these settings. changes_loaded follows unless load is called again. NULL: stop. */
    void (*load)(void *data, const struct settings *s);
    /* Applies those parts of the change from now to next that can fail, all or none of them. e: the loaded engine, or
     * NULL. */
    int (*apply)(void *data, const struct settings *now, const struct settings *next, const struct ready_engine *e,
                 struct err *err);
    /* Applies the rest, after the settings in force have changed. */
    void (*follow)(void *data);
    void (*say)(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void *data;
};

/* Opens everything with the file's settings or, if they cannot be used, the last good ones, else the defaults. */
int changes_open(struct changes **ret, const struct changes_options *options, struct err *err);
void changes_close(struct changes *c); /* c may be NULL; waiting requests get no answer */

void changes_ask(struct changes *c, const struct request *r);
/* Makes the requests for a program that has set a node's Props. Rounds the strength to the shortest decimal: 0.7, not
 * the float nearest to it. The Props show the result. */
void changes_ask_controls(struct changes *c, float strength, bool bypass);
/* Passes the result of changes_options.load; takes ownership of the engine. */
void changes_loaded(struct changes *c, int res, const struct ready_engine *e, const struct err *err);
/* Refuses requests whose deadline has passed. Returns the ms until the next call, or INT32_MAX. */
int64_t changes_step(struct changes *c, int64_t now);

/* The pointer is valid until changes_close. */
const struct in_force *changes_now(const struct changes *c);
/* Whether a reload waits for its file or an engine. */
bool changes_reloading(const struct changes *c);

#endif
