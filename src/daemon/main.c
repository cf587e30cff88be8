/* main.c - primeknetd: opens settings, engines, nodes and the control socket, and serves them in one loop.
 *
 * Threads: this one never blocks for long. Audio has its own threads, and so does loading an engine (loader.h). */
#include "config.h"

#include "base/busfault.h"
#include "base/clock.h"
#include "base/errands.h"
#include "base/memory.h"
#include "control/server.h"
#include "daemon/changes.h"
#include "daemon/commands.h"
#include "daemon/engines.h"
#include "daemon/log.h"
#include "daemon/nodes.h"
#include "daemon/options.h"
#include "daemon/say.h"
#include "daemon/service.h"
#include "daemon/settings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    STATUS_MS = 1000,  /* between two checks of the late hops while somebody records */
    CONTROL_MS = 5000, /* between two attempts to open the control socket */
    EXIT_RESTART = 75, /* EX_TEMPFAIL of sysexits.h: restart the daemon; primeknet.service has the number, too */
};

struct daemon {
    struct errands *errands;
    struct changes *changes;
    struct engines *engines;
    struct nodes nodes;
    struct commands commands; /* commands.control is NULL if it could not be opened: the daemon runs without it */
    struct log log;
    bool ready; /* the service manager has been notified */
    bool wants_restart;
    bool changed;                                  /* the log and the service manager are to be updated */
    int64_t next_alive, next_status, next_control; /* ms, as now_ms() */
};

/* Reports changes to the log and the service manager. */
static void tell(struct daemon *d) {
    char line[REPORT_LINE_BYTES];
    log_nodes(&d->log, &d->nodes);
    report_line(&d->commands.report, line);
    service_status(line);
}

/* ---- events of nodes and engines --------------------------------------------------------------------------------- */

static void close_engine(void *data, struct engine *engine) {
    struct daemon *d = data;
    engines_give_back(d->engines, engine);
}

static void node_changed(void *data) {
    struct daemon *d = data;
    d->changed = true;
}

static void engine_loaded(void *data, int res, const struct ready_engine *e, const struct err *err) {
    struct daemon *d = data;
    changes_loaded(d->changes, res, e, err);
    d->changed = true;
}

static void controls_set(void *data, float strength, bool bypass) {
    struct daemon *d = data;
    changes_ask_controls(d->changes, strength, bypass);
}

/* Passes the current microphone to changes.c. */
static void tell_microphone(struct daemon *d) {
    struct node_status s;
    node_status(d->nodes.all[0].node, &s);
    if (s.has_microphone)
        changes_ask(d->changes, &(struct request){.what = REQUEST_MICROPHONE,
                                                  .name = s.microphone_name,
                                                  .description = s.microphone,
                                                  .until = now_ms() + CHANGES_PATIENCE_MS});
}

/* ---- callbacks of changes.h -------------------------------------------------------------------------------------- */

/* Opens the engine and the first node. */
static int open_all(void *data, const struct settings *s, struct err *err) {
    struct daemon *d = data;
    int res = engines_open(&d->engines, &(struct engines_options){.settings = s, .loaded = engine_loaded, .data = d},
                           err);
    if (res)
        return res;
    const struct ready_engine *first = engines_now(d->engines);
    res = nodes_open(&d->nodes, s,
                     &(struct node_options){.engine = first->engine,
                                            .hop_p99_us = first->hop_p99_us,
                                            .errands = d->errands,
                                            .release = close_engine,
                                            .changed = node_changed,
                                            .controls = controls_set,
                                            .data = d},
                     err);
    if (res)
        engines_close(d->engines);
    return res;
}

static bool has_room(void *data, const struct settings *s) {
    const struct daemon *d = data;
    return engines_has_room(d->engines, s);
}

static void load(void *data, const struct settings *s) {
    struct daemon *d = data;
    engines_ask(d->engines, s);
}

static int apply(void *data, const struct settings *now, const struct settings *next, const struct ready_engine *e,
                 struct err *err) {
    struct daemon *d = data;
    bool other_microphone = strcmp(next->microphone, now->microphone) != 0 || strcmp(next->channel, now->channel) != 0;
    int res = other_microphone ? nodes_microphone(&d->nodes, next, err) : 0;
    if (res && e)
        engines_give_back(d->engines, e->engine);
    if (res || !e)
        return res;
    res = engines_take(d->engines, e, next, err);
    if (res && other_microphone)
        nodes_microphone(&d->nodes, now, NULL);
    return res;
}

static void follow(void *data) {
    struct daemon *d = data;
    struct err err = {0};
    if (nodes_follow(&d->nodes, changes_now(d->changes), &err) < 0)
        say(SD_ERR, "%s", err.text);
    d->changed = true;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void reloaded(void *data, const struct request *r, int res, const struct err *err) {
    struct daemon *d = data;
    char missing[MISSING_BYTES];
    (void)r, (void)err; /* changes.c has logged that */
    for (int i = 0; res == 0 && i < N_SETTINGS; i++)
        if (report_missing(&d->commands.report, i, missing))
            say(SD_WARNING, "%s: %s", settings_name(i), missing);
    d->changed = true;
    tell(d);
    if (!changes_reloading(d->changes))
        service_ready();
}

static void reload(struct daemon *d) {
    service_reloading();
    engines_retry(d->engines);
    changes_ask(d->changes,
                &(struct request){
                    .what = REQUEST_RELOAD, .until = now_ms() + CHANGES_PATIENCE_MS, .answer = reloaded, .data = d});
}

/* Handles all pending signals. Returns whether to exit. */
static bool handle_signals(struct daemon *d, int fd) {
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGHUP)
            return true;
        reload(d);
    }
    return false;
}

/* Returns whether to exit: only a new process can use the GPU again, and only a service manager starts one. */
static bool restart(struct daemon *d) {
    d->wants_restart = service_is_managed();
    if (d->wants_restart) {
        say(SD_INFO, "exiting, so that the service manager starts a process that can use the GPU");
    } else {
        say(SD_WARNING, "only a new process can use the GPU again: restart primeknetd");
        engines_no_restart(d->engines);
    }
    return d->wants_restart;
}

/* Tries to open the socket again, since what was in its place may be gone. -EADDRINUSE: another daemon has it. */
static int retry_control(struct daemon *d, int64_t now) {
    struct err err;
    if (d->commands.control || now < d->next_control)
        return 0;
    d->next_control = now + CONTROL_MS;
    int res = control_open(&d->commands.control, commands_request, &d->commands, &err);
    if (res == 0)
        say(SD_INFO, "remote control works now");
    if (res == -EADDRINUSE)
        say(SD_ERR, "%s", err.text);
    return res == -EADDRINUSE ? res : 0;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static int run(struct daemon *d, int signals) {
    int alive_ms = service_watchdog_ms();
    for (;;) {
        if (!d->ready && nodes_settled(&d->nodes)) {
            d->ready = true;
            service_ready();
        }
        struct engines_load load = nodes_load(&d->nodes);
        int64_t now = now_ms(), wait = engines_step(d->engines, &load);
        if (engines_wants_restart(d->engines, load.heard) && restart(d))
            return 0;
        wait = sooner(wait, changes_step(d->changes, now));
        if (alive_ms >= 0)
            wait = sooner(wait, d->next_alive - now);
        if (load.heard)
            wait = sooner(wait, d->next_status - now);
        if (retry_control(d, now))
            return -EADDRINUSE;
        if (!d->commands.control)
            wait = sooner(wait, d->next_control - now);
        if (log_due(&d->log) != INT64_MAX)
            wait = sooner(wait, log_due(&d->log) - now);
        enum { SIGNALS, ENGINES, ERRANDS, CONTROL, NODES };
        struct pollfd fds[NODES + WORKER_PUMPS] = {
            [SIGNALS] = {.fd = signals, .events = POLLIN},
            [ENGINES] = {.fd = engines_fd(d->engines), .events = POLLIN},
            [ERRANDS] = {.fd = errands_fd(d->errands), .events = POLLIN},
            [CONTROL] = {.fd = d->commands.control ? control_fd(d->commands.control) : -1, .events = POLLIN},
        };
        for (unsigned i = 0; i < d->nodes.n; i++)
            fds[NODES + i] = (struct pollfd){.fd = node_fd(d->nodes.all[i].node), .events = POLLIN};
        int n = poll(fds, NODES + d->nodes.n, wait > 0 ? (int)wait : 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        for (unsigned i = 0; n > 0 && i < d->nodes.n; i++) {
            int res = fds[NODES + i].revents ? node_dispatch(d->nodes.all[i].node) : 0;
            if (res < 0)
                return res;
        }
        if (n > 0 && fds[SIGNALS].revents && handle_signals(d, signals))
            return 0;
        if (n > 0 && fds[ERRANDS].revents)
            errands_dispatch(d->errands);
        if (n > 0 && fds[CONTROL].revents)
            control_dispatch(d->commands.control);

        if (d->changed)
            tell_microphone(d);
        if (d->changed && d->commands.control)
            control_changed(d->commands.control);
        now = now_ms();
        if (alive_ms >= 0 && now >= d->next_alive) {
            if (nodes_alive(&d->nodes))
                service_alive();
            d->next_alive = now + alive_ms;
        }
        if (d->changed || (load.heard && now >= d->next_status) || now >= log_due(&d->log)) {
            d->changed = false;
            d->next_status = now + STATUS_MS;
            tell(d);
        }
    }
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

/* Opens everything or nothing. */
static int start(struct daemon *d, const char *file, struct err *err) {
    int res = changes_open(&d->changes,
                           &(struct changes_options){.file = file,
                                                     .errands = d->errands,
                                                     .open = open_all,
                                                     .has_room = has_room,
                                                     .load = load,
                                                     .apply = apply,
                                                     .follow = follow,
                                                     .say = say,
                                                     .data = d},
                           err);
    if (res)
        return res;
    d->commands.changes = d->changes;
    d->commands.report = (struct report){
        .nodes = &d->nodes, .engine = engines_now(d->engines), .now = changes_now(d->changes)};
    engines_run(d->engines, node_worker(d->nodes.all[0].node));
    follow(d);
    return 0;
}

static int live(struct daemon *d, const char *file, int signals) {
    struct err err = {0};
    int res = control_open(&d->commands.control, commands_request, &d->commands, &err);
    if (res == -EADDRINUSE) {
        say(SD_ERR, "%s", err.text);
        return EXIT_MISUSE;
    }
    if (res)
        say(SD_WARNING, "no remote control: %s", err.text);
    d->next_control = now_ms() + CONTROL_MS;
    res = errands_open(&d->errands, &err);
    if (res == 0)
        res = start(d, file, &err);
    if (res) {
        say(SD_ERR, "%s", err.text);
        errands_close(d->errands);
        control_close(d->commands.control);
        return EXIT_FAILURE;
    }
    d->log.told.connected = true; /* not worth a log line */
    tell(d);
    res = run(d, signals);
    if (res && res != -EADDRINUSE)
        say(SD_ERR, "%s", strerror(-res));
    service_stopping();
    control_close(d->commands.control);
    nodes_close(&d->nodes);
    errands_close(d->errands);
    engines_close(d->engines);
    changes_close(d->changes);
    return res == -EADDRINUSE ? EXIT_MISUSE : res ? EXIT_FAILURE : d->wants_restart ? EXIT_RESTART : EXIT_SUCCESS;
}

/* --check-config */
static int check_config(const char *file) {
    struct settings s;
    struct err err = {0};
    char files[sizeof s.file + sizeof s.saved];
    int res = settings_load(&s, file, &err);
    if (res == 0)
        res = loader_check(&s, &err);
    for (unsigned i = 0; res == 0 && i < s.n_profiles; i++) {
        settings_use_profile(&s, i);
        res = loader_check(&s, &err);
    }
    settings_files(&s, files, sizeof files);
    if (res)
        say(SD_ERR, "%s", err.text);
    else
        printf("%s: fine\n", files[0] ? files : "no settings file, the defaults");
    return res ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    struct daemon d = {0};
    struct options options;
    sigset_t set;

    /* Blocks signals before any thread exists: a thread with signals unblocked would receive them, and end the
     * daemon. */
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    memory_begin();
    busfault_install();

    const int parsed = options_parse(&options, argc, argv);
    if (parsed >= 0)
        return parsed;
    if (options.check)
        return check_config(options.file);

    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        say(SD_ERR, "signalfd: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    int status = live(&d, options.file, signals);
    close(signals);
    return status;
}
