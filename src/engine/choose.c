#include "engine/choose.h"

#include "config.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "model/model.h"
#include "base/state.h"
#include "base/text.h"

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

/* The file has one line: model, p99 in whole microseconds, then what the measurement is valid for (version, engine,
 * the hop of base, processor). */
static bool recall(struct choice *c, const char *valid_for) {
    char line[line_max], model[16];
    unsigned p99;
    int end = 0;
    if (!state_read("model", line, sizeof line) || sscanf(line, "%15s %u %n", model, &p99, &end) < 2 || !end ||
        strcmp(line + end, valid_for) || (strcmp(model, "base") && strcmp(model, "small")))
        return false;
    c->model = strcmp(model, "base") ? "small" : "base";
    c->p99_us = p99;
    c->remembered = true;
    return true;
}

static void remember(const struct choice *c, const char *valid_for) {
    char line[line_max + 32];
    snprintf(line, sizeof line, "%s %u %s", c->model, (unsigned)c->p99_us, valid_for);
    state_write("model", line);
}

/* Times hops of base. */
static int measure_base(struct choice *c, const struct model *base, const char *engine_name, const _Atomic bool *stop,
                        struct err *err) {
    const struct engine_options options = {.name = engine_name, .n_streams = 1, .max_hops = 1};
    struct engine *engine;
    float us[n_hops];
    int r = engine_open(&engine, &options, base, err);
    if (r < 0)
        return r;
    r = measure_hops(engine, n_hops, CLOCK_THREAD_CPUTIME_ID, us, c->limit_us, n_hops / 100, stop);
    engine_close(engine);
    if (r < 0)
        return err_set(err, r, "%s: the engine failed while it was measured", engine_name);
    c->p99_us = measure_percentile(us, (unsigned)r, .99);
    c->model = c->p99_us < c->limit_us ? "base" : "small";
    return 0;
}

int choose_model(struct choice *ret, const char *engine_name, bool measure, const _Atomic bool *stop, struct err *err) {
    struct model *base;
    char name[256], valid_for[line_max];
    int r = model_load(&base, "base", err);
    if (r < 0)
        return r;
    struct choice c = {.model = "small", .limit_us = (float)ENGINE_SHARE * 1e6f * model_hop(base) / model_rate(base)};
    processor(name, sizeof name);
    snprintf(valid_for, sizeof valid_for, "%s %s %u %s", PACKAGE_VERSION, engine_name, model_hop(base), name);
    if (!recall(&c, valid_for) && measure) {
        r = measure_base(&c, base, engine_name, stop, err);
        if (r == 0)
            remember(&c, valid_for);
    }
    model_free(base);
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
