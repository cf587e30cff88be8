#include "daemon/engines.h"

#include "daemon/carry.h"
#include "engine/choose.h"
#include "base/clock.h"
#include "base/memory.h"
#include "engine/measure.h"
#include "model/model.h"
#include "daemon/notify.h"
#include "daemon/power.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

enum {
    WARM_UP_HOPS = 200,      /* about a second of sound: caches, page tables and the processor's clock settle */
    REPLACE_MS = 5000,       /* between two attempts to replace a lost engine */
    GPU_RETRY_MS = 5000,     /* until a GPU that had no memory or no time is tried again, twice as long each time ... */
    GPU_RETRY_MAX_MS = 600000, /* ... up to this; and until a process that was poisoned early is restarted */
    POWER_MS = 5000,         /* between two looks at what feeds the machine */
};
static const int64_t NEVER = INT64_MAX;
#define FAILED "the GPU's engine failed; the daemon starts anew, with the GPU, once nobody records"

/* What the loader brings, and what for: what new settings ask for; the GPU's engine that those in force ask for; the
 * CPU's, while the GPU's rests, or after a loss; the CPU's with another model, which this machine carries, or may carry
 * again. */
enum role { ASKED, WANTED, STAND_IN, REPLACEMENT, LIGHTER, HEAVIER };

struct engines {
    struct engines_options options;
    struct worker *worker;
    int event;
    struct ready_engine now; /* handed to the worker last; `engine` is the worker's */
    unsigned n_gpu;            /* engines on the GPU that are open */
    bool context;              /* the GPU's driver holds something for this process */
    bool poisoned;
    int64_t restart_at;        /* ms, as now_ms(), here and below */
    int64_t replace_at;
    int64_t gpu_at;            /* when the GPU may be tried again */
    int gpu_retry_ms;
    int64_t power_at;
    int64_t idle_since;        /* -1: somebody records */
    int64_t second_at;         /* late hops are counted by the second */
    uint64_t late_hops;
    struct carry_state carry;
    bool notified;             /* on the desktop, since the settings were asked for */

    bool asked;                /* for what `wanted` says, and the loader has not begun with it */
    struct settings wanted;

    /* The loader, one at a time. */
    bool loading;              /* from begin_loading to end_loading */
    bool has_thread;
    pthread_t thread;
    _Atomic bool dropped;      /* nobody waits for it any more */
    _Atomic bool loaded;       /* the thread ends */
    /* Its task, which stands still while it loads. */
    enum role role;
    struct settings settings;
    unsigned n_pumps;          /* that the engine is for */
    unsigned n_lighter;        /* see ready_engine */
    bool awake, failed;        /* what `context` and `poisoned` were at the beginning */
    int demanded;              /* the setting that newly asks for the GPU, or another one; -1: none does */
    /* What comes of it, the thread's while it loads. */
    bool touched;              /* the GPU's driver may hold something for this process from now on */
    struct ready_engine next;
    int res;
    struct err err;
};

/* ---- one engine -------------------------------------------------------------------------------------------------- */

static void close_engine(struct engine *engine) {
    if (!engine)
        return;
    struct model *model = (struct model *)engine_model(engine); /* const to those who only run it */
    engine_close(engine);
    model_free(model);
    memory_trim(); /* a smaller one may have taken its place */
}

static int load_model(struct model **ret, const char *name, const struct settings *s, struct err *err) {
    struct err why = {""};
    struct model *model;
    int res = model_load(&model, name, &why);
    if (res)
        return settings_refuse(s, SETTING_model, res, why.text, err);
    if (model_rate(model) != PUMP_RATE) {
        snprintf(why.text, sizeof why.text, "%.200s works at %u Hz and is for files only; live sound has %d Hz", name,
                 model_rate(model), PUMP_RATE);
        model_free(model);
        return settings_refuse(s, SETTING_model, -EINVAL, why.text, err);
    }
    if (!worker_takes(model_hop(model), model_delay(model))) {
        snprintf(why.text, sizeof why.text, "%.200s: its hop and window are too long for live sound", name);
        model_free(model);
        return settings_refuse(s, SETTING_model, -EINVAL, why.text, err);
    }
    *ret = model;
    return 0;
}

int engines_check(const struct settings *s, struct err *err) {
    struct model *model = NULL;
    int res = strcmp(s->model, "auto") ? load_model(&model, s->model, s, err) : 0;
    model_free(model);
    return res;
}

/* The next one that takes less; NULL: there is none. */
static const char *lighter_than(const char *model) {
    return !strcmp(model, "small") ? NULL : !strcmp(model, "large") ? "base" : "small";
}

/* The model, loaded, opened and warm on one engine. Where that takes longer than a hop for a hop, a GPU and a model that the
 * machine did not carry before are refused (-EBUSY), for something else runs; else it is all there is. */
static int open_engine(struct engines *n, struct ready_engine *ret, const char *model_wanted, const char *engine,
                       const struct settings *s, struct err *err) {
    struct ready_engine e = {.n_streams = PUMP_STREAMS * n->n_pumps, .gpu = !strcmp(engine, "cuda")};
    struct model *model;
    float us[WARM_UP_HOPS];

    const int64_t start = now_ms();
    int res = load_model(&model, model_wanted, s, err);
    if (res)
        return res;
    struct engine_options options = {.name = engine, .gpu = s->gpu, .n_streams = e.n_streams, .max_hops = 1};
    res = engine_open(&e.engine, &options, model, err);
    if (res) {
        model_free(model);
        return res;
    }
    float hop_us = 1e6f * (float)engine_hop(e.engine) / PUMP_RATE;
    int n_hops = measure_hops(e.engine, WARM_UP_HOPS, CLOCK_MONOTONIC, us, hop_us, WARM_UP_HOPS / 4, &n->dropped);
    if (n_hops < 0) {
        close_engine(e.engine);
        return err_set(err, n_hops, "engine %s: it failed while it warmed up", engine);
    }
    e.hop_p99_us = (unsigned)ceilf(measure_percentile(us, (unsigned)n_hops, 0.99));
    float most_us = measure_percentile(us, (unsigned)n_hops, 0.9); /* the slowest may be the host's doing */
    if ((e.gpu || n->role == HEAVIER) && most_us > hop_us) {
        close_engine(e.engine);
        return err_set(err, -EBUSY, e.gpu ? "engine cuda: a hop of %.0f us takes %.0f us: another program keeps the GPU busy, or "
                                            "it is too slow"
                                          : "a hop of %.0f us takes %.0f us", hop_us, most_us);
    }
    text_copy(e.model, sizeof e.model, model_name(model));
    text_copy(e.engine_name, sizeof e.engine_name, engine_name(e.engine));
    snprintf(e.text, sizeof e.text, "%s on %s", e.model, e.engine_name);
    n->options.say(SD_INFO, "%s: %u us a hop of %.0f us (99 of 100), there in %d ms", e.text, e.hop_p99_us, hop_us,
                   (int)(now_ms() - start));
    if (measure_percentile(us, (unsigned)n_hops, 0.5) > hop_us)
        n->options.say(SD_WARNING,
                       "%s is too slow for this machine; hops will be late, and sound as the microphone does", e.text);
    *ret = e;
    return 0;
}

/* On the CPU: the settings' model, or the one that this processor carries. That is measured where it never was, which
 * takes seconds, unless `hurry`. */
static int open_cpu(struct engines *n, struct ready_engine *ret, const char *model, bool hurry,
                    const struct settings *s, struct err *err) {
    struct err why = {""};
    struct choice choice;
    if (!strcmp(model, "auto")) {
        int res = choose_model(&choice, "cpu", !hurry, &n->dropped, &why);
        if (res)
            return settings_refuse(s, SETTING_model, res, why.text, err);
        model = choice.model;
        if (choice.p99_us > 0)
            n->options.say(SD_INFO, "model %s: a hop of base takes %.0f us here (99 of 100), %.0f are allowed%s", model,
                           choice.p99_us, choice.limit_us, choice.remembered ? "; remembered" : "");
    }
    const char *fitting = model;
    for (unsigned i = 0; i < n->n_lighter; i++)
        fitting = lighter_than(fitting);
    int res = open_engine(n, ret, fitting, "cpu", s, err);
    if (res)
        return res;
    ret->lighter = lighter_than(fitting);
    ret->n_lighter = n->n_lighter;
    if (n->n_lighter)
        text_copy(ret->too_heavy, sizeof ret->too_heavy, model);
    return 0;
}

static int open_gpu(struct engines *n, struct ready_engine *ret, const struct settings *s, struct err *err) {
    n->touched = true;
    return open_engine(n, ret, !strcmp(s->model, "auto") ? "large" : s->model, "cuda", s, err);
}

/* Whether a GPU that was refused with this code may be had later; else it is not there, or cannot be used. */
static bool may_come(int why) {
    return why == -EAGAIN || why == -EBUSY || why == -EIO || why == -ENOMEM;
}

static bool wants_gpu(const struct settings *s) {
    return strcmp(s->engine, "cpu") != 0;
}

/* With "auto" a GPU is not worth a battery, nor waking for us alone: -EAGAIN and why. While it is in use it cannot sleep. */
static int spare_gpu(const struct settings *s, bool awake, struct err *err) {
    const char *sys = getenv("PRIMEKNET_SYS"); /* of tests */
    if (!sys)
        sys = "/sys";
    if (strcmp(s->engine, "auto") != 0)
        return 0;
    if (power_on_battery(sys))
        return err_set(err, -EAGAIN, "the machine runs on its battery, which the GPU would empty (engine = \"cuda\" uses it all the same)");
    if (!awake && power_gpu_sleeps(sys))
        return err_set(err, -EAGAIN, "the GPU is asleep and is left so (engine = \"cuda\" wakes it)");
    return 0;
}

/* ---- the loader -------------------------------------------------------------------------------------------------- */

/* What new settings ask for, or what comes nearest to it. */
static int open_asked(struct engines *n, struct ready_engine *ret, const struct settings *s, struct err *err) {
    struct ready_engine e;
    struct err problem = {""};
    int why = 0;
    if (wants_gpu(s)) {
        why = n->failed ? err_set(&problem, -EIO, "%s", FAILED) : spare_gpu(s, n->awake, &problem);
        if (!why)
            why = open_gpu(n, &e, s, &problem);
        if (!why) {
            *ret = e;
            return 0;
        }
        static const char prefix[] = "engine "; /* which the setting's name says already */
        size_t skip = strncmp(problem.text, prefix, strlen(prefix)) ? 0 : strlen(prefix);
        int res = engines_check(s, err); /* it may be the model's doing, or another model may run */
        if (!res && n->demanded >= 0 && !may_come(why))
            res = settings_refuse(s, n->demanded, why, problem.text + skip, err);
        if (res)
            return res;
    }
    /* Who asks for the GPU gets the CPU's own model where there is none; who asks for a model on any engine gets it. */
    int res = open_cpu(n, &e, strcmp(s->engine, "cuda") ? s->model : "auto", false, s, err);
    if (res)
        return res;
    memcpy(e.problem, problem.text, sizeof e.problem);
    e.why = why;
    *ret = e;
    return 0;
}

static void *load(void *data) {
    struct engines *n = data;
    const struct settings *s = &n->settings;
    switch (n->role) {
    case ASKED:
        n->res = open_asked(n, &n->next, s, &n->err);
        break;
    case WANTED:
        n->res = open_gpu(n, &n->next, s, &n->err);
        break;
    default:
        n->res = open_cpu(n, &n->next, wants_gpu(s) ? "auto" : s->model, n->role == REPLACEMENT, s, &n->err);
    }
    n->loaded = true;
    eventfd_write(n->event, 1);
    return NULL;
}

static void prepare_loading(struct engines *n, enum role role, const struct settings *s) {
    const struct settings *now = n->options.settings;
    unsigned n_now = settings_streams(now), n_next = settings_streams(s);
    n->role = role;
    n->settings = *s;
    n->n_pumps = n_now > n_next ? n_now : n_next; /* those that go stay until it is in */
    n->n_lighter = role == ASKED     ? 0
                   : role == LIGHTER ? n->now.n_lighter + 1
                   : role == HEAVIER ? n->now.n_lighter - 1
                                     : n->now.n_lighter;
    n->awake = n->context;
    n->failed = n->poisoned;
    n->demanded = !wants_gpu(s)                                              ? -1
                  : strcmp(s->gpu, now->gpu)                                 ? SETTING_gpu
                  : !strcmp(s->engine, "cuda") && strcmp(now->engine, "cuda") ? SETTING_engine
                                                                             : -1;
    n->touched = false;
    n->dropped = false;
    n->loaded = false;
}

static void begin_loading(struct engines *n, enum role role, const struct settings *s) {
    prepare_loading(n, role, s);
    n->loading = true;
    n->has_thread = pthread_create(&n->thread, NULL, load, n) == 0;
    if (!n->has_thread)
        load(n); /* which holds everything up, but is done */
}

/* ---- engines come and go ----------------------------------------------------------------------------------------- */

/* The GPU is not to be had: whether and when it is tried again. */
static void give_up_gpu(struct engines *n, int why) {
    n->gpu_at = NEVER;
    if (n->poisoned)
        return;
    if (why == -EIO) {
        n->poisoned = true;
        n->restart_at = now_ms() + GPU_RETRY_MAX_MS; /* it failed at once: so may the next process */
    } else if (why == -EAGAIN) {
        n->gpu_at = now_ms() + POWER_MS;
    } else if (why == -ENOMEM || why == -EBUSY) {
        n->gpu_at = now_ms() + n->gpu_retry_ms;
        n->gpu_retry_ms = n->gpu_retry_ms * 2 < GPU_RETRY_MAX_MS ? n->gpu_retry_ms * 2 : GPU_RETRY_MAX_MS;
    }
}

/* What follows from an engine's coming into use, whoever hands it to the worker. */
static void adopt(struct engines *n, const struct ready_engine *e, const struct settings *s) {
    if (e->why && strcmp(e->problem, n->now.problem) != 0) {
        bool demanded = !strcmp(s->engine, "cuda");
        n->options.say(demanded ? SD_WARNING : SD_INFO, "%s; %s", e->problem, e->text);
    }
    n->now = *e;
    n->carry.bad_s = n->carry.good_s = 0;
    if (e->gpu)
        n->gpu_at = 0;
    else if (e->why)
        give_up_gpu(n, e->why);
}

int engines_take(struct engines *n, const struct ready_engine *e, const struct settings *s, struct err *err) {
    int res = worker_engine(n->worker, e->engine, e->hop_p99_us);
    if (res) {
        engines_give_back(n, e->engine);
        return settings_refuse(s, SETTING_model, res, strerror(-res), err);
    }
    adopt(n, e, s);
    return 0;
}

bool engines_has_room(const struct engines *n, const struct settings *s) {
    unsigned n_streams = PUMP_STREAMS * settings_streams(s);
    return n_streams <= n->now.n_streams && (!n->loading || n_streams <= PUMP_STREAMS * n->n_pumps);
}

void engines_give_back(struct engines *n, struct engine *engine) {
    if (engine && !strcmp(engine_kind(engine), "cuda"))
        n->n_gpu--;
    close_engine(engine);
}

/* On the desktop: who enhances a call does not look at the log. */
static void __attribute__((format(printf, 2, 3))) notify_once(struct engines *n, const char *format, ...) {
    char body[256];
    va_list args;
    if (n->notified)
        return;
    n->notified = true;
    va_start(args, format);
    vsnprintf(body, sizeof body, format, args);
    va_end(args);
    notify("Enhanced Mic", body);
}

/* What comes of what the loader has brought; it has ended, or is waited for. */
static void end_loading(struct engines *n, const struct engines_load *load) {
    if (n->has_thread)
        pthread_join(n->thread, NULL);
    n->loading = false;
    n->context |= n->touched;
    n->n_gpu += n->res == 0 && n->next.gpu;
    /* Somebody may have begun to record, so that the GPU is not to rest; unless it was busy. */
    if (n->dropped || (n->role == STAND_IN && load->recording && n->gpu_at <= now_ms())) {
        if (n->res == 0)
            engines_give_back(n, n->next.engine);
        return;
    }
    if (n->role == ASKED) {
        n->options.loaded(n->options.data, n->res, &n->next, &n->err);
        return;
    }
    if (n->res == 0) {
        if (n->role != WANTED) /* what is said of the GPU stays true */
            memcpy(n->next.problem, n->now.problem, sizeof n->next.problem);
        n->res = engines_take(n, &n->next, &n->settings, &n->err);
    }
    if (n->res == 0) {
        if (n->role == REPLACEMENT || n->role == LIGHTER || n->role == HEAVIER)
            n->options.say(SD_INFO, "%s took over", n->next.text);
        if (n->role == LIGHTER)
            notify_once(n, "%s is too heavy for this machine now; %s took over", n->now.too_heavy, n->now.model);
    } else if (n->role == HEAVIER && n->res == -EBUSY) {
        n->options.say(SD_INFO, "%s is still too heavy for this machine: %s", n->now.too_heavy, n->err.text);
    } else if (n->role == WANTED) {
        give_up_gpu(n, n->res);
        if (strcmp(n->now.problem, n->err.text) != 0)
            n->options.say(SD_WARNING, "%s; %s", n->err.text, n->now.text);
        memcpy(n->now.problem, n->err.text, sizeof n->now.problem);
    } else {
        n->options.say(SD_ERR, n->role == REPLACEMENT ? "cannot open another one, trying on: %s"
                                                      : "cannot open the CPU's engine: %s", n->err.text);
        n->idle_since = now_ms();
    }
}

void engines_ask(struct engines *n, const struct settings *s) {
    engines_retry(n);
    n->notified = false;
    n->dropped = true;
    n->asked = s;
    if (s)
        n->wanted = *s;
}

/* ---- what is due ------------------------------------------------------------------------------------------------- */

/* The sound goes on, dry, while a lost engine is replaced: a lost GPU's by the CPU's, what else is lost by its like. */
static void replace_lost_engine(struct engines *n) {
    n->replace_at = now_ms() + REPLACE_MS;
    if (n->now.gpu) {
        n->poisoned = true;
        n->restart_at = 0;
        n->gpu_at = NEVER;
        snprintf(n->now.problem, sizeof n->now.problem, "%s", FAILED);
        n->options.say(SD_ERR,
                       "the GPU's engine failed (the GPU was lost or reset); the microphone goes through as it is");
    } else {
        n->options.say(SD_ERR, "the engine failed; the microphone goes through as it is");
    }
    begin_loading(n, REPLACEMENT, n->options.settings);
}

/* Hops are late second after second. */
static void step_down(struct engines *n) {
    if (n->now.gpu) {
        snprintf(n->now.problem, sizeof n->now.problem, "another program keeps the GPU busy");
        n->options.say(SD_WARNING, "%s: hops are late; the CPU takes over, the GPU is tried again later", n->now.problem);
        notify_once(n, "%s; the processor takes over", n->now.problem);
        give_up_gpu(n, -EBUSY);
        begin_loading(n, STAND_IN, n->options.settings);
    } else if (n->now.lighter) {
        n->options.say(SD_WARNING, "%s is too heavy for this machine now: hops are late; %s takes over", n->now.model,
                       n->now.lighter);
        begin_loading(n, LIGHTER, n->options.settings);
    }
}

/* Whether the machine carries the network: looked at by the second while somebody records, and, for one that is too heavy to
 * come back, also while nobody does. Returns when this needs another look. */
static int64_t step_carry(struct engines *n, const struct engines_load *load, int64_t now) {
    const bool lighter = n->now.n_lighter > 0;
    if (load->swapping || !(load->recording || lighter)) {
        n->second_at = now + 1000;
        n->late_hops = load->late_hops;
        return load->recording ? n->second_at : NEVER;
    }
    if (now < n->second_at)
        return n->second_at;
    const uint64_t n_late = load->late_hops > n->late_hops ? load->late_hops - n->late_hops : 0;
    n->second_at = now + 1000;
    n->late_hops = load->late_hops;
    switch (carry_second(&n->carry, (unsigned)n_late, load->recording ? load->share : 0, lighter)) {
    case CARRY_DOWN: step_down(n); break;
    case CARRY_UP: begin_loading(n, HEAVIER, n->options.settings); break;
    case CARRY_STAY: break;
    }
    return n->second_at;
}

static int64_t after(int64_t since, double seconds) {
    return isinf(seconds) ? NEVER : since + (int64_t)(seconds * 1000);
}

static void release_gpu(struct engines *n) {
    if (!n->context || n->n_gpu)
        return;
    engine_rest();
    n->context = false;
    n->options.say(SD_INFO, "the GPU is released");
}

/* Returns when this needs another look. */
static int64_t step_gpu(struct engines *n, const struct engines_load *load, int64_t now) {
    const struct settings *s = n->options.settings;
    struct err why;
    if (load->recording) {
        n->idle_since = -1;
        if (!n->now.gpu) {
            if (now < n->gpu_at)
                return n->gpu_at;
            if (spare_gpu(s, n->context, &why)) {
                memcpy(n->now.problem, why.text, sizeof n->now.problem);
                give_up_gpu(n, -EAGAIN);
                return n->gpu_at;
            }
            begin_loading(n, WANTED, s);
            return NEVER;
        }
        if (now >= n->power_at) {
            n->power_at = now + POWER_MS;
            if (spare_gpu(s, n->context, &why)) {
                memcpy(n->now.problem, why.text, sizeof n->now.problem);
                n->options.say(SD_INFO, "%s; the CPU takes over", why.text);
                give_up_gpu(n, -EAGAIN);
                begin_loading(n, STAND_IN, s);
                return NEVER;
            }
        }
        return n->power_at;
    }
    if (n->idle_since < 0)
        n->idle_since = now;
    bool spare = n->context && spare_gpu(s, n->context, NULL);
    if (n->now.gpu) {
        int64_t at = spare ? now : after(n->idle_since, s->gpu_idle_s);
        if (now < at)
            return at;
        begin_loading(n, STAND_IN, s);
        return NEVER;
    }
    int64_t at = !n->context ? NEVER : spare ? now : after(n->idle_since, s->gpu_release_s);
    if (now < at)
        return at;
    release_gpu(n);
    return NEVER;
}

int engines_step(struct engines *n, const struct engines_load *load) {
    int64_t now = now_ms(), at = NEVER;
    eventfd_t count;
    eventfd_read(n->event, &count);

    if (n->loading && n->loaded) {
        end_loading(n, load);
        return 0; /* the load is another one now */
    }
    if (load->engine_lost && n->role != ASKED && n->role != REPLACEMENT)
        n->dropped = true;
    if (!n->loading) {
        if (n->asked) {
            n->asked = false;
            begin_loading(n, ASKED, &n->wanted);
        } else if (load->engine_lost) {
            if (now >= n->replace_at)
                replace_lost_engine(n);
            at = n->replace_at;
        } else {
            if (!wants_gpu(n->options.settings))
                release_gpu(n);
            else if (!n->poisoned)
                at = step_gpu(n, load, now);
            if (!n->loading)
                at = sooner(at, step_carry(n, load, now));
        }
    }
    if (n->poisoned && !load->recording && n->restart_at < at)
        at = n->restart_at;
    now = now_ms();
    return at == NEVER ? INT32_MAX : at <= now ? 0 : at - now < INT32_MAX ? (int)(at - now) : INT32_MAX;
}

bool engines_wants_restart(const struct engines *n, bool recording) {
    return n->poisoned && !recording && !n->loading && !n->asked && now_ms() >= n->restart_at;
}

void engines_no_restart(struct engines *n) {
    n->restart_at = NEVER;
}

void engines_retry(struct engines *n) {
    if (n->role != ASKED)
        n->dropped = true;
    n->gpu_retry_ms = GPU_RETRY_MS;
    n->gpu_at = 0;
    n->carry = (struct carry_state){0};
}

int engines_fd(const struct engines *n) {
    return n->event;
}

const struct ready_engine *engines_now(const struct engines *n) {
    return &n->now;
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

int engines_open(struct engines **ret, const struct engines_options *options, struct err *err) {
    struct engines *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    *n = (struct engines){.options = *options, .gpu_retry_ms = GPU_RETRY_MS, .idle_since = -1};
    n->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int res = n->event < 0 ? err_set(err, -errno, "eventfd: %s", strerror(errno)) : 0;
    if (res == 0) {
        prepare_loading(n, ASKED, options->settings);
        load(n); /* there is nothing yet that it could hold up */
        n->context = n->touched;
        res = n->res;
        if (res)
            *err = n->err;
    }
    if (res) {
        engines_close(n);
        return res;
    }
    n->n_gpu = n->next.gpu;
    adopt(n, &n->next, options->settings);
    *ret = n;
    return 0;
}

void engines_run(struct engines *n, struct worker *worker) {
    n->worker = worker;
}

void engines_close(struct engines *n) {
    if (!n)
        return;
    if (n->loading) {
        n->dropped = true;
        end_loading(n, NULL);
    }
    if (n->event >= 0)
        close(n->event);
    free(n);
}
