#include "engine/choose.h"

#include "config.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"
#include "base/state.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { n_hops = 2000, line_max = 512 };

/* The processor's name, spaces included, or "unknown". */
static void processor(char *name, size_t size) {
    snprintf(name, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f)
        return;
    char line[line_max];
    while (fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (text_begins(line, "model name") && value) {
            value[strcspn(value, "\n")] = 0;
            snprintf(name, size, "%.200s", value + 1 + strspn(value + 1, " \t"));
            break;
        }
    }
    fclose(f);
}

/* From the best on. The last needs no measurement. */
static const struct {
    const char *model;
    float share; /* of a hop's time: where it takes more, the next one is tried */
} candidates[] = {{"large", .2f}, {"base", (float)ENGINE_SHARE}, {"small", 0}};

enum { n_candidates = sizeof candidates / sizeof *candidates, n_measured = n_candidates - 1 };

const char *choice_measured(const struct choice *c) {
    return strcmp(c->model, candidates[n_measured].model) ? c->model : candidates[n_measured - 1].model;
}

/* The file has one line: model, p99 and limit in whole microseconds, then what the measurement is valid for (version,
 * engine, the hop of base, processor). */
static bool recall(struct choice *c, const char *valid_for) {
    char line[line_max], model[16];
    unsigned p99, limit;
    int end = 0;
    if (!state_read("model", line, sizeof line) || sscanf(line, "%15s %u %u %n", model, &p99, &limit, &end) < 3 ||
        !end || strcmp(line + end, valid_for))
        return false;
    for (unsigned i = 0; i < n_candidates; i++)
        if (strcmp(model, candidates[i].model) == 0) {
            *c = (struct choice){candidates[i].model, (float)p99, (float)limit, true};
            return true;
        }
    return false;
}

/* Rounds so that a p99 below the limit stays below it. */
static void remember(const struct choice *c, const char *valid_for) {
    char line[line_max + 32];
    snprintf(line, sizeof line, "%s %u %u %s", c->model, (unsigned)c->p99_us, (unsigned)ceilf(c->limit_us), valid_for);
    state_write("model", line);
}

static int measure_model(float *p99_us, const struct model *model, float limit_us, const char *engine_name,
                         const _Atomic bool *stop, struct err *err) {
    const struct engine_options options = {.name = engine_name, .n_streams = 1, .max_hops = 1};
    struct engine *engine;
    float us[n_hops];
    int r = engine_open(&engine, &options, model, err);
    if (r < 0)
        return r;
    r = measure_hops(engine, n_hops, CLOCK_THREAD_CPUTIME_ID, us, limit_us, n_hops / 100, stop);
    engine_close(engine);
    if (r < 0)
        return err_set(err, r, "%s: the engine failed while it was measured", engine_name);
    *p99_us = measure_percentile(us, (unsigned)r, .99);
    return 0;
}

static int measure_candidates(struct choice *c, const char *engine_name, const _Atomic bool *stop, struct err *err) {
    for (unsigned i = 0; i < n_measured; i++) {
        struct model *model;
        int r = model_load(&model, candidates[i].model, err);
        if (r < 0 && i + 1 < n_measured)
            continue; /* what is not installed is not chosen */
        if (r < 0)
            return r;
        c->limit_us = candidates[i].share * 1e6f * (float)model_hop(model) / (float)model_rate(model);
        r = measure_model(&c->p99_us, model, c->limit_us, engine_name, stop, err);
        model_free(model);
        if (r < 0)
            return r;
        if (c->p99_us < c->limit_us) {
            c->model = candidates[i].model;
            return 0;
        }
    }
    return 0;
}

int choose_model(struct choice *ret, const char *engine_name, bool measure, const _Atomic bool *stop, struct err *err) {
    struct model *base;
    char name[256], valid_for[line_max];
    int r = model_load(&base, "base", err);
    if (r < 0)
        return r;
    struct choice c = {.model = candidates[n_measured].model};
    processor(name, sizeof name);
    snprintf(valid_for, sizeof valid_for, "%s %s %u %s", PACKAGE_VERSION, engine_name, model_hop(base), name);
    model_free(base);
    if (!recall(&c, valid_for) && measure) {
        r = measure_candidates(&c, engine_name, stop, err);
        if (r == 0)
            remember(&c, valid_for);
    }
    if (r == 0)
        *ret = c;
    return r;
}

static int load_and_open(struct model **ret, struct engine **ret_engine, const char *model,
                         const struct engine_options *options, struct err *err) {
    int r = model_load(ret, model, err);
    if (r == 0 && (r = engine_open(ret_engine, options, *ret, err)) < 0) {
        model_free(*ret);
        *ret = NULL;
    }
    return r;
}

int choose_engine(struct model **ret, struct engine **ret_engine, const char *model,
                  const struct engine_options *options, struct err *err) {
    struct engine_options how = *options;
    struct choice c;
    if (strcmp(model, "auto") != 0)
        return load_and_open(ret, ret_engine, model, options, err);
    if (strcmp(how.name, "auto") == 0 || strcmp(how.name, "cuda") == 0) {
        how.name = "cuda";
        int r = engine_find_cuda(err);
        if (r == 0)
            r = load_and_open(ret, ret_engine, "large", &how, err);
        if (r == 0 || strcmp(options->name, "cuda") == 0)
            return r;
        how.name = "cpu";
    }
    const int r = choose_model(&c, how.name, true, NULL, err);
    return r < 0 ? r : load_and_open(ret, ret_engine, c.model, &how, err);
}
