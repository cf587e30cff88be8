#include "daemon/engines.h"

#include "base/clock.h"
#include "control/protocol.h"
#include "daemon/carry.h"
#include "daemon/gpu.h"
#include "daemon/notify.h"
#include "daemon/say.h"
#include "engine/choose.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLACE_MS = 5000,         /* between two attempts to replace an engine that failed */
    GPU_RETRY_MS = 5000,       /* BACK_OFF begins with this ... */
    GPU_RETRY_MAX_MS = 600000, /* ... and ends with this, which RESTART_LATER waits, too */
    POWER_MS = 5000,           /* between two checks of the power supply; TRY_SOON */
    SECOND_MS = 1000,          /* late hops are counted by the second */
    AGAIN_MS = 15000,          /* of idle time before AGAIN, and between two checks of the machine's load */
};
static const int64_t NEVER = INT64_MAX;

/* Times are in ms, as now_ms(). */
struct engines {
    struct engines_options options;
    struct worker *worker;
    struct loader loader;
    struct ready_engine now; /* the one last passed to the worker, which owns `engine` */

    enum gpu_state gpu;
    bool context;       /* this process has a context on the GPU */
    unsigned n_gpu;     /* engines on the GPU that are open */
    int64_t gpu_at;     /* GPU_WAITS: when to try the GPU again */
    int gpu_retry_ms;   /* the next BACK_OFF */
    int64_t restart_at; /* of GPU_POISONED */
    int64_t power_at;   /* GPU_RUNS, GPU_LEAVES: when to check the power supply again */
    int64_t idle_since; /* -1: somebody records */

    int64_t replace_at; /* when a failed engine may be replaced again */
    int64_t second_at;
    uint64_t late_hops; /* at the last second */
    struct carry_state carry;
    int64_t again_at;    /* when AGAIN may start, ... */
    bool measured_again; /* ... which it does once */
    bool notified;       /* whether the desktop has been notified since the settings changed */

    bool asked; /* a request for `wanted` that the loader has not started */
    struct settings wanted;
};

static const struct settings *in_force(const struct engines *e) {
    return e->options.settings;
}

/* Logs why the GPU is not used. */
static void set_problem(struct engines *e, const char *code, const char *text) {
    err_set(&e->now.problem, 0, "%s", text);
    e->now.problem.about.code = code;
}

/* Notifies the desktop, because a user in a call does not read the log. */
static void __attribute__((format(printf, 2, 3))) notify_once(struct engines *e, const char *format, ...) {
    char body[256];
    va_list args;
    if (e->notified)
        return;
    e->notified = true;
    va_start(args, format);
    vsnprintf(body, sizeof body, format, args);
    va_end(args);
    notify("Enhanced Mic", body);
}

/* ---- actions of the table --------------------------------------------------------------------------------------- */

static struct load_task task_for(const struct engines *e, enum role role, const struct settings *s) {
    const struct settings *now = in_force(e);
    const unsigned n_now = settings_streams(now), n_next = settings_streams(s);
    const bool other_gpu = strcmp(s->gpu, now->gpu) != 0,
               newly = !strcmp(s->engine, "cuda") && strcmp(now->engine, "cuda");
    return (struct load_task){
        .role = role,
        .settings = *s,
        .n_pumps = n_now > n_next ? n_now : n_next, /* those being replaced stay until it is in use */
        .n_lighter = role == ASKED || role == FIRST ? 0 : e->now.n_lighter + (role == LIGHTER) - (role == HEAVIER),
        .instead = e->now.model,
        .hurry = role == REPLACEMENT || role == PROVISIONAL,
        .awake = e->context,
        .poisoned = e->gpu == GPU_POISONED,
        .demanded = !loader_wants_gpu(s) ? -1
                    : other_gpu          ? SETTING_gpu
                    : newly              ? SETTING_engine
                                         : -1,
    };
}

static void begin_loading(struct engines *e, enum role role, const struct settings *s) {
    const struct load_task task = task_for(e, role, s);
    loader_begin(&e->loader, &task);
}

static void release_gpu(struct engines *e) {
    if (!e->context || e->n_gpu)
        return;
    engine_rest();
    e->context = false;
    say(SD_INFO, "the GPU is released");
}

static void happens(struct engines *e, enum gpu_event event) {
    static const struct {
        enum gpu_action action;
        enum role role;
    } loads[] = {{LOAD_GPU, WANTED},
                 {LOAD_CPU, STAND_IN},
                 {LOAD_ANOTHER, REPLACEMENT},
                 {LOAD_LIGHTER, LIGHTER},
                 {LOAD_HEAVIER, HEAVIER}};
    const struct gpu_step step = gpu_next(e->gpu, event);
    const int64_t now = now_ms();
    e->gpu = step.state;
    if (step.actions & TRY_SOON)
        e->gpu_at = now + POWER_MS;
    if (step.actions & BACK_OFF) {
        e->gpu_at = now + e->gpu_retry_ms;
        e->gpu_retry_ms = e->gpu_retry_ms * 2 < GPU_RETRY_MAX_MS ? e->gpu_retry_ms * 2 : GPU_RETRY_MAX_MS;
    }
    if (step.actions & (RESTART | RESTART_LATER))
        e->restart_at = step.actions & RESTART ? 0 : now + GPU_RETRY_MAX_MS;
    if (step.actions & RELEASE)
        release_gpu(e);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        if (step.actions & loads[i].action)
            begin_loading(e, loads[i].role, in_force(e));
}

/* ---- changes of engine
 * -------------------------------------------------------------------------------------------- */

/* Handles that the GPU was refused with this error code. */
static enum gpu_event refusal(int why) {
    return why == -EAGAIN ? SPARED : why == -ENOMEM || why == -EBUSY ? NO_ROOM : why == -EIO ? BROKEN : ABSENT;
}

/* Updates the state when an engine comes into use, whoever passes it to the worker. */
static void adopt(struct engines *e, const struct ready_engine *ready, const struct settings *s) {
    if (ready->why && strcmp(ready->problem.text, e->now.problem.text) != 0) {
        const bool demanded = !strcmp(s->engine, "cuda");
        say(demanded ? SD_WARNING : SD_INFO, "%s; %s", ready->problem.text, ready->text);
    }
    e->now = *ready;
    e->carry.bad_s = e->carry.good_s = 0;
    happens(e, ready->gpu ? GPU_TAKEN : CPU_TAKEN);
    if (ready->why)
        happens(e, refusal(ready->why));
}

int engines_take(struct engines *e, const struct ready_engine *ready, const struct settings *s, struct err *err) {
    int res = worker_engine(e->worker, ready->engine, ready->hop_p99_us);
    if (res) {
        engines_give_back(e, ready->engine);
        return settings_refuse(s, SETTING_model, res, strerror(-res), err);
    }
    adopt(e, ready, s);
    return 0;
}

bool engines_has_room(const struct engines *e, const struct settings *s) {
    const unsigned n_streams = PUMP_STREAMS * settings_streams(s);
    return n_streams <= e->now.n_streams && (!e->loader.busy || n_streams <= PUMP_STREAMS * e->loader.task.n_pumps);
}

void engines_give_back(struct engines *e, struct engine *engine) {
    if (engine && !strcmp(engine_kind(engine), "cuda"))
        e->n_gpu--;
    loader_close_engine(engine);
}

/* Handles an engine for the settings in force that was loaded and passed to the worker. */
static void tell_taken(struct engines *e, enum role role) {
    if (role == REPLACEMENT || role == LIGHTER || role == HEAVIER || role == MEASURED || role == AGAIN)
        say(SD_INFO, "%s took over", e->now.text);
    if (role == LIGHTER)
        notify_once(e, "%s is too heavy for this machine now; %s took over", e->now.too_heavy, e->now.model);
}

/* Handles that loading an engine for the settings in force failed. */
static void tell_refused(struct engines *e, enum role role, int res, const struct err *err) {
    if (role == HEAVIER && res == -EBUSY) {
        say(SD_INFO, "%s is still too heavy for this machine: %s", e->now.too_heavy, err->text);
    } else if (role == WANTED) {
        if (strcmp(e->now.problem.text, err->text) != 0)
            say(SD_WARNING, "%s; %s", err->text, e->now.text);
        e->now.problem = *err;
        happens(e, refusal(res));
    } else {
        say(SD_ERR,
            role == REPLACEMENT ? "cannot replace the engine that failed, trying again: %s"
                                : "cannot open the CPU's engine: %s",
            err->text);
        e->idle_since = now_ms();
    }
}

static void end_loading(struct engines *e, struct load_result *r, bool recording) {
    const struct load_task *task = &e->loader.task;
    e->context |= r->touched;
    e->n_gpu += r->res == 0 && r->ready.gpu;
    /* If somebody has started to record in the meantime, the GPU must not rest. */
    if (e->loader.dropped || (task->role == STAND_IN && e->gpu == GPU_RUNS && recording)) {
        if (r->res == 0)
            engines_give_back(e, r->ready.engine);
        return;
    }
    if (task->role == ASKED) {
        e->options.loaded(e->options.data, r->res, &r->ready, &r->err);
        return;
    }
    if (task->role == MEASURED || task->role == AGAIN) {
        e->now.unmeasured = false;
        e->now.unsure = r->ready.unsure;
        e->measured_again |= task->role == AGAIN;
    }
    if (task->role == FIRST)
        e->now.provisional = false;
    if (r->res == 0 && !r->ready.engine)
        return; /* the current model is the right one */
    if (r->res == 0) {
        if (task->role != WANTED && task->role != FIRST) /* keep what was reported about the GPU */
            r->ready.problem = e->now.problem;
        r->res = engines_take(e, &r->ready, &task->settings, &r->err);
    }
    if (r->res == 0)
        tell_taken(e, task->role);
    else
        tell_refused(e, task->role, r->res, &r->err);
}

void engines_ask(struct engines *e, const struct settings *s) {
    engines_retry(e);
    e->notified = false;
    loader_drop(&e->loader);
    e->asked = s;
    if (s)
        e->wanted = *s;
}

/* ---- timed work -------------------------------------------------------------------------------------------------- */

/* Replaces a failed engine while dry sound plays: the GPU's by the CPU's, another by one of its kind. */
static void replace_lost_engine(struct engines *e) {
    e->replace_at = now_ms() + REPLACE_MS;
    if (e->now.gpu)
        set_problem(e, CODE_GPU_FAILED, LOADER_POISONED);
    say(SD_ERR, "%s; the microphone passes through unchanged",
        e->now.gpu ? "the GPU's engine failed (the GPU was lost or reset)" : "the engine failed");
    happens(e, LOST);
}

/* Handles hops that are late second after second. */
static void step_down(struct engines *e) {
    if (e->gpu & GPU_IN_USE) {
        set_problem(e, CODE_GPU_BUSY, "another program keeps the GPU busy");
        say(SD_WARNING, "%s: hops are late; the CPU takes over, the GPU is tried again later", e->now.problem.text);
        notify_once(e, "%s; the processor takes over", e->now.problem.text);
        happens(e, LATE);
    } else if (e->now.lighter) {
        say(SD_WARNING, "%s is too heavy for this machine now: hops are late; %s takes over", e->now.model,
            e->now.lighter);
        happens(e, LATE);
    }
}

/* Load control (carry.h): checks once a second, while somebody records, whether the machine is fast enough for the
 * model; when a heavier model may return, also while nobody records. Returns when to check again. */
static int64_t step_carry(struct engines *e, const struct engines_load *load, int64_t now) {
    const bool lighter = e->now.n_lighter > 0, counts = !load->swapping && (load->recording || lighter);
    if (counts && now < e->second_at)
        return e->second_at;
    const uint64_t n_late = load->late_hops > e->late_hops ? load->late_hops - e->late_hops : 0;
    e->second_at = now + SECOND_MS;
    e->late_hops = load->late_hops;
    if (!counts)
        return load->recording ? e->second_at : NEVER;
    switch (carry_second(&e->carry, n_late * load->hop, load->recording ? load->share : 0, lighter)) {
    case CARRY_DOWN: step_down(e); break;
    case CARRY_UP: happens(e, EASY); break;
    case CARRY_STAY: break;
    }
    return e->second_at;
}

static int64_t after(int64_t since, double seconds) {
    return isinf(seconds) ? NEVER : since + (int64_t)(seconds * 1000);
}

/* While somebody records. */
static int64_t step_recording(struct engines *e, int64_t now) {
    const bool in_use = e->gpu & GPU_IN_USE;
    struct err why;
    e->idle_since = -1;
    if (in_use && now < e->power_at)
        return e->power_at;
    if (!in_use && e->gpu != GPU_RESTS)
        return e->gpu == GPU_WAITS ? e->gpu_at : NEVER;
    if (in_use)
        e->power_at = now + POWER_MS;
    if (loader_spares_gpu(in_force(e), e->context, &why)) {
        if (in_use)
            say(SD_INFO, "%s; the CPU takes over", why.text);
        e->now.problem = why;
        happens(e, SPARED);
    } else if (!in_use) {
        happens(e, RECORDING);
    }
    return in_use ? e->power_at : e->gpu == GPU_WAITS ? e->gpu_at : NEVER;
}

/* While nobody records. */
static int64_t step_idle(struct engines *e, int64_t now) {
    const struct settings *s = in_force(e);
    const bool spare = e->context && loader_spares_gpu(s, e->context, NULL);
    if (e->idle_since < 0)
        e->idle_since = now;
    const bool in_use = e->gpu & GPU_IN_USE;
    const int64_t at = !in_use && !e->context ? NEVER
                       : spare                ? now
                                              : after(e->idle_since, in_use ? s->gpu_idle_s : s->gpu_release_s);
    if (now < at)
        return at;
    happens(e, in_use ? IDLE : LONG_IDLE);
    return NEVER;
}

/* Returns when to check the GPU again. */
static int64_t step_gpu(struct engines *e, const struct engines_load *load, int64_t now) {
    if (!loader_wants_gpu(in_force(e))) {
        happens(e, LONG_IDLE);
        return NEVER;
    }
    if (e->gpu == GPU_POISONED)
        return NEVER;
    if (e->gpu == GPU_WAITS && now >= e->gpu_at)
        happens(e, RETRY_DUE);
    return load->recording ? step_recording(e, now) : step_idle(e, now);
}

/* Measures again when the machine is idle, because a measurement on a busy machine is not final. Returns when to check
 * again. */
static int64_t step_again(struct engines *e, const struct engines_load *load, int64_t now) {
    if (load->heard)
        e->again_at = now + AGAIN_MS;
    if (load->heard || !e->now.unsure || e->now.n_lighter || e->measured_again)
        return NEVER;
    if (now < e->again_at)
        return e->again_at;
    e->again_at = now + AGAIN_MS;
    if (choose_is_quiet())
        begin_loading(e, AGAIN, in_force(e));
    return e->again_at;
}

/* Starts what is due, if anything. Returns when to check again. */
static int64_t step_loader(struct engines *e, const struct engines_load *load, int64_t now) {
    if (e->asked) {
        e->asked = false;
        begin_loading(e, ASKED, &e->wanted);
        return NEVER;
    }
    if (load->engine_lost) {
        if (now >= e->replace_at)
            replace_lost_engine(e);
        return e->replace_at;
    }
    if (e->now.provisional) {
        begin_loading(e, FIRST, in_force(e));
        return NEVER;
    }
    const int64_t at = step_gpu(e, load, now);
    if (!e->loader.busy && e->now.unmeasured)
        begin_loading(e, MEASURED, in_force(e));
    if (e->loader.busy)
        return at;
    const int64_t carry_at = step_carry(e, load, now);
    return e->loader.busy ? at : sooner(at, sooner(carry_at, step_again(e, load, now)));
}

int engines_step(struct engines *e, const struct engines_load *load) {
    const enum role role = e->loader.task.role;
    struct load_result result;
    if (loader_take(&e->loader, &result)) {
        end_loading(e, &result, load->recording);
        return 0; /* the load has changed */
    }
    if ((load->engine_lost && role != ASKED && role != REPLACEMENT) || (load->heard && role == AGAIN))
        loader_drop(&e->loader);
    int64_t at = e->loader.busy ? NEVER : step_loader(e, load, now_ms());
    if (e->gpu == GPU_POISONED && !load->recording)
        at = sooner(at, e->restart_at);
    const int64_t now = now_ms();
    return at <= now ? 0 : at - now < INT32_MAX ? (int)(at - now) : INT32_MAX;
}

bool engines_wants_restart(const struct engines *e, bool recording) {
    return e->gpu == GPU_POISONED && !recording && !e->loader.busy && !e->asked && now_ms() >= e->restart_at;
}

void engines_no_restart(struct engines *e) {
    e->restart_at = NEVER;
}

void engines_retry(struct engines *e) {
    if (e->loader.task.role != ASKED)
        loader_drop(&e->loader);
    e->gpu_retry_ms = GPU_RETRY_MS;
    happens(e, SETTINGS_READ);
    e->carry = (struct carry_state){0};
}

int engines_fd(const struct engines *e) {
    return e->loader.event;
}

const struct ready_engine *engines_now(const struct engines *e) {
    return &e->now;
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

int engines_open(struct engines **ret, const struct engines_options *options, struct err *err) {
    struct engines *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    *e = (struct engines){.options = *options, .gpu = GPU_RESTS, .gpu_retry_ms = GPU_RETRY_MS, .idle_since = -1};
    int res = loader_open(&e->loader, err);
    if (res) {
        free(e);
        return res;
    }
    struct load_result first;
    e->again_at = now_ms() + AGAIN_MS;
    const struct load_task task = task_for(e, PROVISIONAL, options->settings);
    loader_run(&e->loader, &task, &first); /* on this thread, because nothing waits for it yet */
    e->context = first.touched;
    if (first.res) {
        *err = first.err;
        engines_close(e);
        return first.res;
    }
    e->n_gpu = first.ready.gpu;
    adopt(e, &first.ready, options->settings);
    *ret = e;
    return 0;
}

void engines_run(struct engines *e, struct worker *worker) {
    e->worker = worker;
}

void engines_close(struct engines *e) {
    if (!e)
        return;
    loader_close(&e->loader);
    free(e);
}
