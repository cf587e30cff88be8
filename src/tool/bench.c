/* primeknet bench: measures the time per hop on this machine, as percentiles. */
#include "tool/cli.h"

#include "engine/choose.h"
#include "engine/measure.h"
#include "model/model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { n_warm = 100, n_hops = 5000 };

static double rss_mib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024.;
}

static void print(bool as_json, const struct engine *e, float *us, unsigned n) {
    const struct model *m = engine_model(e);
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += us[i];
    double hop_us = 1e6 * model_hop(m) / model_rate(m), rtf = sum / n / hop_us;
    float p50 = measure_percentile(us, n, .5), p99 = measure_percentile(us, n, .99),
          p999 = measure_percentile(us, n, .999);
    if (as_json) {
        json_t *j = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "engine", engine_name(e), "model",
                              model_name(m), "hops", (int)n, "p50_us", p50, "p99_us", p99, "p999_us", p999, "max_us",
                              us[n - 1], "rtf", rtf, "rss_mib", rss_mib());
        json_dumpf(j, stdout, JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(j);
        return;
    }
    printf("%s on %s: %u hops of %.0f us\n", model_name(m), engine_name(e), n, hop_us);
    printf("  p50 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us\n", p50, p99, p999, us[n - 1]);
    printf("  real-time factor %.4f, memory %.1f MiB\n", rtf, rss_mib());
}

static int run_bench(const struct cli_call *call) {
    const char *engine_wanted = cli_option(call, 'e'), *model_wanted = cli_option(call, 'm');
    const struct engine_options how = {.name = engine_wanted ? engine_wanted : "auto", .n_streams = 1, .max_hops = 1};
    struct err err;
    struct model *model;
    struct engine *engine;
    int status = cli_done;
    float us[n_hops];
    if (choose_engine(&model, &engine, model_wanted ? model_wanted : "base", &how, &err) < 0)
        return cli_fail("%s", err.text);
    if (measure_hops(engine, n_warm, CLOCK_MONOTONIC, us, 0, 0, NULL) < 0 ||
        measure_hops(engine, n_hops, CLOCK_MONOTONIC, us, 0, 0, NULL) < 0)
        status = cli_fail("%s: the engine failed", engine_name(engine));
    else
        print(cli_option(call, 'j'), engine, us, n_hops);
    engine_close(engine);
    model_free(model);
    return status;
}

const struct cli_command bench_command = {
    .name = "bench",
    .summary = "time a model on this machine",
    .run = run_bench,
    .options = {CLI_ENGINE_OPTION, CLI_MODEL_OPTION, {'j', "json", .help = "as one JSON object; see primeknet(1)"}},
    .about = "Runs 5000 hops one by one, as the daemon does, and prints the time per hop, its share of real time\n"
             "(real-time factor) and the memory in use.\n",
};
