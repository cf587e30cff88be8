/* The checks of primeknet doctor that concern the machine and the models: what keeps the model from running in time. */
#include "config.h"

#include "tool/doctor.h"

#include "base/text.h"
#include "control/client.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

enum { N_HOPS = 400, FEW_HOPS = 1000 };
static const double late_share = .001, tight = .4; /* late_share: of the hops; tight: of a hop's time, as in choose.h */

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Checks without the daemon, which does not run without a model. */
void check_models(struct doctor *d) {
    static const char again[] = "install PrimeKnet again (Debian: sudo apt install --reinstall primeknet)";
    const char *names[] = {"small", "base", "large", d->settings.model}, *wanted = d->settings.model;
    const unsigned n = 3 + (strcmp(wanted, "auto") && strcmp(wanted, "small") && strcmp(wanted, "base") &&
                            strcmp(wanted, "large"));
    char none[512] = "", line[512];
    for (unsigned i = 0; i < n; i++) {
        struct model *model = NULL;
        struct err err;
        const int res = model_load(&model, names[i], &err);
        model_free(model);
        d->any_model |= res == 0;
        const char *const own = translated(why_model(res)), *const fault = own ? line : err.text;
        if (own)
            snprintf(line, sizeof line, own, names[i]);
        if (res == -ENOENT && i == 0)
            snprintf(none, sizeof none, "%s", fault);
        if (res == -ENOENT ? strcmp(names[i], wanted) == 0 : res < 0)
            tell(d, PROBLEM, "models", i < 3 ? again : "name another one in the settings", "%s", fault);
    }
    if (!d->any_model)
        tell(d, PROBLEM, "models",
             getenv("PRIMEKNET_MODELS") ? "unset PRIMEKNET_MODELS, which names their folder, or put them there" : again,
             "none can be used%s%s", none[0] ? ": " : "", none);
}

/* ---- real time --------------------------------------------------------------------------------------------------- */

/* Drops this thread's real-time priority after the test. */
static void drop_realtime(void) {
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &(struct sched_param){0});
}

static bool limits_allow_realtime(void) {
    bool allowed = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK,
                                      &(struct sched_param){.sched_priority = 1}) == 0;
    drop_realtime();
    return allowed;
}

/* Requests real-time priority from rtkit as PipeWire does. Returns 0, -ENOENT if there is no rtkit, or -EACCES with its
 * reason in why. */
static int ask_rtkit(struct err *why) {
    static const struct rlimit moment = {200000, 200000}; /* us; rtkit refuses a process without this limit */
    sd_bus *bus = NULL;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int res = -ENOENT;
    setrlimit(RLIMIT_RTTIME, &moment);
    if (sd_bus_open_system(&bus) >= 0) {
        sd_bus_set_method_call_timeout(bus, 3000000);
        res = sd_bus_call_method(bus, "org.freedesktop.RealtimeKit1", "/org/freedesktop/RealtimeKit1",
                                 "org.freedesktop.RealtimeKit1", "MakeThreadRealtime", &error, NULL, "tu",
                                 (uint64_t)gettid(), 1);
        if (res < 0)
            res = sd_bus_error_has_name(&error, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
                          sd_bus_error_has_name(&error, SD_BUS_ERROR_NAME_HAS_NO_OWNER)
                      ? -ENOENT
                      : err_set(why, -EACCES, "%s", error.message ? error.message : strerror(-res));
    }
    drop_realtime();
    sd_bus_error_free(&error);
    sd_bus_flush_close_unref(bus);
    return res < 0 ? res : 0;
}

void check_realtime(struct doctor *d) {
    static const char limits[] = "or give your user real-time rights in /etc/security/limits.d: @audio - rtprio 95";
    struct err why = {0};
    char advice[256];
    const char *means = d->status ? _(": the sound may break up when the machine is busy, and has more delay") : "";
    if (json_is_true(json_object_get(d->status, "realtime"))) {
        tell(d, FINE, "real time", NULL, "the model's thread has real-time priority");
        return;
    }
    if (json_is_number(json_object_get(d->status, "realtime_limit_ms"))) {
        tell(d, PROBLEM, "real time",
             either(d,
                    "{systemctl --user restart xdg-desktop-portal}, which may have started before rtkit; then: "
                    "systemctl --user restart primeknet",
                    "log out and in again, since xdg-desktop-portal may have started before rtkit"),
             "no real-time priority is used, since %s%s", text_of(d->status, "realtime_refusal"), means);
        return;
    }
    bool limits_do = limits_allow_realtime();
    int rtkit = limits_do ? 0 : ask_rtkit(&why);
    if (rtkit == 0 && !d->status) {
        tell(d, FINE, "real time", NULL, "%s", limits_do ? _("this user's limits allow it") : _("rtkit grants it"));
    } else if (rtkit == 0) {
        tell(d, PROBLEM, "real time", restart(d), "the model's thread has no real-time priority (%s), though %s now%s",
             text_of(d->status, "realtime_refusal"),
             limits_do ? _("this user's limits allow it") : _("rtkit grants it"), means);
    } else if (rtkit == -ENOENT) {
        snprintf(advice, sizeof advice, _("install rtkit (Debian: sudo apt install rtkit), %s"), _(limits));
        tell(d, PROBLEM, "real time", advice,
             "rtkit is not installed, and this user's limits allow no real-time priority%s", means);
    } else {
        snprintf(advice, sizeof advice, _("%s; solve that, %s"),
                 _(either(d, "journalctl -u rtkit-daemon says why", "the system's log says why")), _(limits));
        tell(d, PROBLEM, "real time", advice,
             "rtkit refuses (%s), and this user's limits allow no real-time priority%s", why.text, means);
    }
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

/* Puts the sentence for the reason, if it is translated, before the English line, which says more. */
static const char *tell_gpu(const char *problem, const char *why, char ret[640]) {
    const char *own = translated(why);
    if (!own)
        return problem;
    snprintf(ret, 640, "%.*s", (int)strlen(own) - (own[0] && own[strlen(own) - 1] == '.'), own);
    text_add(ret, 640, " (%s)", problem);
    return ret;
}

/* Tries to open the GPU engine and reports its message; the processor takes over if it does not open. */
void check_gpu(struct doctor *d) {
    bool wanted = strcmp(d->settings.engine, "cuda") == 0;
    const json_t *unused = json_object_get(d->status, "gpu_unused");
    const char *engine = text_of(d->status, "engine"), *problem = text_of(d->status, "problem");
    const char *why = text_of(unused, "why")[0] ? text_of(unused, "why") : text_of(unused, "code");
    char line[640];
    struct model *model = NULL;
    struct engine *e = NULL;
    struct err err = {0};
    if (strcmp(d->settings.engine, "cpu") == 0) {
        tell(d, FINE, "GPU", NULL, "not used: engine is \"cpu\"");
        return;
    }
    if (!d->status) {
        const struct engine_options how = {.name = "cuda", .gpu = d->settings.gpu, .n_streams = 1, .max_hops = 1};
        const int res = choose_engine(&model, &e, "base", &how, &err);
        problem = res < 0 ? err.text : "";
        why = why_gpu(res);
        engine_close(e);
        model_free(model);
    }
    const char *prefix = "engine cuda: ";
    if (text_begins(problem, prefix))
        problem += strlen(prefix);
    if (problem[0])
        tell(d,
             wanted                                             ? PROBLEM
             : access("/proc/driver/nvidia/version", F_OK) == 0 ? NOTE
                                                                : FINE,
             "GPU", wanted ? "solve that, or use the processor: {primeknet set engine auto --save}" : NULL,
             "%s; the processor is used", tell_gpu(problem, why, line));
    else if (text_begins(engine, "cuda") || !d->status)
        tell(d, FINE, "GPU", NULL, "can be used");
    else
        tell(d, FINE, "GPU", NULL, "released while no application records");
}

static const char *const lighter =
    "use a lighter model: {primeknet model auto --save}, or primeknet model small --save";

/* Judges the hops of past recordings; returns false if there were too few. */
static bool judge_hops(struct doctor *d) {
    double hops = number_of(d->status, "hops"), late = number_of(d->status, "late_hops");
    char line[512];
    const char *too_heavy = lacking(d, "model", line);
    if (too_heavy[0]) {
        tell(d, PROBLEM, "speed",
             "stop what keeps the processor busy, or keep the lighter model: {primeknet model small --save}", "%s",
             too_heavy);
        return true;
    }
    if (hops < FEW_HOPS || !json_is_number(json_object_get(d->status, "hop_p99_us"))) /* or none of this model's */
        return false;
    bool cpu = text_begins(text_of(d->status, "engine"), "cpu");
    if (late > late_share * hops)
        tell(d, PROBLEM, "speed", cpu ? lighter : "stop what else uses the GPU, or: {primeknet set engine cpu --save}",
             "%.0f of %.0f hops of %s were late, so the microphone came through unenhanced", late, hops,
             text_of(d->status, "model"));
    else
        tell(d, FINE, "speed", NULL, "%s: p99 of a hop is %.0f us, %.0f of %.0f late", text_of(d->status, "model"),
             number_of(d->status, "hop_p99_us"), late, hops);
    return true;
}

void check_speed(struct doctor *d) {
    const char *name = text_of(d->status, "model");
    float us[N_HOPS];
    struct choice choice;
    struct model *model = NULL;
    struct engine *e = NULL;
    struct err err = {0};
    if (judge_hops(d) || text_begins(text_of(d->status, "engine"), "cuda"))
        return;
    int res = 0;
    if (!name[0]) {
        name = d->settings.model;
        if (strcmp(name, "auto") == 0 && (res = choose_model(&choice, "cpu", CHOOSE_AT_ONCE, NULL, &err)) == 0)
            name = choice.model;
    }
    if (res == 0)
        res = choose_engine(&model, &e, name, &(struct engine_options){.name = "cpu", .n_streams = 1, .max_hops = 1},
                            &err);
    if (res == 0) {
        double hop_us = 1e6 * model_hop(model) / model_rate(model);
        res = measure_hops(e, N_HOPS, CLOCK_THREAD_CPUTIME_ID, us, (float)hop_us, N_HOPS / 4, NULL);
        double p99 = res > 0 ? measure_percentile(us, (unsigned)res, .99) : 0, share = p99 / hop_us;
        if (res > 0)
            tell(d,
                 share > 1       ? PROBLEM
                 : share > tight ? NOTE
                                 : FINE,
                 "speed", share > tight ? lighter : NULL, "%s: a hop of %.0f us takes %.0f us on this processor%s",
                 name, hop_us, p99,
                 share > 1       ? _(", too long")
                 : share > tight ? _(", so the delay grows and hops may be late")
                                 : "");
    }
    engine_close(e);
    model_free(model);
}
