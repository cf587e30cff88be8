#include "choose.h"

#include "config.h"
#include "engine.h"
#include "measure.h"
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { n_hops = 2000, path_max = 4096, line_max = 512 };
static const float share = .4f; /* of a hop's time: what is left is for the graph, other programs and a slower day */

/* The processor by its name, spaces and all; "unknown" where the system does not tell. */
static void processor(char *name, size_t size) {
    snprintf(name, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f)
        return;
    char line[line_max];
    while (fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (!strncmp(line, "model name", 10) && value) {
            value[strcspn(value, "\n")] = 0;
            snprintf(name, size, "%.200s", value + 1 + strspn(value + 1, " \t"));
            break;
        }
    }
    fclose(f);
}

static int state_path(char *path, const char *file) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && state[0] == '/')
        n = snprintf(path, path_max, "%s/primeknet%s", state, file);
    else if (home && home[0] == '/')
        n = snprintf(path, path_max, "%s/.local/state/primeknet%s", home, file);
    else
        return -ENOENT;
    return n < path_max ? 0 : -ENAMETOOLONG;
}

/* The file's one line: model, p99 in whole microseconds, then what the measurement holds for: version, engine, processor. */
static bool recall(struct choice *c, const char *valid_for) {
    char path[path_max], line[line_max], model[16];
    unsigned p99;
    int end = 0;
    if (state_path(path, "/model") < 0)
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    if (!ok)
        return false;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%15s %u %n", model, &p99, &end) < 2 || !end || strcmp(line + end, valid_for))
        return false;
    c->model = !strcmp(model, "base") ? "base" : !strcmp(model, "small") ? "small" : NULL;
    c->p99_us = p99;
    c->remembered = true;
    return c->model;
}

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void remember(const struct choice *c, const char *valid_for) {
    char path[path_max], part[path_max];
    if (state_path(path, "/model") < 0 || state_path(part, "/model.part") < 0)
        return;
    make_parents(part);
    FILE *f = fopen(part, "we");
    if (!f)
        return;
    bool ok = fprintf(f, "%s %u %s\n", c->model, (unsigned)c->p99_us, valid_for) > 0;
    if (fclose(f) || !ok || rename(part, path))
        remove(part);
}

int choose_model(struct choice *ret, const char *engine_name, bool measure, struct err *err) {
    struct choice c = {0};
    struct model *model = NULL;
    struct engine *engine = NULL;
    float *us = NULL;
    char name[256], valid_for[line_max];

    int r = model_load(&model, "base", err);
    if (r < 0)
        return r;
    c.limit_us = share * 1e6f * model_hop(model) / model_rate(model);

    processor(name, sizeof name);
    snprintf(valid_for, sizeof valid_for, "%s %s %s", PACKAGE_VERSION, engine_name, name);
    if (recall(&c, valid_for))
        goto chosen;
    c.model = "small";
    if (!measure)
        goto chosen;

    r = engine_open(&engine, &(struct engine_options){.name = engine_name, .n_streams = 1, .max_hops = 1}, model, err);
    if (r < 0)
        goto end;
    us = malloc(n_hops * sizeof *us);
    if (!us) {
        r = err_set(err, -ENOMEM, "out of memory");
        goto end;
    }
    int n = r = measure_hops(engine, n_hops, CLOCK_THREAD_CPUTIME_ID, us, c.limit_us, n_hops / 100);
    if (r < 0) {
        err_set(err, r, "%s: the engine failed while it was measured", engine_name);
        goto end;
    }
    c.p99_us = measure_percentile(us, n, .99);
    c.model = c.p99_us < c.limit_us ? "base" : "small";
    remember(&c, valid_for);
chosen:
    *ret = c;
    r = 0;
end:
    free(us);
    engine_close(engine);
    model_free(model);
    return r;
}
