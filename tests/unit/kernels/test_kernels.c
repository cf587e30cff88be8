/* Every vectorised kernel that this processor supports, against the plain reference. test_net.c checks the references
 * through whole networks. */
#include "tests/support/kernel_cases.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <math.h>
#include <string.h>

static const struct kernels *all[8];
static unsigned n_all;
static uint32_t first_seed;

/* The tolerance relative to the largest value: sums of the longest rows, 256 terms in another order, differ by about 16
 * roundings. Inputs that differ by a rounding may become neighbours in bfloat16 or int16: of 16 inputs of a norm, one
 * moves the result by up to 2^-11. */
static float bar(const struct kernel_case *c, const struct kernels *k) {
    if (!(c->flags & in_pairs && c->flags & (of_norm | of_convs)))
        return 32 * 0x1p-23f;
    return k->bf16 ? 0x1p-8f : 0x1p-10f;
}

static void compare(const struct kernel_case *c, const struct kernels *k, unsigned seed) {
    struct kernel_work reference, work;
    if (!kernel_work_possible(c, k))
        return;
    kernel_work_init(&reference, c, k, seed);
    kernel_work_init(&work, c, k, seed);
    for (unsigned call = 0; call < 3; call++) { /* the state of a call is the next one's */
        kernel_work_run(&reference, &kernels_reference);
        kernel_work_run(&work, k);
    }
    for (unsigned o = 0; o < work.n_outs; o++) {
        const float *is = work.out[o].values, *should = reference.out[o].values;
        float largest = 0;
        for (size_t i = 0; i < work.out[o].n; i++)
            largest = fmaxf(largest, fabsf(should[i])); /* passes over poison */
        for (size_t i = 0; i < work.out[o].n; i++)      /* poison stays between the rows */
            ck_assert_msg(fabsf(is[i] - should[i]) <= bar(c, k) * largest || !memcmp(is + i, should + i, sizeof *is),
                          "%s, %s, %s: output %u [%zu] is %.9g, should be %.9g (largest %g; seed %u)",
                          kernel_op_names[c->op], c->what, k->name, o, i, (double)is[i], (double)should[i],
                          (double)largest, seed);
    }
    ck_assert_msg(kernel_work_guarded(&work), "%s, %s, %s: wrote beside an array (seed %u)", kernel_op_names[c->op],
                  c->what, k->name, seed);
    kernel_work_done(&work);
    kernel_work_done(&reference);
}

START_TEST(matches_reference) {
    compare(&kernel_cases[_i % (int)n_kernel_cases], all[_i / (int)n_kernel_cases], first_seed);
}
END_TEST

/* The remainder of a small frame: every number of rows up to two tiles of every form. */
START_TEST(any_number_of_rows) {
    for (unsigned rows = 1; rows <= 30; rows++) {
        struct kernel_case linear = {op_linear, "rows", rows, 5, 40, 0, with_add, 0};
        struct kernel_case depthwise = {op_depthwise, "rows", rows, 1, 16, 3, with_times, 0};
        struct kernel_case norm = {op_linear, "rows of a norm", rows, 16, 16, 0, of_norm, 0};
        struct kernel_case convs = {op_linear, "rows of convs", rows, 32, 16, 3, of_convs, 0};
        struct kernel_case few = {op_linear, "rows of few outputs", rows, 32, 3, 0, 0, 0};
        struct kernel_case few_pairs = {op_linear, "rows of few outputs, pairs", rows, 32, 18, 0, in_pairs, 0};
        compare(&few, all[_i], first_seed + rows);
        compare(&few_pairs, all[_i], first_seed + rows);
        compare(&linear, all[_i], first_seed + rows);
        compare(&depthwise, all[_i], first_seed + rows);
        compare(&norm, all[_i], first_seed + rows);
        compare(&convs, all[_i], first_seed + rows);
    }
}
END_TEST

int main(void) {
    first_seed = seed_of_run(1);
    while ((all[n_all] = kernels_nth(n_all)))
        n_all++;
    Suite *suite = suite_create("kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, matches_reference, 0, (int)(n_all * n_kernel_cases));
    tcase_add_loop_test(t, any_number_of_rows, 0, (int)n_all);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
