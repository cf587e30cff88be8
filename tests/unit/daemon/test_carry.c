/* Load control, second by second: when a model is too heavy for the machine, and when a heavier one is retried. */
#include "daemon/carry.h"
#include "tests/support/run.h"

#include <check.h>

/* Runs steps of so many seconds with so many late hops each, and expects the action only at the end of its step. */
struct phase {
    unsigned n, n_late;
    float load;
    bool lighter;
    enum carry then;
};

static void check_phases(unsigned hop, const struct phase *p, unsigned n) {
    struct carry_state c = {0};
    for (unsigned i = 0; i < n; i++)
        for (unsigned s = 1; s <= p[i].n; s++) {
            const enum carry is = carry_second(&c, p[i].n_late * hop, p[i].load, p[i].lighter);
            ck_assert_msg(is == (s == p[i].n ? p[i].then : CARRY_STAY), "phase %u, second %u: %d", i, s, (int)is);
        }
}
#define CHECK_HOPS(hop, ...) \
    check_phases(hop, (const struct phase[]){__VA_ARGS__}, \
                 sizeof(const struct phase[]){__VA_ARGS__} / sizeof(struct phase))
#define CHECK(...) CHECK_HOPS(256, __VA_ARGS__)

START_TEST(late_hops_for_ten_seconds_are_too_many) {
    CHECK({100, 0, .9f, false, CARRY_STAY}, {10, 5, .9f, false, CARRY_DOWN}, {10, 187, 2, true, CARRY_DOWN});
    CHECK({1000, 4, .9f, false, CARRY_STAY}); /* a few late hops do not matter */
    CHECK({9, 187, 1, false, CARRY_STAY}, {9, 0, 1, false, CARRY_STAY}, {9, 187, 1, false, CARRY_STAY});
    CHECK({9, 5, 1, false, CARRY_STAY}, {3, 0, 1, false, CARRY_STAY},
          {4, 5, 1, false, CARRY_DOWN}); /* a pause is not the end */
}
END_TEST

START_TEST(longer_hops_count_for_longer) {
    CHECK_HOPS(512, {1000, 2, .9f, false, CARRY_STAY});
    CHECK_HOPS(512, {10, 3, .9f, false, CARRY_DOWN});
    CHECK_HOPS(512, {10, 93, .9f, false, CARRY_DOWN});
    CHECK_HOPS(512, {29, 2, .1f, true, CARRY_STAY}, {1, 2, .1f, true, CARRY_UP});
}
END_TEST

START_TEST(a_heavier_model_needs_room_and_time) {
    CHECK({30, 0, .1f, true, CARRY_UP});
    CHECK({300, 0, .1f, false, CARRY_STAY}); /* there is no heavier model */
    CHECK({300, 0, .3f, true, CARRY_STAY}, {1, 0, .2f, true, CARRY_UP});
    CHECK({29, 0, .1f, true, CARRY_STAY}, {1, 5, .1f, true, CARRY_STAY}, {11, 0, .1f, true, CARRY_UP});
    struct carry_state c = {0};
    for (unsigned s = 0; s < 300; s++) /* one bad second in ten: no room */
        ck_assert_int_eq(carry_second(&c, s % 10 ? 0 : 5 * 256, .1f, true), CARRY_STAY);
}
END_TEST

START_TEST(attempts_become_rarer_until_one_succeeds) {
    CHECK({10, 9, 1, false, CARRY_DOWN}, {30, 0, .1f, true, CARRY_UP}, {10, 9, 1, false, CARRY_DOWN},
          {60, 0, .1f, true, CARRY_UP}, {120, 0, .1f, true, CARRY_UP}, /* refused, for its hops took too long */
          {240, 0, .1f, true, CARRY_UP}, {480, 0, .1f, true, CARRY_UP}, {960, 0, .1f, true, CARRY_UP},
          {1920, 0, .1f, true, CARRY_UP}, {3600, 0, .1f, true, CARRY_UP}, {3600, 0, .1f, true, CARRY_UP},
          {3599, 0, .5f, false, CARRY_STAY}, {10, 9, 1, false, CARRY_DOWN}, {3600, 0, .1f, true, CARRY_UP},
          {3600, 0, .5f, false, CARRY_STAY}, {10, 9, 1, false, CARRY_DOWN}, {30, 0, .1f, true, CARRY_UP});
}
END_TEST

int main(void) {
    Suite *suite = suite_create("carry");
    TCase *t = tcase_create("carry");
    tcase_add_test(t, late_hops_for_ten_seconds_are_too_many);
    tcase_add_test(t, longer_hops_count_for_longer);
    tcase_add_test(t, a_heavier_model_needs_room_and_time);
    tcase_add_test(t, attempts_become_rarer_until_one_succeeds);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
