/* primeknetd: lifecycle only. Settings, the network, the node, the service manager; the one file that prints.
 *
 * One thread waits for signals, for the nodes, for the network and for its own next moment; the sound is on others, and so
 * is whatever takes a while: a change of settings that needs another engine waits for that, and nothing else does. */
#include "config.h"

#include "base/clock.h"
#include "daemon/control.h"
#include "daemon/engines.h"
#include "graph/node.h"
#include "live/pump.h"
#include "daemon/report.h"
#include "daemon/service.h"
#include "daemon/settings.h"
#include "base/state.h"
#include "daemon/nodes.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define GOOD "settings" /* the state file with the last good settings */

enum {
    LOST_MS = 1500,            /* without a microphone before it is called lost: changing to another takes a while */
    STATUS_MS = 1000,          /* between two looks at the late hops while somebody records */
    LATE_REPORT_MS = 60000,    /* between two lines in the log about late hops */
    EXIT_MISUSE = 2,           /* arguments that cannot be used, or another daemon runs: starting again does not help */
    EXIT_RESTART = 75,         /* EX_TEMPFAIL of sysexits.h: a new process is wanted, in primeknet.service too */
    LATER = 1,                 /* neither done nor refused yet */
};

struct daemon {
    const char *file; /* --config, or NULL */
    struct settings settings;
    struct engines *engines;
    struct nodes nodes;
    struct control *control;    /* NULL where it could not be opened: that is no reason not to run */
    bool bypass;
    bool changing;              /* the network loads what `next` needs, which then comes into force */
    struct settings next;
    bool reloading;             /* a reload waits for that */
    const char *outcome;        /* while requests that have waited are answered: why it is refused, or "" */
    char refused[sizeof(struct err)]; /* why the file's settings are not in force, or "" ... */
    const char *instead;              /* ... and which are, for people; or NULL */
    bool wants_restart;
    bool changed;               /* the node has something to tell */
    struct node_status told;    /* what the log has been told so far of the first microphone */
    int64_t lost_at;            /* ms, since when it has been away untold; 0: it is not */
    uint64_t told_late_hops;
    bool told_realtime;
    int64_t next_alive, next_status, next_late_report; /* ms, as now_ms() */
};

/* ---- the log ----------------------------------------------------------------------------------------------------- */

/* Whether stderr goes to the journal, which reads a priority at the start of each line (sd-daemon(3)). */
static bool logs_to_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

static void __attribute__((format(printf, 2, 3))) say(const char *priority, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++) /* names in the graph are other programs' */
        if (iscntrl((unsigned char)*c))
            *c = ' ';
    fprintf(stderr, "%s%s\n", logs_to_journal() ? priority : "primeknetd: ", line);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static const char *microphone_or_null(const struct settings *s) {
    return strcmp(s->microphone, "default") == 0 ? NULL : s->microphone;
}

static void set_controls(struct daemon *d) {
    const struct settings *s = &d->settings;
    const struct engine_controls bypass = {0}, controls = {.strength = (float)s->strength,
                                                           .floor = (float)pow(10.0, s->floor_db / 20.0),
                                                           .low_cut_hz = (float)s->low_cut_hz};
    for (unsigned i = 0; i < d->nodes.n; i++) {
        node_controls(d->nodes.nodes[i], (float)s->strength, d->bypass);
        pump_control(node_pump(d->nodes.nodes[i]), d->bypass ? bypass : controls);
    }
}

static void tell_manager(const struct daemon *d, const struct node_status *s, const struct pump_stats *p) {
    char text[2048], late[64] = "", strength[32] = "";
    if (p->late_hops)
        snprintf(late, sizeof late, ", %llu late hops", (unsigned long long)p->late_hops);
    if (d->settings.strength < 1)
        snprintf(strength, sizeof strength, ", strength %.4g", d->settings.strength);
    if (!s->connected)
        snprintf(text, sizeof text, "Waiting for PipeWire");
    else if (!s->has_microphone)
        snprintf(text, sizeof text, "No microphone; %s",
                 s->n_consumers ? "silence to those who record" : "nobody records");
    else if (!s->n_consumers)
        snprintf(text, sizeof text, "Idle, nobody records; %s, %s", s->microphone, engines_now(d->engines)->text);
    else if (p->engine_lost)
        snprintf(text, sizeof text, "The engine failed; %s as it is", s->microphone);
    else
        snprintf(text, sizeof text, "%s %s with %s%s, delay %.1f ms%s", d->bypass ? "Bypassed:" : "Enhancing",
                 s->microphone, engines_now(d->engines)->text, d->bypass ? "" : strength, s->delay * 1e3 / PUMP_RATE, late);
    for (unsigned i = 1; i < d->nodes.n; i++) {
        struct node_status more;
        node_status(d->nodes.nodes[i], &more);
        text_add(text, sizeof text, "; %s: %s", node_title(d->nodes.nodes[i]), nodes_state(d->nodes.nodes[i], d->bypass));
        if (more.n_consumers)
            text_add(text, sizeof text, ", delay %.1f ms", more.delay * 1e3 / PUMP_RATE);
    }
    if (engines_now(d->engines)->problem[0] && strcmp(d->settings.engine, "auto") != 0)
        text_add(text, sizeof text, "; %s", engines_now(d->engines)->problem);
    if (engines_now(d->engines)->too_heavy[0])
        text_add(text, sizeof text, "; %s is too heavy for this machine now", engines_now(d->engines)->too_heavy);
    if (d->refused[0])
        text_add(text, sizeof text, "; not the file's settings, but %s: %s", d->instead, d->refused);
    service_status(text);
}

/* Lines in the log for what changed since the last. */
static void tell_log(struct daemon *d, const struct node_status *s, const struct pump_stats *p) {
    const struct node_status *old = &d->told;
    if (s->connected != old->connected)
        say(s->connected ? SD_INFO : SD_WARNING,
            s->connected ? "PipeWire is back" : "PipeWire is away; waiting for it");
    bool away = s->connected && !s->has_microphone && old->microphone[0];
    if (!away)
        d->lost_at = 0;
    else if (d->lost_at == 0)
        d->lost_at = now_ms();
    bool lost = away && now_ms() - d->lost_at >= LOST_MS;
    if (lost)
        say(SD_WARNING, "the microphone is gone: %s; waiting for one", old->microphone);
    if (s->has_microphone && strcmp(s->microphone, old->microphone) != 0)
        say(SD_INFO, "microphone: %s", s->microphone);
    if (s->n_brought_back > old->n_brought_back)
        say(SD_INFO, "brought back %u who recorded before this start or a break", s->n_brought_back - old->n_brought_back);
    if (s->connected && s->n_consumers && s->delay != old->delay)
        say(SD_INFO, "delay: %u samples (%.1f ms)%s", s->delay, s->delay * 1e3 / PUMP_RATE,
            p->waits ? "" : "; a quantum of it because the audio thread does not wait for the network");
    if (p->hops > 0 && !d->told_realtime) {
        if (!p->realtime)
            say(SD_WARNING, "no real-time priority (%s): hops may be late when the machine is busy", report_refusal(p));
        d->told_realtime = true;
    }
    struct node_status told = *s;
    if (!s->has_microphone && !lost)
        memcpy(told.microphone, old->microphone, sizeof told.microphone);
    d->told = told;
    if (lost)
        d->lost_at = 0;

    struct engines_load load = nodes_load(&d->nodes);
    if (load.late_hops > d->told_late_hops && (now_ms() >= d->next_late_report || !load.heard)) {
        say(SD_WARNING, "%llu hops were late and sounded as the microphone does",
            (unsigned long long)(load.late_hops - d->told_late_hops));
        d->told_late_hops = load.late_hops;
        d->next_late_report = now_ms() + LATE_REPORT_MS;
    }
}

/* What the streams besides the first have found, or lost. */
static void tell_log_more(struct daemon *d) {
    for (unsigned i = 1; i < d->nodes.n; i++) {
        struct node_status s;
        node_status(d->nodes.nodes[i], &s);
        if (!s.connected || strcmp(s.microphone, d->nodes.told[i]) == 0)
            continue;
        const char *title = node_title(d->nodes.nodes[i]);
        bool speaker = node_kind(d->nodes.nodes[i]) == NODE_SPEAKER;
        if (s.has_microphone)
            say(SD_INFO, "%s: %s %s", title, speaker ? "plays on" : "records from", s.microphone);
        else
            say(SD_WARNING, "%s: the %s is gone; waiting for one", title, speaker ? "output" : "microphone");
        memcpy(d->nodes.told[i], s.microphone, sizeof d->nodes.told[i]);
    }
}

static void tell(struct daemon *d) {
    struct node_status status;
    struct pump_stats stats;
    node_status(d->nodes.nodes[0], &status);
    pump_stats(node_pump(d->nodes.nodes[0]), &stats);
    tell_log(d, &status, &stats);
    tell_log_more(d);
    tell_manager(d, &status, &stats);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void close_engine(void *data, struct engine *engine) {
    struct daemon *d = data;
    engines_give_back(d->engines, engine);
}

static void node_changed(void *data) {
    struct daemon *d = data;
    d->changed = true;
}

/* The streams and controls that the settings ask for. */
static void follow(struct daemon *d) {
    struct err err = {""};
    if (nodes_follow(&d->nodes, &d->settings, &err) < 0)
        say(SD_ERR, "%s", err.text);
    set_controls(d);
}

static bool same_network(const struct settings *a, const struct settings *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->engine, b->engine) == 0 && strcmp(a->gpu, b->gpu) == 0;
}

static bool needs_engine(const struct daemon *d, const struct settings *next) {
    return !same_network(next, &d->settings) || !engines_has_room(d->engines, next);
}

/* Puts these settings in force, with the engine that they need where they need one, or nothing of them. */
static int put_in_force(struct daemon *d, const struct settings *next, const struct ready_engine *e, struct err *err) {
    struct settings *now = &d->settings;
    struct err why = {""};
    int res;

    bool other_microphone = strcmp(next->microphone, now->microphone) != 0 || strcmp(next->channel, now->channel) != 0;
    if (other_microphone) {
        res = node_microphone(d->nodes.nodes[0], microphone_or_null(next), next->channel, &why);
        if (res) {
            if (e)
                engines_give_back(d->engines, e->engine);
            return settings_refuse(next, SETTING_channel, res, why.text, err);
        }
    }
    if (e) {
        res = engines_take(d->engines, e, next, err);
        if (res) {
            if (other_microphone)
                node_microphone(d->nodes.nodes[0], microphone_or_null(now), now->channel, NULL);
            return res;
        }
    }
    *now = *next;
    follow(d);
    return 0;
}

/* What is to be said of the daemon. */
static struct report describe(const struct daemon *d) {
    return (struct report){.nodes = &d->nodes,
                           .settings = &d->settings,
                           .engine = engines_now(d->engines),
                           .loading = d->changing,
                           .bypass = d->bypass,
                           .refused = d->refused,
                           .instead = d->instead};
}

/* A copy of the user's settings, which are in force, for a start at which the file is wrong. */
static void keep_settings(const struct daemon *d) {
    struct settings s;
    struct err err;
    char path[STATE_PATH];
    if (d->file || d->refused[0] || settings_load(&s, NULL, &err) < 0 || !state_path(path, GOOD))
        return;
    if (settings_write(&s, path, &err) < 0)
        say(SD_WARNING, "the settings are not kept for a start at which they are wrong: %s", err.text);
}

static void refuse(struct daemon *d, const struct err *err, const char *instead) {
    memcpy(d->refused, err->text, sizeof d->refused);
    d->instead = instead;
}

static void end_reload(struct daemon *d, int res, const struct err *err) {
    if (res == 0) {
        struct report r = describe(d);
        char missing[MISSING_BYTES];
        say(SD_INFO, "settings reloaded%s%s%s", d->settings.file[0] ? " from " : ": the defaults", d->settings.file,
            d->refused[0] ? ", as they were before those that are refused" : "");
        keep_settings(d);
        for (int i = 0; i < N_SETTINGS; i++)
            if (report_missing(&r, i, missing))
                say(SD_WARNING, "%s: %s", settings_name(i), missing);
    } else {
        if (!d->refused[0])
            refuse(d, err, "those from before");
        say(SD_ERR, "settings not reloaded: %s", err->text);
    }
    d->changed = true;
    tell(d);
    if (!d->reloading)
        service_ready();
}

/* Tells all who wait for the change under way what came of it. */
static void end_change(struct daemon *d, int res, const struct err *err) {
    d->changing = false;
    if (d->reloading) {
        d->reloading = false;
        end_reload(d, res, err);
    }
    d->outcome = res ? err->text : "";
    if (d->control)
        control_again(d->control);
    d->outcome = NULL;
    d->changed = true;
}

static void engines_loaded(void *data, int res, const struct ready_engine *e, const struct err *err) {
    struct daemon *d = data;
    struct err why = *err;
    if (res == 0)
        res = put_in_force(d, &d->next, e, &why);
    end_change(d, res, &why);
}

/* Changes the settings to `next`; `now` are those that the same change makes of the ones in force, while others may be
 * under way. What needs no other engine is done at once; LATER: one is loaded, and end_change follows. Another change
 * that needs one takes this one's place, and those who wait are told what came of both. */
static int change(struct daemon *d, const struct settings *next, const struct settings *now, struct err *err) {
    const struct settings *awaited = d->changing ? &d->next : &d->settings;
    bool turns = d->changing && (!same_network(next, awaited) || settings_streams(next) != settings_streams(awaited));
    int res;
    if (!turns && !needs_engine(d, now)) {
        res = put_in_force(d, now, NULL, err);
        if (res == 0 && d->changing)
            d->next = *next;
        return res;
    }
    if (needs_engine(d, next)) {
        if (turns || !d->changing)
            engines_ask(d->engines, next);
        d->next = *next;
        d->changing = true;
        return LATER;
    }
    engines_ask(d->engines, NULL); /* what is in force is wanted again */
    res = put_in_force(d, next, NULL, err);
    end_change(d, res, err);
    return res;
}

static void reload(struct daemon *d) {
    struct settings next;
    struct err err = {""};
    service_reloading();
    engines_retry(d->engines);
    int res = settings_load(&next, d->file, &err);
    if (res == 0)
        res = change(d, &next, &next, &err);
    d->refused[0] = '\0'; /* from here on what this file says counts, whatever becomes of one that is on its way */
    if (res == LATER)
        d->reloading = true;
    else
        end_reload(d, res, &err);
}

/* A process that the GPU's errors have not poisoned: the service manager starts it. Returns whether there is one. */
static bool restart(struct daemon *d) {
    d->wants_restart = service_is_managed();
    if (d->wants_restart) {
        say(SD_INFO, "ending, so that the service manager starts a process that can use the GPU");
    } else {
        say(SD_WARNING, "the GPU can be used by another process only: end primeknetd and start it again");
        engines_no_restart(d->engines);
    }
    return d->wants_restart;
}

/* Handles every signal that has come. Returns whether it is time to end. */
static bool handle_signals(struct daemon *d, int fd) {
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGHUP)
            return true;
        reload(d);
    }
    return false;
}

/* Somebody has set the node's Props. */
static void on_controls(void *data, float strength, bool bypass) {
    struct daemon *d = data;
    d->settings.strength = d->next.strength = round(strength * 1e4) / 1e4; /* 0.7 and not the float next to it */
    d->bypass = bypass;
    set_controls(d);
    d->changed = true;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static json_t *on_set(struct daemon *d, const json_t *request) {
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *value = json_string_value(json_object_get(request, "value"));
    bool save = json_is_true(json_object_get(request, "save"));
    struct settings next = d->changing ? d->next : d->settings, now = d->settings;
    struct err err = {""};
    char text[sizeof next.model];
    if (!name || !value)
        return control_refuse("set takes the strings \"name\" and \"value\"");
    int setting = settings_find(name, &err);
    if (setting < 0)
        return control_refuse("%s", err.text);
    if (d->outcome && d->outcome[0])
        return control_refuse("%s", d->outcome);
    if (!d->outcome) {
        int res = settings_set(&next, setting, value, &err);
        if (res == 0)
            res = settings_set(&now, setting, value, &err);
        if (res == 0)
            res = change(d, &next, &now, &err);
        if (res == LATER)
            return control_later(d->control);
        if (res)
            return control_refuse("%s", err.text);
    }
    d->changed = true;
    if (save && settings_save(&d->settings, setting, &err) < 0) {
        settings_text(&d->settings, setting, text, sizeof text);
        return control_refuse("%s is now %s, but not kept: %s", settings_name(setting), text, err.text);
    }
    if (save)
        keep_settings(d);
    strcpy(d->next.file, d->settings.file);
    struct report r = describe(d);
    return report_setting(&r, setting);
}

static json_t *on_bypass(struct daemon *d, const json_t *request) {
    const char *state = json_string_value(json_object_get(request, "state"));
    bool toggle = state && strcmp(state, "toggle") == 0, on = state && strcmp(state, "on") == 0;
    if (!toggle && !on && !(state && strcmp(state, "off") == 0))
        return control_refuse("bypass is \"on\", \"off\" or \"toggle\"");
    d->bypass = toggle ? !d->bypass : on;
    set_controls(d);
    d->changed = true;
    return json_pack("{s:b}", "bypass", d->bypass);
}

static json_t *on_request(void *data, const char *command, const json_t *request) {
    struct daemon *d = data;
    struct report r = describe(d);
    if (strcmp(command, "status") == 0)
        return report_status(&r, json_is_true(json_object_get(request, "bands")));
    if (strcmp(command, "watch") == 0) {
        control_watch(d->control);
        return report_status(&r, false);
    }
    if (strcmp(command, "microphones") == 0)
        return report_microphones(d->nodes.nodes[0], &d->settings);
    if (strcmp(command, "set") == 0)
        return on_set(d, request);
    if (strcmp(command, "bypass") == 0)
        return on_bypass(d, request);
    return control_refuse("there is no command \"%.40s\"", command);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static int run(struct daemon *d, int signals) {
    int alive_ms = service_watchdog_ms();
    for (;;) {
        struct engines_load load = nodes_load(&d->nodes);
        int64_t now = now_ms(), wait = engines_step(d->engines, &load);
        if (engines_wants_restart(d->engines, load.heard) && restart(d))
            return 0;
        if (alive_ms >= 0)
            wait = sooner(wait, d->next_alive - now);
        if (load.heard)
            wait = sooner(wait, d->next_status - now);
        if (d->lost_at)
            wait = sooner(wait, d->lost_at + LOST_MS - now);
        enum { SIGNALS, ENGINES, CONTROL, NODES };
        struct pollfd fds[NODES + WORKER_PUMPS] = {
            [SIGNALS] = {.fd = signals, .events = POLLIN},
            [ENGINES] = {.fd = engines_fd(d->engines), .events = POLLIN},
            [CONTROL] = {.fd = d->control ? control_fd(d->control) : -1, .events = POLLIN},
        };
        for (unsigned i = 0; i < d->nodes.n; i++)
            fds[NODES + i] = (struct pollfd){.fd = node_fd(d->nodes.nodes[i]), .events = POLLIN};
        int n = poll(fds, NODES + d->nodes.n, wait > 0 ? (int)wait : 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        for (unsigned i = 0; n > 0 && i < d->nodes.n; i++) {
            int res = fds[NODES + i].revents ? node_dispatch(d->nodes.nodes[i]) : 0;
            if (res < 0)
                return res;
        }
        if (n > 0 && fds[SIGNALS].revents && handle_signals(d, signals))
            return 0;
        if (n > 0 && fds[CONTROL].revents)
            control_dispatch(d->control);

        if (d->changed && d->control)
            control_changed(d->control);
        now = now_ms();
        if (alive_ms >= 0 && now >= d->next_alive) {
            if (nodes_alive(&d->nodes))
                service_alive();
            d->next_alive = now + alive_ms;
        }
        if (d->changed || (load.heard && now >= d->next_status) || (d->lost_at && now >= d->lost_at + LOST_MS)) {
            d->changed = false;
            d->next_status = now + STATUS_MS;
            tell(d);
        }
    }
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

/* Whether it may be the settings' fault that something does not open, and other settings help. */
static bool is_settings_fault(int res) {
    return res && res != -ENOMEM && res != -EIO;
}

/* The network and the streams that the settings ask for. */
static int open_all(struct daemon *d, struct err *err) {
    int res = engines_open(&d->engines,
                           &(struct engines_options){
                               .settings = &d->settings, .loaded = engines_loaded, .data = d, .say = say},
                           err);
    if (res)
        return res;
    const struct ready_engine *first = engines_now(d->engines);
    struct node_options options = {
        .microphone = microphone_or_null(&d->settings),
        .channel = d->settings.channel,
        .engine = first->engine,
        .hop_p99_us = first->hop_p99_us,
        .release = close_engine,
        .changed = node_changed,
        .controls = on_controls,
        .data = d,
    };
    res = nodes_open(&d->nodes, &options, err);
    if (res)
        engines_close(d->engines);
    return res;
}

static bool load_last_good(struct daemon *d) {
    struct err err;
    char path[STATE_PATH], file[sizeof d->settings.file];
    memcpy(file, d->settings.file, sizeof file);
    bool ok = !d->file && state_path(path, GOOD) && settings_load(&d->settings, path, &err) == 0;
    memcpy(d->settings.file, file, sizeof file); /* which they are to be saved to */
    memset(d->settings.lines, 0, sizeof d->settings.lines);
    return ok;
}

static void load_defaults(struct daemon *d) {
    struct err err;
    char file[sizeof d->settings.file];
    memcpy(file, d->settings.file, sizeof file);
    settings_parse(&d->settings, "", 0, file, &err);
}

/* Opens all with the file's settings, or, where these cannot be used, with the last good ones, else the defaults. */
static int start(struct daemon *d, struct err *err) {
    int res = settings_load(&d->settings, d->file, err);
    if (res == 0) {
        say(SD_INFO, "settings: %s", d->settings.file[0] ? d->settings.file : "the defaults, there is no file");
        res = open_all(d, err);
    }
    if (is_settings_fault(res)) {
        say(SD_ERR, "%s", err->text);
        refuse(d, err, "the last good ones");
        res = load_last_good(d) ? open_all(d, err) : res;
    }
    if (is_settings_fault(res)) {
        d->instead = "the defaults";
        load_defaults(d);
        res = open_all(d, err);
    }
    if (res == 0 && d->refused[0])
        say(SD_WARNING, "settings in force: %s", d->instead);
    return res;
}

static int live(struct daemon *d, int signals) {
    struct err err = {""};
    int res = control_open(&d->control, on_request, d, &err);
    if (res == -EADDRINUSE) {
        say(SD_ERR, "%s", err.text);
        return EXIT_MISUSE;
    }
    if (res)
        say(SD_WARNING, "no remote control: %s", err.text);
    res = start(d, &err);
    if (res) {
        say(SD_ERR, "%s", err.text);
        control_close(d->control);
        return EXIT_FAILURE;
    }
    engines_run(d->engines, node_worker(d->nodes.nodes[0]));
    follow(d);
    keep_settings(d);
    d->told.connected = true; /* goes without saying */
    tell(d);
    service_ready();
    res = run(d, signals);
    if (res)
        say(SD_ERR, "%s", strerror(-res));
    service_stopping();
    control_close(d->control);
    nodes_close(&d->nodes);
    engines_close(d->engines);
    return res ? EXIT_FAILURE : d->wants_restart ? EXIT_RESTART : EXIT_SUCCESS;
}

/* Whether the daemon would take this file. */
static int check_config(const char *file) {
    struct settings s;
    struct err err = {""};
    int res = settings_load(&s, file, &err);
    if (res == 0)
        res = engines_check(&s, &err);
    if (res)
        say(SD_ERR, "%s", err.text);
    else
        printf("%s: fine\n", s.file[0] ? s.file : "no settings file, the defaults");
    return res ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void print_help(void) {
    static const struct {
        const char *name, *allowed;
    } rows[] = {
#define NUMBER(name, fallback, least, greatest, word, allowed) {#name, allowed},
#define TEXT(name, size, fallback, least, greatest, fits, allowed) {#name, allowed},
#include "daemon/settings.def"
#undef NUMBER
#undef TEXT
    };
    puts("Usage: primeknetd [--config FILE] [--check-config]\n\n"
         "Offers \"Enhanced Mic\", the microphone without noise, to every application on PipeWire.\n\n"
         "  -c, --config FILE   settings from FILE instead of $XDG_CONFIG_HOME/primeknet/primeknet.conf\n"
         "                      or " SYSCONFDIR "/primeknet/primeknet.conf\n"
         "  -k, --check-config  say whether the settings are fine, and end\n"
         "  -h, --help          this\n"
         "  -V, --version       the version\n\n"
         "Settings, see primeknet.conf(5); SIGHUP reads them again:\n");
    for (int i = 0; i < N_SETTINGS; i++)
        printf("  %-16s  %s\n", rows[i].name, rows[i].allowed);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"check-config", no_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct daemon d = {0};
    bool check = false;
    sigset_t set;

    /* First of all: a thread that is made before would take the signal and end the daemon. */
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);

    for (int c; (c = getopt_long(argc, argv, "c:khV", options, NULL)) != -1;) {
        switch (c) {
        case 'c':
            d.file = optarg;
            break;
        case 'k':
            check = true;
            break;
        case 'h':
            print_help();
            return EXIT_SUCCESS;
        case 'V':
            puts("primeknetd " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        default:
            fputs("primeknetd --help tells the options\n", stderr);
            return EXIT_MISUSE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "primeknetd: \"%s\" is no option; primeknetd --help tells them\n", argv[optind]);
        return EXIT_MISUSE;
    }
    if (check)
        return check_config(d.file);

    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        say(SD_ERR, "signalfd: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    int status = live(&d, signals);
    close(signals);
    return status;
}
