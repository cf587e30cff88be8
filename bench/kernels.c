/* bench-kernels: times every kernel on the shapes of the shipped models, in ns per call and GFLOP/s, for each
 * instruction set that this processor supports, and beside each linear layer, without its activation, OpenBLAS on one
 * thread if it was found. The cases are those of the tests. A time is the least of many runs. */
#include "config.h"

#include "base/fpu.h"
#include "tests/support/kernel_cases.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void ours(struct kernel_work *w, const struct kernels *k) {
    kernel_work_run(w, k);
}

static double least_ns(void (*run)(struct kernel_work *w, const struct kernels *k), struct kernel_work *w,
                       const struct kernels *k) {
    double least = INFINITY, started = now_ns();
    for (unsigned n = 0; n < 5 || (n < 2000 && now_ns() - started < 2e7); n++) {
        double before = now_ns();
        for (unsigned i = 0; i < 4; i++)
            run(w, k);
        least = fmin(least, (now_ns() - before) / 4);
    }
    return least;
}

#ifdef HAVE_OPENBLAS
/* The product alone. The order of the weights does not matter for the time, so the packed ones serve. */
static void peer(struct kernel_work *w, const struct kernels *k) {
    const struct linear *a = &w->linear;
    (void)k;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)a->n_rows, (blasint)a->n_out, (blasint)a->n_in, 1,
                a->x, (blasint)a->n_in, a->weight, (blasint)a->n_in, 0, a->y, (blasint)a->y_stride);
}
#endif

static void report(struct kernel_work *w, double ns) {
    printf(" %13.0f %8.1f", ns, 2 * w->n_macs / ns);
}

int main(void) {
    printf("%-10s %-18s %5s", "kernel", "shape of", "rows");
    const struct kernels *k;
    fpu_flush_denormals(); /* as engines do */
    for (unsigned i = 0; (k = kernels_nth(i)); i++)
        printf(" %10.10s ns  GFLOP/s", k->name);
#ifdef HAVE_OPENBLAS
    openblas_set_num_threads(1);
    printf(" %10s ns  GFLOP/s", "OpenBLAS");
#endif
    printf("\n");
    for (unsigned c = 0; c < n_kernel_cases; c++) {
        if (!kernel_cases[c].timed)
            continue;
        printf("%-10s %-18s %5u", kernel_op_names[kernel_cases[c].op], kernel_cases[c].what, kernel_cases[c].n_rows);
        for (unsigned i = 0; (k = kernels_nth(i)); i++) {
            struct kernel_work w;
            if (!kernel_work_possible(&kernel_cases[c], k)) {
                printf(" %13s %8s", "", "");
                continue;
            }
            kernel_work_init(&w, &kernel_cases[c], k, 1);
            report(&w, least_ns(ours, &w, k));
            kernel_work_done(&w);
        }
#ifdef HAVE_OPENBLAS
        if (kernel_cases[c].op == op_linear && !(kernel_cases[c].flags & (overlapping | in_pairs))) {
            struct kernel_work w;
            kernel_work_init(&w, &kernel_cases[c], &kernels_reference, 1);
            report(&w, least_ns(peer, &w, NULL));
            kernel_work_done(&w);
        }
#endif
        printf("\n");
    }
    return 0;
}
