/* Times every kernel on the shapes of the shipped models: ns a call and GFLOP/s, for each instruction set that this processor
 * runs. The table of cases is the tests' own. The least of many runs is what the kernel can do. */
#include "kernel_cases.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double least_ns(struct kernel_work *w, const struct kernels *k) {
    double least = INFINITY, started = now_ns();
    for (unsigned run = 0; run < 5 || (run < 2000 && now_ns() - started < 2e7); run++) {
        double before = now_ns();
        for (unsigned i = 0; i < 4; i++)
            kernel_work_run(w, k);
        least = fmin(least, (now_ns() - before) / 4);
    }
    return least;
}

int main(void) {
    printf("%-10s %-18s %5s", "kernel", "shape of", "rows");
    const struct kernels *k;
    for (unsigned i = 0; (k = kernels_nth(i)); i++)
        printf(" %10s ns  GFLOP/s", k->name);
    printf("\n");
    for (unsigned c = 0; c < n_kernel_cases; c++) {
        if (!kernel_cases[c].timed)
            continue;
        printf("%-10s %-18s %5u", kernel_op_names[kernel_cases[c].op], kernel_cases[c].what, kernel_cases[c].n_rows);
        for (unsigned i = 0; (k = kernels_nth(i)); i++) {
            struct kernel_work w;
            kernel_work_init(&w, &kernel_cases[c], 1);
            double ns = least_ns(&w, k);
            printf(" %13.0f %8.1f", ns, 2 * w.n_macs / ns);
            kernel_work_done(&w);
        }
        printf("\n");
    }
    return 0;
}
