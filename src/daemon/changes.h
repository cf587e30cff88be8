/* changes.h - the one road for a setting.
 *
 * Whoever wants other settings (the file at a SIGHUP, a client of the control socket, a program that sets a node's
 * Props) makes a request and hands it to changes_ask. There it is validated, applied, remembered and answered, at once
 * unless it needs another engine. Such a request waits until the engine is loaded; the others go on meanwhile:
 *
 * - What needs no engine is in force at once, and stays so when the engine comes.
 * - A newer request for an engine supersedes the one that is being loaded. Who waits is answered when the newest is
 *   decided.
 * - A newer reload of the file takes the place of one that waits, and a newer microphone that of another.
 * - A request for the engine in use ends the loading.
 * - Once the last deadline of those who wait has passed, the loading is taken back and all of them are refused.
 *
 * What is in force are the settings with the profile of the microphone in use, if there is one: a request, too. A value
 * is set, and saved, where it comes from. A profile that cannot be had is left out until the settings are read again.
 * A profile is made of what is in force, so that nothing else changes. It is made and removed in the saved file first.
 * What is saved can be unset: the value that the user's file has without it comes into force, and then it goes.
 *
 * A request that is to be saved is answered once it is, and a reload waits for its file; meanwhile others go on. What
 * was saved while a reload read the file has it read once more.
 *
 * A refused request changes nothing. Each request is answered once, except for one that a newer one replaces.
 *
 * Threads: one. Knows neither PipeWire nor an engine: changes_options does the work. Errors name the setting or the
 * file's line, and tell a code of protocol.h unless that is CODE_FAILED. */
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
    int setting;       /* of REQUEST_UNSET, REQUEST_SET ... */
    const char *value; /* ... as settings_set takes it; needed until changes_ask returns */
    bool save;         /* ... also into the saved file */
    const char *name, *description; /* of REQUEST_MICROPHONE: the one in use from now on; needed as long */
    enum { BYPASS_OFF, BYPASS_ON, BYPASS_TOGGLE } bypass;
    bool own; /* of REQUEST_PROFILE: the microphone in use has one from now on, or none */
    int64_t until; /* ms, as now_ms(): the deadline */
    /* Where the answer goes: the result and, if it is an error, why. NULL: nowhere. */
    void (*answer)(void *data, const struct request *r, int res, const struct err *err);
    void *data;
    unsigned client; /* the answer's own */
};

/* What is in force. */
struct in_force {
    struct settings settings;
    int profile; /* of these settings: whose values they have; -1: none's */
    struct err profile_refused; /* why they lack those of the microphone in use, or "" */
    bool bypass;
    bool loading;        /* an engine for other settings */
    struct err refused;  /* why the file's settings are not in force, or "" ... */
    const char *instead; /* ... and which are, for people */
};

struct changes_options {
    const char *file; /* as settings_load takes it */
    struct errands *errands; /* files are read and written there; NULL: at once */
    /* Opens everything with these settings, or nothing. Errors other than -ENOMEM and -EIO may be the settings'
     * fault. */
    int (*open)(void *data, const struct settings *s, struct err *err);
    /* Whether the engine in use, or on its way, takes as many signals as these settings ask for. */
    bool (*has_room)(void *data, const struct settings *s);
    /* Starts loading the engine for these settings: changes_loaded follows, unless load is called again. NULL: none. */
    void (*load)(void *data, const struct settings *s);
    /* Takes what can fail of the step from one to the other, or nothing of it; e: the engine that was loaded, or
     * NULL. */
    int (*apply)(void *data, const struct settings *now, const struct settings *next, const struct ready_engine *e,
                 struct err *err);
    /* Does the rest, after what is in force has changed. */
    void (*follow)(void *data);
    void (*say)(const char *priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void *data;
};

/* Opens everything with the file's settings or, if they cannot be used, the last good ones, else the defaults. */
int changes_open(struct changes **ret, const struct changes_options *options, struct err *err);
void changes_close(struct changes *c); /* NULL is fine; who waits is not answered */

void changes_ask(struct changes *c, const struct request *r);
/* Makes the requests of a program that has set a node's Props. A strength is taken as people write it: 0.7, not the
 * float nearest to it. The Props show the result. */
void changes_ask_controls(struct changes *c, float strength, bool bypass);
/* The result of changes_options.load; takes ownership of the engine. */
void changes_loaded(struct changes *c, int res, const struct ready_engine *e, const struct err *err);
/* Refuses requests whose deadline has passed. Returns the ms until it must be called again, or INT32_MAX. */
int64_t changes_step(struct changes *c, int64_t now);

/* Stays where it is until changes_close. */
const struct in_force *changes_now(const struct changes *c);
/* Whether a reload waits, for its file or an engine. */
bool changes_reloading(const struct changes *c);

#endif
