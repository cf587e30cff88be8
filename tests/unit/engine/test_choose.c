#include "engine/choose.h"
#include "engine/measure.h"
#include "model/model.h"
#include "tests/support/content.h"
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

static char state[] = "/tmp/primeknet-choose-XXXXXX", file[64];

static struct choice choose_when(enum choose_when when) {
    struct choice c;
    struct err err;
    ck_assert_msg(choose_model(&c, "cpu", when, NULL, &err) == 0, "%s", err.text);
    return c;
}

static struct choice choose(void) {
    const struct choice c = choose_when(CHOOSE_MEASURED);
    ck_assert_float_gt(c.p99_us, 0);
    if (c.p99_us < c.limit_us)
        ck_assert_str_eq(c.model, choice_measured(&c));
    return c;
}

/* Rewrites this machine's stored choice to another model with these microseconds. */
static void put_choice(const char *model, unsigned p99_us, unsigned n_measured) {
    char line[600], valid_for[512] = "";
    choose();
    ck_assert_int_eq(sscanf(content(file), "%*s %*u %*u %*u %511[^\n]", valid_for), 1);
    snprintf(line, sizeof line, "%s %u 4267 %u %s\n", model, p99_us, n_measured, valid_for);
    put_content(file, line);
}

START_TEST(measured_once_then_remembered) {
    struct model *base;
    struct err err;
    ck_assert_int_eq(model_load(&base, "base", &err), 0);
    struct choice first = choose();
    ck_assert(!first.remembered);
    const float share = strcmp(choice_measured(&first), "large") ? .4f : .2f;
    ck_assert_float_eq_tol(first.limit_us, share * (float)model_hop(base) / 48000 * 1e6f, 1);
    model_free(base);
    struct choice second = choose();
    ck_assert(second.remembered);
    ck_assert_str_eq(second.model, first.model);
    ck_assert_str_eq(choice_measured(&second), choice_measured(&first));
    ck_assert_float_eq_tol(second.limit_us, first.limit_us, 1);
    ck_assert_float_eq_tol(second.p99_us, first.p99_us, 1);
    struct stat s;
    ck_assert_int_eq(stat(file, &s), 0);
}
END_TEST

START_TEST(stored_garbage_or_another_machines_choice_is_measured_again) {
    choose();
    char *line = strdup(content(file));
    char other[600];
    snprintf(other, sizeof other, "%.*s of another kind\n", (int)strcspn(line, "\n"), line);
    const char *garbage[] = {other,
                             "",
                             "\n",
                             "base",
                             "base 100",
                             "base x y",
                             "base 100 x y",
                             "base 100 1000 x y",
                             "enormous 100 1000 1 1 cpu z\n",
                             "\xff\xfe"};
    for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        put_content(file, garbage[i]);
        ck_assert_msg(!choose().remembered, "'%s' was believed", garbage[i]);
    }
    put_content(file, line);
    ck_assert(choose().remembered);
    free(line);
}
END_TEST

START_TEST(a_base_with_another_hop_has_another_limit) {
    struct choice installed = choose();
    char path[96];
    snprintf(path, sizeof path, "%s/base.safetensors", state);
    ck_assert_int_eq(symlink(FIXTURES "/low-delay.safetensors", path), 0);
    setenv("PRIMEKNET_MODELS", state, 1);
    struct choice other = choose();
    ck_assert(!other.remembered);
    ck_assert_float_eq_tol(other.limit_us, .4f * 16 / 8000 * 1e6f, 1);
    ck_assert_float_ne(other.limit_us, installed.limit_us);
    ck_assert(choose().remembered);
    unsetenv("PRIMEKNET_MODELS");
    unlink(path);
    unlink(file);
}
END_TEST

/* A measurement on a busy machine is not final: another one may select a heavier model, but a lighter one only on
 * request. Their number is limited. */
START_TEST(measured_again) {
    put_choice("small", 99999, 1);
    struct choice c = choose();
    ck_assert(c.remembered && !choice_is_sure(&c) && c.n_measured == 1);
    ck_assert_str_eq(c.model, "small");
    c = choose_when(CHOOSE_AGAIN);
    ck_assert(!c.remembered && c.n_measured == 2);
    const struct choice kept = choose();
    ck_assert(kept.remembered && kept.n_measured == 2);
    ck_assert_str_eq(kept.model, c.model);
    put_choice("small", 99999, 2);
    c = choose_when(CHOOSE_AGAIN);
    ck_assert(choice_is_sure(&c) && c.n_measured == 3);

    put_choice("large", 99, 1);
    c = choose();
    ck_assert(choice_is_sure(&c));
    c = choose_when(CHOOSE_AGAIN);
    ck_assert_str_eq(c.model, "large");
    put_choice("large", 1, 1);
    c = choose_when(CHOOSE_ANEW);
    ck_assert(!c.remembered && c.n_measured == 2);
    ck_assert_float_gt(c.p99_us, 1);
    ck_assert_float_gt(choose().p99_us, 1);
}
END_TEST

START_TEST(load_decides_whether_the_machine_is_quiet) {
    setenv("PRIMEKNET_LOADAVG", file, 1);
    put_content(file, "0.01 9.00 9.00 1/100 1000\n");
    ck_assert(choose_is_quiet());
    put_content(file, "1000.50 0.00 0.00 1/100 1000\n");
    ck_assert(!choose_is_quiet());
    put_content(file, "?\n");
    ck_assert(!choose_is_quiet());
    unlink(file);
    ck_assert(!choose_is_quiet());
}
END_TEST

/* A missing or broken model is not chosen, even if it is the stored choice. */
START_TEST(an_unreadable_model_is_not_chosen) {
    static const char *const models[] = {"small", "base", "large"};
    char path[3][96];
    struct choice c;
    struct err err = {0};
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%s.safetensors", state, models[i]);
    put_choice("large", 99, 1);
    setenv("PRIMEKNET_MODELS", state, 1);
    ck_assert_int_eq(choose_model(&c, "cpu", CHOOSE_MEASURED, NULL, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "small: no model of that name"));
    put_content(path[0], "broken");
    ck_assert_int_eq(choose_model(&c, "cpu", CHOOSE_AT_ONCE, NULL, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "small.safetensors: too short"));
    put_content(path[2], "broken");
    ck_assert_int_eq(symlink(FIXTURES "/low-delay.safetensors", path[1]), 0);
    ck_assert_str_eq(choose_when(CHOOSE_AT_ONCE).model, "base");
    ck_assert_str_eq(choose().model, "base");
    unlink(path[0]);
    ck_assert_int_eq(symlink(FIXTURES "/low-delay.safetensors", path[0]), 0);
    unlink(path[1]);
    c = choose_when(CHOOSE_MEASURED);
    ck_assert(!c.remembered && c.p99_us == 0);
    ck_assert_str_eq(c.model, "small");
    for (int i = 0; i < 3; i++)
        unlink(path[i]);
    unlink(file);
    unsetenv("PRIMEKNET_MODELS");
}
END_TEST

START_TEST(an_unwritable_state_is_no_error) {
    setenv("XDG_STATE_HOME", "/proc/nonexistent", 1);
    ck_assert(!choose().remembered);
}
END_TEST

START_TEST(an_unknown_engine_is_an_error) {
    struct choice c;
    struct err err = {0};
    ck_assert_int_lt(choose_model(&c, "steam", CHOOSE_MEASURED, NULL, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "steam"));
}
END_TEST

START_TEST(a_cancelled_measurement_is_not_stored) {
    struct choice c;
    struct err err = {0};
    const _Atomic bool stop = true;
    unlink(file);
    ck_assert_int_eq(choose_model(&c, "cpu", CHOOSE_MEASURED, &stop, &err), -ECANCELED);
    ck_assert_int_lt(access(file, F_OK), 0);
}
END_TEST

START_TEST(percentiles_by_rank) {
    float us[100];
    for (int i = 0; i < 100; i++)
        us[i] = 100 - i;
    ck_assert_float_eq(measure_percentile(us, 100, .5), 50);
    ck_assert_float_eq(measure_percentile(us, 100, .99), 99);
    ck_assert_float_eq(measure_percentile(us, 100, 1), 100);
    ck_assert_float_eq(measure_percentile(us, 1, .001), 1);
}
END_TEST

int main(void) {
    if (!mkdtemp(state))
        return 99;
    setenv("XDG_STATE_HOME", state, 1);
    snprintf(file, sizeof file, "%s/primeknet/model", state);
    Suite *s = suite_create("choose");
    TCase *t = tcase_create("choose");
    tcase_add_test(t, measured_once_then_remembered);
    tcase_add_test(t, a_base_with_another_hop_has_another_limit);
    tcase_add_test(t, load_decides_whether_the_machine_is_quiet);
    tcase_add_test(t, an_unreadable_model_is_not_chosen);
    tcase_add_test(t, an_unwritable_state_is_no_error);
    tcase_add_test(t, an_unknown_engine_is_an_error);
    tcase_add_test(t, a_cancelled_measurement_is_not_stored);
    tcase_add_test(t, percentiles_by_rank);
    tcase_set_timeout(t, 600);
    suite_add_tcase(s, t);
    TCase *often = tcase_create("often");
    tcase_set_tags(often, "slow"); /* an emulated processor measures for half a minute each time */
    tcase_add_test(often, stored_garbage_or_another_machines_choice_is_measured_again);
    tcase_add_test(often, measured_again);
    tcase_set_timeout(often, 600);
    suite_add_tcase(s, often);
    const int failed = run_suite(s, CK_FORK);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", state);
    return system(command) || failed;
}
