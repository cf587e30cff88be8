#include "engine/choose.h"

#include "config.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"
#include "base/state.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    n_hops = 2000,
    line_max = 512,
    measurements_max = 3, /* by the daemon, unless the best model is chosen earlier */
};
static const double quiet_load = .3; /* of each processor */

/* Reads the processor's name, which may contain spaces, or "unknown". */
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

/* Best first. The last one needs no measurement. */
static const struct {
    const char *model;
    float share; /* of a hop's duration; above it, the next model is tried */
} candidates[] = {{"large", .2f}, {"base", (float)ENGINE_SHARE}, {"small", 0}};

enum { n_candidates = sizeof candidates / sizeof *candidates, n_measured = n_candidates - 1 };

const char *choice_measured(const struct choice *c) {
    return strcmp(c->model, candidates[n_measured].model) ? c->model : candidates[n_measured - 1].model;
}

static int is_readable(const char *name, struct err *err) {
    struct model *model = NULL;
    const int r = model_load(&model, name, err);
    model_free(model);
    return r;
}

/* Finds the lightest model that can be read; if none can, err has the fault of the lightest one. */
static int find_lightest(const char **ret, struct err *err) {
    int r = 0;
    for (unsigned i = n_candidates; i-- > 0;) {
        const int why = is_readable(candidates[i].model, i == n_measured ? err : NULL);
        if (why == 0) {
            *ret = candidates[i].model;
            return 0;
        }
        r = i == n_measured ? why : r;
    }
    return r;
}

/* The file's one line: model, p99 and limit in whole microseconds, number of measurements, then the conditions for
 * which they are valid (version, engine, hop of base, processor). */
static bool recall(struct choice *c, const char *valid_for) {
    char line[line_max], model[16];
    unsigned p99, limit, n;
    int end = 0;
    if (!state_read("model", line, sizeof line) ||
        sscanf(line, "%15s %u %u %u %n", model, &p99, &limit, &n, &end) < 4 || !end || strcmp(line + end, valid_for))
        return false;
    for (unsigned i = 0; i < n_candidates; i++)
        if (strcmp(model, candidates[i].model) == 0 && is_readable(model, NULL) == 0) {
            *c = (struct choice){candidates[i].model, (float)p99, (float)limit, n, .remembered = true};
            return true;
        }
    return false;
}

/* Rounds so that a p99 below the limit stays below it. */
static void remember(const struct choice *c, const char *valid_for) {
    char line[line_max + 48];
    snprintf(line, sizeof line, "%s %u %u %u %s", c->model, (unsigned)c->p99_us, (unsigned)ceilf(c->limit_us),
             c->n_measured, valid_for);
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

/* A model that is missing or broken cannot be chosen. */
static int measure_candidates(struct choice *c, const char *engine_name, const _Atomic bool *stop, struct err *err) {
    for (unsigned i = 0; i < n_measured; i++) {
        struct model *model;
        if (model_load(&model, candidates[i].model, NULL) < 0)
            continue;
        c->limit_us = candidates[i].share * 1e6f * (float)model_hop(model) / (float)model_rate(model);
        const int r = measure_model(&c->p99_us, model, c->limit_us, engine_name, stop, err);
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

/* From the best on: 0, 1, ... */
static unsigned rank(const char *model) {
    unsigned i = 0;
    while (i < n_measured && strcmp(model, candidates[i].model) != 0)
        i++;
    return i;
}

bool choice_is_sure(const struct choice *c) {
    return rank(c->model) == 0 || c->n_measured >= measurements_max;
}

bool choose_is_quiet(void) {
    const char *const file = getenv("PRIMEKNET_LOADAVG"); /* of tests */
    FILE *const f = fopen(file ? file : "/proc/loadavg", "re");
    double load = INFINITY;
    if (f && fscanf(f, "%lf", &load) != 1)
        load = INFINITY;
    if (f)
        fclose(f);
    return load < quiet_load * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

int choose_model(struct choice *ret, const char *engine_name, enum choose_when when, const _Atomic bool *stop,
                 struct err *err) {
    struct model *base = NULL;
    char name[256], valid_for[line_max];
    struct choice c = {0}, before = {0};
    int r = find_lightest(&c.model, err);
    if (r < 0)
        return r;
    const unsigned hop = model_load(&base, "base", NULL) == 0 ? model_hop(base) : 0;
    model_free(base);
    processor(name, sizeof name);
    snprintf(valid_for, sizeof valid_for, "%s %s %u %s", PACKAGE_VERSION, engine_name, hop, name);
    const bool known = recall(&before, valid_for);
    if (known ? when <= CHOOSE_MEASURED : when == CHOOSE_AT_ONCE) {
        *ret = known ? before : c;
        return 0;
    }
    r = measure_candidates(&c, engine_name, stop, err);
    if (r < 0)
        return r;
    if (when == CHOOSE_AGAIN && known && rank(before.model) <= rank(c.model))
        c = before;
    c.remembered = false;
    c.n_measured = before.n_measured + 1;
    remember(&c, valid_for);
    *ret = c;
    return 0;
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
    const int r = choose_model(&c, how.name, CHOOSE_MEASURED, NULL, err);
    return r < 0 ? r : load_and_open(ret, ret_engine, c.model, &how, err);
}
