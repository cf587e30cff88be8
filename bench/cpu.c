/* bench-cpu MODEL...: one round of bench/machine's figures for one core, a line of JSON per case: the real-time
 * factor of each model (`small`, `base`, `large` or a file) with each instruction set that this processor supports;
 * and the time of its matrix products alone, with operands in the cache, by our kernel and by OpenBLAS, and of its
 * exponentials alone (simd.h). Times are CPU time of the one thread. */
#include "config.h"

#include "engine/engine.h"
#include "kernels/conv/conv.h"
#include "kernels/kernels.h"
#include "kernels/linear/linear.h"
#include "kernels/scan/scan.h"
#include "kernels/simd.h"
#include "engine/measure.h"
#include "model/model.h"
#include "net/net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif

enum {
    MAX_SHAPES = 512,
    MAX_INPUTS = 1 << 20,
    N_EXPONENTIALS = 4096,
    N_REPEATS = 16 /* much longer than reading the clock */
};

static const double round_s = .2; /* for one model and instruction set */

static float inputs[MAX_INPUTS]; /* of any shape */

/* The operations of one hop. */
static struct {
    unsigned n_shapes;
    struct linear shapes[MAX_SHAPES];
    double n_macs, n_exponentials;
} hop;

static void record_linear(const struct linear *a) {
    if (hop.n_shapes < MAX_SHAPES && (size_t)a->n_rows * a->n_in <= MAX_INPUTS)
        hop.shapes[hop.n_shapes++] = (struct linear){.n_rows = a->n_rows,
                                                     .n_in = a->n_in,
                                                     .n_out = a->n_out,
                                                     .x = inputs,
                                                     .x_stride = a->n_in,
                                                     .weight = a->weight,
                                                     .steps = a->steps,
                                                     .bias = a->bias,
                                                     .y = a->y,
                                                     .y_stride = a->y_stride};
    hop.n_macs += (double)a->n_rows * a->n_in * a->n_out;
}

static void record_conv(const struct conv *a) {
    hop.n_exponentials += (double)a->n_rows * a->n_channels;
}

static void record_scan(const struct scan *a) {
    hop.n_exponentials += (double)a->n_rows * a->n_channels * (a->n_states + 2);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int record(const struct model *m, struct net **net, struct net_state *state) {
    static struct kernels recorder;
    const struct model_config *g = model_config(m);
    recorder = *kernels_nth(0);
    recorder.linear = record_linear;
    recorder.linear_pairs = NULL;
    recorder.conv = record_conv;
    recorder.scan = record_scan;
    memset(&hop, 0, sizeof hop);
    int code = net_new(net, m, &recorder);
    if (code || (code = net_state_init(*net, state)))
        return code;
    float *io = calloc(g->n_positions, 6 * sizeof *io);
    if (!io)
        return -ENOMEM;
    net_run(*net, state, io, io + 3 * g->n_positions, io + 4 * g->n_positions);
    free(io);
    return 0;
}

/* The sum over all shapes of the median of many runs. `pairs`, unless NULL, runs the shapes that a layer gives it. */
static double products_us(void (*product)(const struct linear *a), const struct kernels *pairs) {
    double sum = 0;
    for (unsigned s = 0; s < hop.n_shapes; s++) {
        struct linear a = hop.shapes[s];
        float us[5];
        const bool by_pairs = pairs && pairs->linear_pairs && a.steps && a.n_in % LINEAR_PANEL == 0 &&
                              a.n_in <= LINEAR_MAX_IN && a.n_out > (pairs->bf16 ? LINEAR_NARROW : LINEAR_PANEL);
        void (*run)(const struct linear *a) = by_pairs ? pairs->linear_pairs : product;
        for (unsigned i = 0; i < 5; i++) {
            double start = now_us();
            for (unsigned j = 0; j < N_REPEATS; j++)
                run(&a);
            us[i] = (float)(now_us() - start) / N_REPEATS;
        }
        sum += measure_percentile(us, 5, .5);
    }
    return sum;
}

#ifdef HAVE_OPENBLAS
/* The order of the weights does not matter for the time, so the packed ones serve. */
static void blas(const struct linear *a) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)a->n_rows, (blasint)a->n_out, (blasint)a->n_in, 1,
                a->x, (blasint)(a->x_stride > a->n_in ? a->x_stride : a->n_in), a->weight, (blasint)a->n_out, 0, a->y,
                (blasint)a->y_stride);
}
#endif

static double exponentials_us(void) {
    static float x[N_EXPONENTIALS];
    float us[101];
    for (unsigned i = 0; i < N_EXPONENTIALS; i++)
        x[i] = -1e-3f * (float)i;
    for (unsigned r = 0; r < 101; r++) {
        double start = now_us();
        for (unsigned j = 0; j < N_REPEATS; j++)
            for (unsigned i = 0; i < N_EXPONENTIALS; i += LANES)
                store(x + i, -exp2_bounded(load(x + i)));
        us[r] = (float)(now_us() - start) / N_REPEATS;
    }
    return measure_percentile(us, 101, .5) / N_EXPONENTIALS * hop.n_exponentials;
}

static int round_of(const char *name) {
    struct model *model;
    struct net *net = NULL;
    struct net_state state = {0};
    struct err err;
    int code = model_load(&model, name, &err);
    if (code < 0) {
        fprintf(stderr, "bench-cpu: %s\n", err.text);
        return code;
    }
    const double hop_us = 1e6 * model_hop(model) / model_rate(model);
    if ((code = record(model, &net, &state)) < 0)
        goto end;
    printf("{\"model\": \"%s\", \"macs\": %.0f, \"exponentials\": %.0f, \"exp\": %.5f", model_name(model), hop.n_macs,
           hop.n_exponentials, exponentials_us() / hop_us);
#ifdef HAVE_OPENBLAS
    printf(", \"openblas\": %.5f", products_us(blas, NULL) / hop_us);
#endif
    printf("}\n");
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++) {
        static float us[100000];
        struct engine *engine;
        struct engine_options how = {.name = "cpu", .isa = k->name, .n_streams = 1, .max_hops = 1};
        if ((code = engine_open(&engine, &how, model, &err)) < 0) {
            fprintf(stderr, "bench-cpu: %s\n", err.text);
            break;
        }
        code = measure_hops(engine, 50, CLOCK_THREAD_CPUTIME_ID, us, 0, 0, NULL);
        unsigned n = (unsigned)(round_s * 1e6 / measure_percentile(us, 50, .5));
        n = n < 100000 ? n : 100000;
        if (code >= 0)
            code = measure_hops(engine, n, CLOCK_THREAD_CPUTIME_ID, us, 0, 0, NULL);
        engine_close(engine);
        if (code < 0)
            break;
        double sum = 0;
        for (unsigned h = 0; h < n; h++)
            sum += us[h];
        printf("{\"model\": \"%s\", \"isa\": \"%s\", \"rtf\": %.5f, \"p50\": %.5f, \"products\": %.5f}\n",
               model_name(model), k->name, sum / n / hop_us, measure_percentile(us, n, .5) / hop_us,
               products_us(k->linear, k) / hop_us);
    }
end:
    net_state_done(&state);
    net_free(net);
    model_free(model);
    return code;
}

int main(int argc, char **argv) {
#ifdef HAVE_OPENBLAS
    openblas_set_num_threads(1);
#endif
    for (int i = 1; i < argc; i++)
        if (round_of(argv[i]) < 0)
            return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
