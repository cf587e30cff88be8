#include "daemon/changes.h"

#include "base/clock.h"
#include "base/errands.h"
#include "base/state.h"
#include "base/text.h"
#include "control/protocol.h"
#include "graph/microphone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define GOOD "settings" /* the state file with the last good settings */

enum {
    MAX_WAITING = 64, /* more than the control socket's clients */
    LATER = 1,        /* neither done nor refused yet: the request waits ... */
    FILE_LATER,       /* ... or another function has answered it, or will */
};

struct changes {
    struct changes_options options;
    struct in_force now;
    struct settings base;             /* the settings in force, without the profile */
    struct settings next;             /* while an engine is loaded: the base settings to put into force then ... */
    struct settings loaded;           /* ... with the profile for which it is loaded */
    char name[256], description[256]; /* of the current microphone */
    bool no_profile;                  /* its profile cannot be used */
    struct request waiting[MAX_WAITING];
    unsigned n_waiting;
    unsigned n_reading; /* reloads whose file is being read */
    unsigned n_saves;   /* so far */
};

/* ---- what is remembered ------------------------------------------------------------------------------------------ */

/* data: the changes' options */
static void copy_good(void *data) {
    const struct changes_options *const o = data;
    struct settings s;
    struct err err;
    char path[STATE_PATH];
    if (settings_load(&s, NULL, &err) < 0 || !state_path(path, GOOD))
        return;
    if (settings_write(&s, path, &err) < 0)
        o->say(SD_WARNING, "the settings cannot be kept for a start with an invalid file: %s", err.text);
}

/* Stores a copy of the user's settings in force, for a start with an invalid file. */
static void keep_good(const struct changes *c) {
    if (!c->options.file && !c->now.refused.text[0])
        errands_send(c->options.errands, copy_good, NULL, &c->options, sizeof c->options);
}

/* Loads the last good settings in place of an invalid file. Later changes are still saved to that file's saved file. */
static bool load_good(struct changes *c) {
    struct settings good;
    struct err err;
    char path[STATE_PATH];
    if (c->options.file || !state_path(path, GOOD) || settings_read(&good, path, &err) < 0)
        return false;
    memcpy(good.file, c->base.file, sizeof good.file);
    memcpy(good.saved, c->base.saved, sizeof good.saved);
    good.live = ~0u;
    for (unsigned i = 0; i < good.n_profiles; i++)
        good.profiles[i].live = ~0u;
    c->base = good;
    return true;
}

static void load_defaults(struct changes *c) {
    const struct settings refused = c->base;
    struct err err;
    settings_parse(&c->base, "", 0, refused.file, &err);
    memcpy(c->base.saved, refused.saved, sizeof refused.saved);
}

static void refuse_file(struct changes *c, const struct err *err, const char *instead) {
    c->now.refused = *err;
    c->now.instead = instead;
}

/* A request that changes the saved file. */
struct saving {
    struct changes *c;
    struct request request;
    struct settings settings; /* without the profile */
    int profile;              /* as for settings_save */
    char microphone[256];     /* REQUEST_PROFILE: as for settings_save_profile */
    struct settings saved;    /* the file's new content */
    int res;
    struct err err;
};

static void run_save(void *data) {
    struct saving *const x = data;
    const struct request *const r = &x->request;
    const char *const file = x->c->options.file;
    if (r->what == REQUEST_PROFILE)
        x->res = settings_save_profile(&x->saved, &x->settings, file, x->microphone, &x->err);
    else if (r->what == REQUEST_UNSET)
        x->res = settings_unsave(&x->saved, file, r->setting, &x->err);
    else
        x->res = settings_save(&x->saved, &x->settings, file, x->profile, r->setting, &x->err);
}

/* Updates in all settings which values are saved, and where. Changes no value in force. */
static void note_saved(struct changes *c, const struct settings *saved) {
    settings_note_saved(&c->base, saved);
    settings_note_saved(&c->next, saved);
    c->now.settings = c->base;
    if (c->now.profile >= 0)
        settings_use_profile(&c->now.settings, (unsigned)c->now.profile);
    keep_good(c);
}

static int refuse(int res, const char *code, struct err *err) {
    return err_about(err, res, (struct err_about){.code = code});
}

static void tell(const struct request *r, int res, const struct err *err) {
    if (r->answer)
        r->answer(r->data, r, res, err);
}

static void end_save(void *data) {
    struct saving *const x = data;
    struct changes *const c = x->c;
    const int setting = x->request.setting;
    char text[sizeof c->base.model];
    struct err why = x->err;
    if (x->res) {
        settings_text(&c->now.settings, setting, text, sizeof text);
        err_set(&why, x->res, "%s is now %s, but %s: %.300s", settings_name(setting), text,
                x->request.what == REQUEST_UNSET ? "what was saved stays" : "not saved", x->err.text);
        refuse(x->res, CODE_NOT_SAVED, &why);
    } else {
        note_saved(c, &x->saved);
    }
    tell(&x->request, x->res, &why);
}

/* Saves a request that is in force; it is answered after that. */
static void save(struct changes *c, const struct request *r) {
    const struct saving x = {.c = c, .request = *r, .settings = c->base, .profile = c->now.profile};
    struct err err;
    c->n_saves++;
    if (errands_send(c->options.errands, run_save, end_save, &x, sizeof x) < 0)
        tell(r,
             refuse(err_set(&err, -ENOMEM, "%s is in force, but not saved: out of memory", settings_name(r->setting)),
                    CODE_NOT_SAVED, &err),
             &err);
}

/* Logs the files from which the settings come, and lines of the user's file that have no effect. */
static void tell_files(const struct changes *c, const char *format) {
    const struct settings *const s = &c->base;
    char files[sizeof s->file + sizeof s->saved];
    settings_files(s, files, sizeof files);
    c->options.say(SD_INFO, format, files[0] ? files : "the defaults, there is no file");
    for (unsigned i = 0; i < s->n_hidden; i++) {
        const struct hidden *const h = &s->hidden[i];
        c->options.say(SD_NOTICE, "%s:%d: %s has no effect, because %s:%d overrides it", s->file, h->line,
                       h->setting < 0 ? "this profile" : settings_name(h->setting), s->saved, h->saved_line);
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void end_reload(struct changes *c, int res, const struct err *err) {
    if (res == 0) {
        tell_files(c, c->now.refused.text[0] ? "settings reloaded: %s, as they were before those that are refused"
                                             : "settings reloaded: %s");
        keep_good(c);
    } else {
        if (!c->now.refused.text[0])
            refuse_file(c, err, "those from before");
        if (!c->now.loading && c->now.profile < 0)
            c->no_profile = true; /* what was unavailable before is not retried with the next change */
        c->options.say(SD_ERR, "settings not reloaded: %s", err->text);
    }
}

/* Continues without the current microphone's profile, which cannot be used. */
static void refuse_profile(struct changes *c, const struct err *err) {
    if (c->no_profile)
        return;
    c->options.say(SD_ERR, "the profile of %s is not used: %s", c->description, err->text);
    c->no_profile = true;
    c->now.profile_refused = *err;
    changes_ask(c, &(struct request){.what = REQUEST_MICROPHONE,
                                     .name = c->name,
                                     .description = c->description,
                                     .until = now_ms() + CHANGES_PATIENCE_MS});
}

/* Tries the current microphone's profile (again). */
static void try_profile(struct changes *c) {
    c->no_profile = false;
    c->now.profile_refused.text[0] = '\0';
}

static void answer(struct changes *c, const struct request *r, int res, const struct err *err) {
    if (res && r->what == REQUEST_MICROPHONE)
        refuse_profile(c, err);
    if (r->what == REQUEST_RELOAD)
        end_reload(c, res, err);
    if (res == 0 && r->save)
        save(c, r);
    else
        tell(r, res, err);
}

/* An answer may trigger another request, which may wait, too. */
static void answer_all(struct changes *c, int res, const struct err *err) {
    struct request waiting[MAX_WAITING];
    const unsigned n = c->n_waiting;
    memcpy(waiting, c->waiting, n * sizeof waiting[0]);
    c->n_waiting = 0;
    for (unsigned i = 0; i < n; i++)
        answer(c, &waiting[i], res, err);
}

/* Returns the index of the waiting reload, or microphone; n_waiting: none. */
static unsigned find_waiting(const struct changes *c, unsigned what) {
    unsigned i = 0;
    while (i < c->n_waiting && c->waiting[i].what != what)
        i++;
    return i;
}

/* Replaces it with a newer one. */
static void forget_waiting(struct changes *c, unsigned what) {
    const unsigned i = find_waiting(c, what);
    if (i < c->n_waiting)
        memmove(&c->waiting[i], &c->waiting[i + 1], (--c->n_waiting - i) * sizeof c->waiting[0]);
}

/* Takes the requests to unset out of the queue. Returns their number. */
static unsigned take_unsets(struct changes *c, struct request unsets[MAX_WAITING]) {
    unsigned n = 0;
    for (unsigned i; (i = find_waiting(c, REQUEST_UNSET)) < c->n_waiting; forget_waiting(c, REQUEST_UNSET))
        unsets[n++] = c->waiting[i];
    return n;
}

static int too_many(struct err *err) {
    return refuse(err_set(err, -EBUSY, "too many requests already wait for an engine"), CODE_BUSY, err);
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static bool same_voice(const struct settings *a, const struct settings *b) {
    const bool a_far = strcmp(a->speaker, "off") != 0, b_far = strcmp(b->speaker, "off") != 0;
    return a->my_voice == b->my_voice && (!a->my_voice || a_far == b_far);
}

static bool same_engine(const struct settings *a, const struct settings *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->engine, b->engine) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           same_voice(a, b);
}

/* Returns the profile of these settings that fits the current microphone best; -1: none. */
static int find_fitting(const struct changes *c, const struct settings *s) {
    int best = -1, most = 0;
    for (unsigned i = 0; i < s->n_profiles && c->name[0]; i++) {
        const int fits = microphone_fits(s->profiles[i].microphone, c->name, c->description);
        if (fits > most) {
            most = fits;
            best = (int)i;
        }
    }
    return best;
}

/* Returns the profile to use. */
static int find_profile(const struct changes *c, const struct settings *s) {
    return c->no_profile ? -1 : find_fitting(c, s);
}

static struct settings with_profile(const struct changes *c, const struct settings *base) {
    struct settings s = *base;
    const int profile = find_profile(c, base);
    if (profile >= 0)
        settings_use_profile(&s, (unsigned)profile);
    return s;
}

static bool needs_engine(const struct changes *c, const struct settings *next) {
    return !same_engine(next, &c->now.settings) || !c->options.has_room(c->options.data, next);
}

static int put_in_force(struct changes *c, const struct settings *base, const struct ready_engine *e, struct err *err) {
    const struct settings next = with_profile(c, base);
    int res = c->options.apply(c->options.data, &c->now.settings, &next, e, err);
    if (res)
        return res;
    c->base = *base;
    c->now.settings = next;
    c->now.profile = find_profile(c, base);
    c->options.follow(c->options.data);
    return 0;
}

/* Applies a change that was made to both the awaited settings (`next`) and those in force (`now`), without the profile.
 * LATER: an engine is being loaded for it. */
static int change(struct changes *c, const struct settings *next, const struct settings *now, struct err *err) {
    const struct settings wanted = with_profile(c, next), at_once = with_profile(c, now);
    const bool supersedes = c->now.loading && (!same_engine(&wanted, &c->loaded) ||
                                               settings_streams(&wanted) != settings_streams(&c->loaded));
    if (!supersedes && !needs_engine(c, &at_once)) {
        int res = put_in_force(c, now, NULL, err);
        if (res == 0)
            c->next = *next;
        return res;
    }
    if (needs_engine(c, &wanted)) {
        if (c->n_waiting == MAX_WAITING)
            return too_many(err);
        if (supersedes || !c->now.loading)
            c->options.load(c->options.data, &wanted);
        c->next = *next;
        c->loaded = wanted;
        c->now.loading = true;
        return LATER;
    }
    /* Cancels the loading: the current engine is wanted again. */
    c->options.load(c->options.data, NULL);
    c->now.loading = false;
    int res = put_in_force(c, next, NULL, err);
    answer_all(c, res, err);
    return res;
}

static void decide(struct changes *c, const struct request *r, int res, const struct err *err) {
    if (res == LATER)
        c->waiting[c->n_waiting++] = *r;
    else
        answer(c, r, res, err);
}

/* A reload, or an unset, whose files are being read. */
struct reading {
    struct changes *c;
    struct request request;
    struct settings settings;
    unsigned n_saves; /* the previous value in the changes */
    int res;
    struct err err;
};

static void run_read(void *data) {
    struct reading *const x = data;
    x->res = settings_load(&x->settings, x->c->options.file, &x->err);
}

static void end_read(void *data) {
    struct reading *const x = data;
    struct changes *const c = x->c;
    struct request unsets[MAX_WAITING]; /* made again: the file that was read still has what they unset */
    unsigned n_unsets = 0;
    int res = x->res;
    c->n_reading--;
    if (x->n_saves != c->n_saves) { /* the file has a newer value by now, which is in force already */
        changes_ask(c, &x->request);
        return;
    }
    c->now.refused.text[0] = '\0'; /* from now on this file's settings count, whatever happens to a reload in
                                    * progress */
    if (res == 0) {
        try_profile(c);
        forget_waiting(c, REQUEST_RELOAD);
        n_unsets = take_unsets(c, unsets);
        res = change(c, &x->settings, &x->settings, &x->err);
    }
    decide(c, &x->request, res, &x->err);
    for (unsigned i = 0; i < n_unsets; i++)
        changes_ask(c, &unsets[i]);
}

static int reload(struct changes *c, const struct request *r, struct err *err) {
    const struct reading x = {.c = c, .request = *r, .n_saves = c->n_saves};
    c->n_reading++;
    if (errands_send(c->options.errands, run_read, end_read, &x, sizeof x) == 0)
        return FILE_LATER;
    c->n_reading--;
    return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
}

static int set(struct changes *c, const struct request *r, struct err *err) {
    struct settings now = c->base, next = c->now.loading ? c->next : now;
    int res = settings_set_in(&now, find_profile(c, &now), r->setting, r->value, err);
    if (res == 0)
        res = settings_set_in(&next, find_profile(c, &next), r->setting, r->value, err);
    return res ? res : change(c, &next, &now, err);
}

/* Handles a new microphone. */
static int microphone(struct changes *c, const struct request *r, struct err *err) {
    const struct settings now = c->base, next = c->now.loading ? c->next : now;
    if (r->name != c->name) { /* otherwise it is the same one again, without its profile */
        char name[sizeof c->name], description[sizeof c->description];
        text_copy(name, sizeof name, r->name);
        text_copy(description, sizeof description, r->description);
        if (strcmp(name, c->name) == 0 && strcmp(description, c->description) == 0)
            return 0;
        strcpy(c->name, name);
        strcpy(c->description, description);
        try_profile(c);
    }
    if (!c->now.loading && find_profile(c, &now) == c->now.profile)
        return 0;
    forget_waiting(c, REQUEST_MICROPHONE);
    return change(c, &next, &now, err);
}

static int change_profile(const struct changes *c, struct settings *s, bool own, struct err *err) {
    const int there = find_fitting(c, s);
    if (own && there < 0)
        return settings_add_profile(s, c->name, err);
    if (!own && there >= 0)
        settings_remove_profile(s, (unsigned)there);
    return 0;
}

/* Applies a profile, created in or removed from the file, to the settings in force and the awaited ones. */
static void end_profile(void *data) {
    struct saving *const x = data;
    struct changes *const c = x->c;
    struct settings now = c->base, next = c->now.loading ? c->next : now;
    int res = x->res;
    if (res == 0)
        res = change_profile(c, &now, x->request.own, &x->err);
    if (res == 0)
        res = change_profile(c, &next, x->request.own, &x->err);
    if (res == 0) {
        settings_note_saved(&now, &x->saved);
        settings_note_saved(&next, &x->saved);
        keep_good(c);
        try_profile(c);
        res = change(c, &next, &now, &x->err);
    }
    decide(c, &x->request, res, &x->err);
}

/* Creates or removes the current microphone's profile. */
static int profile(struct changes *c, const struct request *r, struct err *err) {
    struct saving x = {.c = c, .request = *r, .settings = c->base};
    const int there = find_fitting(c, &c->base);
    if (!c->name[0])
        return refuse(err_set(err, -ENOENT, "there is no microphone"), CODE_NO_MICROPHONE, err);
    if (c->n_waiting >= MAX_WAITING) /* before the file changes */
        return too_many(err);
    if (r->own && there >= 0 && c->no_profile)
        return refuse(err_set(err, -EEXIST, "the profile of %.80s is not used: %.300s", c->description,
                              c->now.profile_refused.text[0] ? c->now.profile_refused.text : c->now.refused.text),
                      CODE_PROFILE_REFUSED, err);
    if (r->own == (there >= 0))
        return 0;
    strcpy(x.microphone, r->own ? c->name : x.settings.profiles[there].microphone);
    int res = change_profile(c, &x.settings, r->own, err);
    c->n_saves += res == 0;
    if (res == 0 && errands_send(c->options.errands, run_save, end_profile, &x, sizeof x) < 0)
        res = err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    return res ? res : FILE_LATER;
}

static void run_unset(void *data) {
    struct reading *const x = data;
    x->res = settings_load_without(&x->settings, x->c->options.file, x->request.setting, &x->err);
}

static void end_unset(void *data) {
    struct reading *const x = data;
    struct changes *const c = x->c;
    struct settings now = c->base, next = c->now.loading ? c->next : now;
    if (x->res == 0) {
        settings_take(&now, &x->settings, x->request.setting);
        settings_take(&next, &x->settings, x->request.setting);
        x->res = change(c, &next, &now, &x->err);
    }
    decide(c, &x->request, x->res, &x->err);
}

/* Puts the value without the saved one into force, then removes the saved one. */
static int unset(struct changes *c, const struct request *r, struct err *err) {
    struct reading x = {.c = c, .request = *r};
    x.request.save = true;
    return errands_send(c->options.errands, run_unset, end_unset, &x, sizeof x) == 0
               ? FILE_LATER
               : err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
}

static void bypass(struct changes *c, const struct request *r) {
    c->now.bypass = r->bypass == BYPASS_TOGGLE ? !c->now.bypass : r->bypass == BYPASS_ON;
    c->options.follow(c->options.data);
}

void changes_ask(struct changes *c, const struct request *r) {
    struct err err = {0};
    int res = 0;
    if (r->what == REQUEST_RELOAD)
        res = reload(c, r, &err);
    else if (r->what == REQUEST_SET)
        res = set(c, r, &err);
    else if (r->what == REQUEST_MICROPHONE)
        res = microphone(c, r, &err);
    else if (r->what == REQUEST_PROFILE)
        res = profile(c, r, &err);
    else if (r->what == REQUEST_UNSET)
        res = unset(c, r, &err);
    else
        bypass(c, r);
    if (res != FILE_LATER)
        decide(c, r, res, &err);
}

void changes_ask_controls(struct changes *c, float strength, bool bypass_on) {
    if (strength != (float)c->now.settings.strength) {
        struct settings wanted = {.strength = strength};
        char value[64];
        settings_text(&wanted, SETTING_strength, value, sizeof value);
        changes_ask(c, &(struct request){.what = REQUEST_SET, .setting = SETTING_strength, .value = value});
    }
    if (bypass_on != c->now.bypass)
        changes_ask(c, &(struct request){.what = REQUEST_BYPASS, .bypass = bypass_on ? BYPASS_ON : BYPASS_OFF});
}

void changes_loaded(struct changes *c, int res, const struct ready_engine *e, const struct err *err) {
    struct err why = *err;
    const struct settings next = c->next;
    c->now.loading = false;
    if (res == 0)
        res = put_in_force(c, &next, e, &why);
    answer_all(c, res, &why);
}

int64_t changes_step(struct changes *c, int64_t now) {
    int64_t until = INT64_MIN;
    if (!c->now.loading)
        return INT32_MAX;
    for (unsigned i = 0; i < c->n_waiting; i++)
        if (c->waiting[i].until > until)
            until = c->waiting[i].until;
    if (now < until)
        return sooner(until - now, INT32_MAX);
    struct err err;
    c->options.load(c->options.data, NULL);
    c->now.loading = false;
    err_set(&err, -ETIMEDOUT, "the engine for it takes too long to load; the settings are unchanged");
    answer_all(c, refuse(-ETIMEDOUT, CODE_TIMEOUT, &err), &err);
    return INT32_MAX;
}

const struct in_force *changes_now(const struct changes *c) {
    return &c->now;
}

bool changes_reloading(const struct changes *c) {
    return c->n_reading > 0 || find_waiting(c, REQUEST_RELOAD) < c->n_waiting;
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

/* Whether the error may be caused by the settings. */
static bool is_settings_fault(int res) {
    return res && res != -ENOMEM && res != -EIO;
}

/* Opens everything with the base settings; there is no microphone yet. */
static int open_with(struct changes *c, struct err *err) {
    c->now.settings = c->base;
    return c->options.open(c->options.data, &c->now.settings, err);
}

static int start(struct changes *c, struct err *err) {
    const struct changes_options *o = &c->options;
    int res = settings_load(&c->base, o->file, err);
    if (res == 0) {
        tell_files(c, "settings: %s");
        res = open_with(c, err);
    }
    if (is_settings_fault(res)) {
        o->say(SD_ERR, "%s", err->text);
        refuse_file(c, err, "the last good ones");
        res = load_good(c) ? open_with(c, err) : res;
    }
    if (is_settings_fault(res)) {
        c->now.instead = "the defaults";
        load_defaults(c);
        res = open_with(c, err);
    }
    if (res)
        return res;
    if (c->now.refused.text[0])
        o->say(SD_WARNING, "settings in force: %s", c->now.instead);
    keep_good(c);
    return 0;
}

int changes_open(struct changes **ret, const struct changes_options *options, struct err *err) {
    struct changes *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    c->options = *options;
    c->now.profile = -1;
    int res = start(c, err);
    if (res) {
        free(c);
        return res;
    }
    *ret = c;
    return 0;
}

void changes_close(struct changes *c) {
    free(c);
}
