#include "daemon/loader.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "control/protocol.h"
#include "daemon/power.h"
#include "daemon/say.h"
#include "engine/choose.h"
#include "engine/measure.h"
#include "live/pump.h"
#include "model/model.h"
#include "print/enrolment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Hops of a warm-up. A GPU's clocks take about a second of sound to settle, and a heavier model is judged over the same
 * time. The processor settles within the first COLD_HOPS, which are ignored: page faults, cold caches. */
enum { WARM_UP_HOPS = 200, CPU_WARM_UP_HOPS = 50, COLD_HOPS = 10 };

/* ---- one engine -------------------------------------------------------------------------------------------------- */

void loader_close_engine(struct engine *engine) {
    if (!engine)
        return;
    struct model *model = (struct model *)engine_model(engine); /* const for users that only run the engine */
    engine_close(engine);
    model_free(model);
    memory_trim(); /* a smaller one may have replaced it */
}

static int refuse(const struct settings *s, int res, const char *why, const char *text, struct err *err) {
    const char *slash = strrchr(s->model, '/');
    settings_refuse(s, SETTING_model, res, text, err);
    if (err) {
        err->about.why = why;
        text_copy(err->about.word, sizeof err->about.word, slash ? slash + 1 : s->model);
    }
    return res;
}

static int load_model(struct model **ret, const char *name, const struct settings *s, struct err *err) {
    struct err why = {0};
    struct model *model;
    int res = model_load(&model, name, &why);
    if (res)
        return refuse(s, res, why_model(res), why.text, err);
    if (model_rate(model) != PUMP_RATE)
        res = err_set(&why, -EINVAL, "%.200s works at %u Hz and is for files only; live sound has %d Hz", name,
                      model_rate(model), PUMP_RATE);
    else if (!worker_takes(model_hop(model), model_delay(model)))
        res = err_set(&why, -EINVAL, "%.200s: its hop and window are too long for live sound", name);
    if (res) {
        model_free(model);
        return refuse(s, res, WHY_NOT_LIVE, why.text, err);
    }
    *ret = model;
    return 0;
}

int loader_check(const struct settings *s, struct err *err) {
    struct model *model = NULL;
    int res = strcmp(s->model, "auto") ? load_model(&model, s->model, s, err) : 0;
    model_free(model);
    return res;
}

/* Makes the model keep the owner's voice alone. Returns NULL, or the CODE_... of why it keeps all. */
static const char *keep_voice(struct model *model, const struct settings *s, struct err *why) {
    struct enrolment learned;
    if (strcmp(s->speaker, "off") != 0) {
        err_set(why, -EBUSY, "Enhanced Speaker is on, and it must not lose the voices of others");
        return CODE_FAR_VOICES;
    }
    int res = enrolment_read(&learned, why);
    if (res == -ENOENT) {
        err_set(why, res, "no voice has been learned");
        return CODE_NOT_LEARNED;
    }
    if (res == 0)
        res = model_keep_voice(model, learned.encoder, learned.print, learned.size, why);
    return res == 0 ? NULL : res == -ENOTSUP ? CODE_NO_VOICES : CODE_BAD_VOICE;
}

/* Returns the next lighter model; NULL: none. */
static const char *lighter_than(const char *model) {
    return !strcmp(model, "small") ? NULL : !strcmp(model, "large") ? "base" : "small";
}

/* Times hops of a newly opened engine. Fails with -EBUSY if most hops overrun and a fallback exists, i.e. on the GPU or
 * when retrying a heavier model. Otherwise accepts a slow engine, with a warning. */
static int warm_up(struct loader *l, struct ready_engine *r, int64_t start, struct err *err) {
    float all_us[WARM_UP_HOPS];
    const unsigned n_hops = r->gpu || l->task.role == HEAVIER ? WARM_UP_HOPS : CPU_WARM_UP_HOPS;
    const float hop_us = 1e6f * (float)engine_hop(r->engine) / PUMP_RATE;
    int n = measure_hops(r->engine, n_hops, CLOCK_MONOTONIC, all_us, hop_us, n_hops / 4, &l->dropped);
    if (n < 0)
        return err_set(err, n, "engine %s: it failed during warm-up", engine_kind(r->engine));
    float *const us = all_us + COLD_HOPS; /* it stops after more than n_hops / 4 slow hops */
    n -= COLD_HOPS;
    const float most_us = measure_percentile(us, (unsigned)n, 0.9); /* the slowest may be caused by the host */
    if (r->gpu && most_us > hop_us)
        return err_set(err, -EBUSY,
                       "engine cuda: a hop of %.0f us takes %.0f us: another program keeps the GPU busy, or it is "
                       "too slow",
                       hop_us, most_us);
    if (l->task.role == HEAVIER && most_us > hop_us)
        return err_set(err, -EBUSY, "a hop of %.0f us takes %.0f us", hop_us, most_us);
    r->hop_p99_us = (unsigned)ceilf(measure_percentile(us, (unsigned)n, 0.99));
    say(SD_INFO, "%s: p99 %u us of a hop's %.0f us, loaded in %d ms", r->text, r->hop_p99_us, hop_us,
        (int)(now_ms() - start));
    if (measure_percentile(us, (unsigned)n, 0.5) > hop_us)
        say(SD_WARNING,
            "%s is too slow for this machine: hops will be late, and the microphone will come through unenhanced",
            r->text);
    return 0;
}

/* Opens the model on one engine and warms it up. */
static int open_engine(struct loader *l, struct ready_engine *ret, const char *model_name_or_path, const char *engine,
                       struct err *err) {
    const struct settings *s = &l->task.settings;
    struct ready_engine r = {.n_streams = PUMP_STREAMS * l->task.n_pumps, .gpu = !strcmp(engine, "cuda")};
    struct model *model;
    const int64_t start = now_ms();
    int res = load_model(&model, model_name_or_path, s, err);
    if (res)
        return res;
    const char *no_voice = s->my_voice ? keep_voice(model, s, &r.no_voice) : NULL;
    if (no_voice) { /* the sound does not wait for it */
        r.no_voice.about = (struct err_about){.code = no_voice};
        say(SD_WARNING, "my_voice has no effect: %s", r.no_voice.text);
    }
    struct engine_options options = {.name = engine, .gpu = s->gpu, .n_streams = r.n_streams, .max_hops = 1};
    res = engine_open(&r.engine, &options, model, err);
    if (res) {
        model_free(model);
        return res;
    }
    text_copy(r.model, sizeof r.model, model_name(model));
    text_copy(r.engine_name, sizeof r.engine_name, engine_name(r.engine));
    snprintf(r.text, sizeof r.text, "%s on %s", r.model, r.engine_name);
    res = warm_up(l, &r, start, err);
    if (res) {
        loader_close_engine(r.engine);
        return res;
    }
    *ret = r;
    return 0;
}

/* Opens the CPU's engine with this model or, with "auto", with the best one for this processor. Measures that if it
 * never was, which takes seconds; in a hurry, takes a model that surely fits instead. Returns no engine if MEASURED or
 * AGAIN selects the current model. */
static int open_cpu(struct loader *l, struct ready_engine *ret, const char *model, struct err *err) {
    struct err why = {0};
    struct choice choice = {.remembered = true};
    if (!strcmp(model, "auto")) {
        const enum choose_when when = l->task.hurry           ? CHOOSE_AT_ONCE
                                      : l->task.role == AGAIN ? CHOOSE_AGAIN
                                                              : CHOOSE_MEASURED;
        int res = choose_model(&choice, "cpu", when, &l->dropped, &why);
        if (res)
            return settings_refuse(&l->task.settings, SETTING_model, res, why.text, err);
        model = choice.model;
        ret->unsure = !choice_is_sure(&choice);
        if (choice.p99_us > 0)
            say(SD_INFO, "model %s: p99 of a hop of %s is %.0f us here, the limit is %.0f us%s", model,
                choice_measured(&choice), choice.p99_us, choice.limit_us,
                choice.remembered ? " (measured earlier)" : "");
    }
    if ((l->task.role == MEASURED || l->task.role == AGAIN) && !strcmp(model, l->task.instead))
        return 0;
    const bool unsure = ret->unsure;
    const char *fitting = model;
    for (unsigned i = 0; i < l->task.n_lighter; i++)
        fitting = lighter_than(fitting);
    int res = open_engine(l, ret, fitting, "cpu", err);
    if (res)
        return res;
    ret->lighter = lighter_than(fitting);
    ret->n_lighter = l->task.n_lighter;
    ret->unmeasured = !choice.remembered && l->task.hurry;
    ret->unsure = unsure;
    if (l->task.n_lighter)
        text_copy(ret->too_heavy, sizeof ret->too_heavy, model);
    return 0;
}

/* Adds why the GPU is not used to the error line of its engine. */
static int refuse_gpu(int res, struct err *err) {
    if (!err || err->about.code) /* of the model */
        return res;
    return err_about(err, res,
                     (struct err_about){.code = res == -EBUSY ? CODE_GPU_BUSY
                                                : res == -EIO ? CODE_GPU_FAILED
                                                              : CODE_NO_GPU,
                                        .why = why_gpu(res)});
}

static int open_gpu(struct loader *l, struct ready_engine *ret, struct err *err) {
    const char *model = l->task.settings.model;
    int res = engine_find_cuda(err);
    if (res)
        return refuse_gpu(res, err);
    l->result.touched = true;
    res = open_engine(l, ret, !strcmp(model, "auto") ? "large" : model, "cuda", err);
    return res ? refuse_gpu(res, err) : 0;
}

/* ---- the GPU ----------------------------------------------------------------------------------------------------- */

bool loader_wants_gpu(const struct settings *s) {
    return strcmp(s->engine, "cpu") != 0;
}

int loader_spares_gpu(const struct settings *s, bool awake, struct err *err) {
    const char *sys = getenv("PRIMEKNET_SYS"); /* of tests */
    if (!sys)
        sys = "/sys";
    if (strcmp(s->engine, "auto") != 0)
        return 0;
    if (power_on_battery(sys))
        return err_about(err,
                         err_set(err, -EAGAIN,
                                 "the machine runs on battery, so the GPU is not used "
                                 "(engine = \"cuda\" uses it anyway)"),
                         (struct err_about){.code = CODE_ON_BATTERY});
    if (!awake && power_gpu_sleeps(sys)) /* it does not sleep while it is in use */
        return err_about(err, err_set(err, -EAGAIN, "the GPU is asleep and is not woken (engine = \"cuda\" wakes it)"),
                         (struct err_about){.code = CODE_GPU_ASLEEP});
    return 0;
}

/* Whether a GPU that was refused with this code may be available later. */
static bool may_come(int why) {
    return why == -EAGAIN || why == -EBUSY || why == -EIO || why == -ENOMEM;
}

/* Opens the GPU's engine for new settings, or reports why it cannot. */
static int try_gpu(struct loader *l, struct ready_engine *ret, struct err *err) {
    if (l->task.poisoned)
        return err_about(err, err_set(err, -EIO, "%s", LOADER_POISONED), (struct err_about){.code = CODE_GPU_FAILED});
    int why = loader_spares_gpu(&l->task.settings, l->task.awake, err);
    return why ? why : open_gpu(l, ret, err);
}

/* Opens the engine that new settings request, or the nearest one available. */
static int open_asked(struct loader *l, struct ready_engine *ret, struct err *err) {
    const struct settings *s = &l->task.settings;
    struct err problem = {0};
    int why = loader_wants_gpu(s) ? try_gpu(l, ret, &problem) : 0;
    if (loader_wants_gpu(s) && !why)
        return 0;
    int res = why ? loader_check(s, err) : 0; /* the model may be the cause, or another model may run */
    if (!res && why && l->task.demanded >= 0 && !may_come(why)) {
        static const char prefix[] = "engine "; /* which the setting's name in the message already says */
        const size_t skip = text_begins(problem.text, prefix) ? strlen(prefix) : 0;
        res = settings_refuse(s, l->task.demanded, why, problem.text + skip, err);
        if (err)
            err->about.why = problem.about.why;
    }
    /* Falls back to the CPU: with its own default model if the settings request the GPU, with the requested model if
     * they allow any engine. */
    if (!res)
        res = open_cpu(l, ret, strcmp(s->engine, "cuda") ? s->model : "auto", err);
    if (res)
        return res;
    ret->problem = problem;
    ret->why = why;
    return 0;
}

/* Opens the first engine. Avoids the GPU's driver, which may be slow or hang. */
static int open_provisional(struct loader *l, struct ready_engine *ret, struct err *err) {
    const struct settings *s = &l->task.settings;
    if (!loader_wants_gpu(s) || loader_spares_gpu(s, false, NULL) || engine_find_cuda(NULL))
        return open_asked(l, ret, err);
    int res = loader_check(s, err);
    if (res == 0)
        res = open_cpu(l, ret, "auto", err);
    ret->unmeasured = false;
    ret->provisional = res == 0;
    return res;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void do_task(struct loader *l) {
    struct load_result *r = &l->result;
    const struct settings *s = &l->task.settings;
    switch (l->task.role) {
    case PROVISIONAL: r->res = open_provisional(l, &r->ready, &r->err); break;
    case FIRST:
    case ASKED: r->res = open_asked(l, &r->ready, &r->err); break;
    case WANTED: r->res = open_gpu(l, &r->ready, &r->err); break;
    default: r->res = open_cpu(l, &r->ready, loader_wants_gpu(s) ? "auto" : s->model, &r->err);
    }
}

static void *run_thread(void *data) {
    struct loader *l = data;
    do_task(l);
    l->done = true;
    eventfd_write(l->event, 1);
    return NULL;
}

static void prepare(struct loader *l, const struct load_task *task) {
    l->task = *task;
    l->result = (struct load_result){0};
    l->dropped = l->done = false;
}

void loader_begin(struct loader *l, const struct load_task *task) {
    prepare(l, task);
    l->busy = true;
    l->has_thread = pthread_create(&l->thread, NULL, run_thread, l) == 0;
    if (!l->has_thread)
        run_thread(l); /* which blocks everything, but works */
}

void loader_run(struct loader *l, const struct load_task *task, struct load_result *ret) {
    prepare(l, task);
    do_task(l);
    *ret = l->result;
}

void loader_drop(struct loader *l) {
    l->dropped = true;
}

static void join(struct loader *l, struct load_result *ret) {
    if (l->has_thread)
        pthread_join(l->thread, NULL);
    l->busy = false;
    *ret = l->result;
}

bool loader_take(struct loader *l, struct load_result *ret) {
    eventfd_t count;
    eventfd_read(l->event, &count);
    if (!l->busy || !l->done)
        return false;
    join(l, ret);
    return true;
}

int loader_open(struct loader *l, struct err *err) {
    *l = (struct loader){.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return l->event < 0 ? err_set(err, -errno, "eventfd: %s", strerror(errno)) : 0;
}

void loader_close(struct loader *l) {
    if (l->busy) {
        struct load_result dropped;
        l->dropped = true;
        join(l, &dropped);
        if (dropped.res == 0)
            loader_close_engine(dropped.ready.engine);
    }
    close(l->event);
}
