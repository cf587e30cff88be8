/* kernel_cases.h - the table of cases for the kernels. The test compares the vectorised versions with the reference;
 * the benchmark times the cases that the shipped models use.
 *
 * A kernel_work holds a case's arguments, filled with random numbers from a seed. */
#ifndef PRIMEKNET_KERNEL_CASES_H
#define PRIMEKNET_KERNEL_CASES_H

#include "model/pool.h"

#include "kernels/attend/attend.h"
#include "kernels/conv/conv.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/fft/fft.h"
#include "kernels/gru/gru.h"
#include "kernels/kernels.h"
#include "kernels/linear/linear.h"
#include "kernels/lstm/lstm.h"
#include "kernels/power/power.h"
#include "kernels/scan/scan.h"
#include "kernels/ssd/ssd.h"

#include <stdbool.h>

enum kernel_op {
#define ROW(op) op_##op,
    KERNELS_TABLE(ROW)
#undef ROW
};
enum {
    with_prelu = 1,
    with_add = 2,
    overlapping = 4,
    with_times = 8,
    tiny_steps = 16,
    in_pairs = 32,
    of_norm = 64,
    of_gate = 128,
    of_convs = 256,
    backwards = 512,
    with_skip = 1024
};

struct kernel_case {
    enum kernel_op op;
    const char *what; /* its use in the shipped models, or its special property */
    unsigned n_rows, n_in, n_out, n_taps, flags;
    unsigned timed; /* timed in the benchmark */
};

extern const struct kernel_case kernel_cases[];
extern const unsigned n_kernel_cases;
extern const char *const kernel_op_names[];

struct kernel_work {
    const struct kernel_case *c;
    bool bf16; /* the kernels' pairs are bfloat16 */
    union {
#define ROW(op) struct op op;
        KERNELS_TABLE(ROW)
#undef ROW
    };
    struct depthwise convs[2]; /* used by linear */
    struct fft_plan plan;      /* used by fft */
    struct pool pool;
    struct {
        float *values;
        size_t n;
    } arrays[16]; /* all arrays of the case, each between two guards of NaN that must not be written */
    unsigned n_arrays;
    struct {
        float *values;
        size_t n;
    } out[2]; /* the result, then the state, if any; poisoned unless the kernel reads it */
    unsigned n_outs;
    double n_macs; /* multiply-adds in one call */
};

void kernel_work_init(struct kernel_work *w, const struct kernel_case *c, const struct kernels *k, unsigned seed);
bool kernel_work_possible(const struct kernel_case *c, const struct kernels *k); /* not every set of kernels has every
                                                                                  * form */
void kernel_work_run(struct kernel_work *w, const struct kernels *k);
bool kernel_work_guarded(const struct kernel_work *w); /* no guard was overwritten */
void kernel_work_done(struct kernel_work *w);

#endif
