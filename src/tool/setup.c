/* primeknet setup: runs Enhanced Mic now and at every login, optionally as the default microphone, and undoes all
 * that. */
#include "config.h"

#include "tool/cli.h"

#include "base/state.h"
#include "control/client.h"
#include "daemon/settings.h"
#include "engine/choose.h"
#include "print/enrolment.h"
#include "tool/autostart.h"
#include "tool/default.h"
#include "tool/portal.h"
#include "tool/systemd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT "primeknet.service"

/* ---- setting up -------------------------------------------------------------------------------------------------- */

/* Measures which model "auto" will use, which takes seconds. */
static int choose_network(const struct settings *s) {
    struct choice c;
    struct err err;
    bool automatic = strcmp(s->model, "auto") == 0, gpu_alone = strcmp(s->engine, "cuda") == 0;
    puts("model     measuring which model this processor can run, for a few seconds ...");
    fflush(stdout);
    if (choose_model(&c, "cpu", CHOOSE_ANEW, NULL, &err) < 0)
        return cli_fail("%s", err.text);
    bool slow = c.p99_us >= c.limit_us;
    if (c.p99_us == 0)
        printf("model     %s is the only model installed\n", c.model);
    else
        printf("model     %s suits this processor: a hop of %s takes %s%.0f us of the %.0f us allowed\n", c.model,
               choice_measured(&c), slow ? "at least " : "", c.p99_us, c.limit_us);
    if (!automatic)
        printf("          model stays %s; primeknet model auto --save uses the measured one%s\n", s->model,
               gpu_alone ? " where there is no GPU" : "");
    return cli_done;
}

/* In a Flatpak. Where the desktop does not start it at login, it runs now nevertheless. */
static int start_in_sandbox(void) {
    struct err err, refused;
    const bool starts = autostart_enable(true, &refused) == 0;
    if (autostart_start(&err) < 0)
        return cli_fail("%s", err.text);
    puts(starts ? "service   primeknetd runs now; the desktop starts it at login" : "service   primeknetd runs now");
    if (!starts)
        printf("          It does not start at login: %s\n", refused.text);
    return cli_done;
}

/* Without systemd. */
static int start_process(void) {
    char path[AUTOSTART_PATH];
    struct err err;
    if (portal_is_needed())
        return start_in_sandbox();
    if (autostart_enable(true, &err) < 0 || autostart_start(&err) < 0)
        return cli_fail("%s", err.text);
    autostart_path(path);
    printf("service   primeknetd runs now; desktops start it at login because of\n          %s\n"
           "          Without a desktop, start it with your session: primeknetd &\n",
           path);
    return cli_done;
}

static int start_service(struct systemd *m) {
    struct systemd_unit unit;
    struct err err;
    int fd;
    if (systemd_reload(m, &err) < 0 || systemd_unit(m, &unit, UNIT, &err) < 0)
        return cli_fail("%s", err.text);
    if (strcmp(unit.load, "loaded") != 0)
        return cli_fail("systemd has no " UNIT " (%s): install PrimeKnet with its unit in "
                        "~/.local/share/systemd/user or /usr/lib/systemd/user",
                        unit.load);
    const bool runs = strcmp(unit.active, "inactive") != 0 && strcmp(unit.active, "failed") != 0; /* or is starting */
    if (!runs && control_connect(&fd, &err) == 0) {
        close(fd);
        return cli_fail("primeknetd runs already, but not as the service; stop it, then run setup again");
    }
    if (systemd_enable(m, UNIT, true, &err) < 0)
        return cli_fail("%s", err.text);
    if (systemd_start(m, UNIT, &err) < 0)
        return cli_fail("%s; primeknet doctor says why", err.text);
    puts("service   runs now and after every login");
    return cli_done;
}

static int set_up(struct systemd *m, bool by_default, bool transparent) {
    struct settings s;
    struct err err;
    if (settings_load(&s, NULL, &err) < 0)
        return cli_fail("%s", err.text);
    int status = choose_network(&s);
    if (status == cli_done)
        status = m ? start_service(m) : start_process();
    if (status == cli_done && by_default)
        status = default_take();
    if (status == cli_done && transparent)
        status = default_stand_in();
    if (status == cli_done && !by_default && !transparent)
        printf("Choose Enhanced Mic as the microphone in your applications, or have all of them hear it:\n"
               "primeknet setup %s\n",
               default_can_stand_in() ? "--transparent" : "--default");
    if (status == cli_done)
        puts("To undo this: primeknet setup --remove");
    return status;
}

/* ---- undoing it -------------------------------------------------------------------------------------------------- */

static int stop_service(struct systemd *m, struct err *err) {
    struct systemd_unit unit;
    int res;
    if (!m)
        return (res = autostart_enable(false, err)) ? res : autostart_stop(err);
    res = systemd_unit(m, &unit, UNIT, err);
    if (res < 0 || strcmp(unit.load, "not-found") == 0)
        return res;
    res = systemd_enable(m, UNIT, false, err);
    return res < 0 ? res : systemd_stop(m, UNIT, err);
}

static int undo(struct systemd *m) {
    struct err err;
    int status = default_return();
    if (stop_service(m, &err) < 0)
        return cli_fail("%s", err.text);
    puts("service   stopped, and no longer started at login");
    if (status == cli_done)
        state_remove("model");
    return enrolment_remove(&err) < 0 ? cli_fail("%s", err.text) : status;
}

static int run_setup(const struct cli_call *call) {
    bool by_default = cli_option(call, 'd'), removes = cli_option(call, 'r'), transparent = cli_option(call, 't');
    struct systemd *m = NULL; /* stays so where none runs */
    struct err err;
    if (by_default + transparent + removes > 1)
        return cli_misuse(call->command, "one of --transparent, --default and --remove");
    int fd, res = control_connect(&fd, &err);
    if (res == 0)
        close(fd);
    if (res == -EPERM || !getenv("XDG_RUNTIME_DIR"))
        return cli_fail("%s", err.text);
    systemd_open(&m, NULL);
    int status = removes ? undo(m) : set_up(m, by_default, transparent);
    systemd_close(m);
    return status;
}

const struct cli_command setup_command = {
    .name = "setup",
    .summary = "run Enhanced Mic now and at every login",
    .run = run_setup,
    .options = {{'t', "transparent", .help = "also have Enhanced Mic stand in for the microphone"},
                {'d', "default", .help = "also make Enhanced Mic the default microphone"},
                {'r', "remove", .help = "undo setup and forget your voice; the settings stay"}},
    .about = "Measures which model this processor can run, and starts primeknetd now and at every login, with\n"
             "systemd or, if that does not run, with the desktop. It can be run again. With --transparent\n"
             "(WirePlumber 0.5), applications that record the microphone hear Enhanced Mic in its place. With\n"
             "--default, applications that follow the default record Enhanced Mic, even those that offer no choice,\n"
             "also after it was absent; Enhanced Mic records the previous default.\n",
};
