/* Stall detection (stall.h): waits while blocks pass, acts when blocks are missing, and waits longer while the graph
 * does not run. */
#include "graph/stall.h"
#include "tests/support/run.h"

#include <check.h>

static struct stall s;
static unsigned blocks, cycles;

static void begin(void) {
    s = (struct stall){0};
    blocks = cycles = UINT32_MAX - 2; /* the counters may wrap */
    ck_assert(!stall_watch(&s, true, blocks, cycles));
}

static enum stall_action tick(unsigned n_blocks, unsigned n_cycles) {
    return stall_tick(&s, blocks += n_blocks, cycles += n_cycles);
}

/* Returns the number of ticks without a block, with n cycles of the graph each, until an action. */
static unsigned ticks_of(unsigned n_cycles, enum stall_action expected) {
    for (unsigned n = 1; n < 10000; n++) {
        const enum stall_action action = tick(0, n_cycles);
        if (action != STALL_WAIT) {
            ck_assert_int_eq(action, expected);
            return n;
        }
    }
    ck_abort_msg("no action");
}

static unsigned ticks_until(enum stall_action expected) {
    return ticks_of(20, expected);
}

START_TEST(passing_sound_is_left_alone) {
    begin();
    ck_assert(!s.passes);
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(tick(20, 20), STALL_WAIT);
        ck_assert(s.passes);
    }
    ck_assert_uint_eq(s.n, 0);
}
END_TEST

START_TEST(the_longest_blocks_are_no_stall) { /* of 8192 samples: one in 170 ms */
    begin();
    for (unsigned i = 0; i < 1000; i++)
        ck_assert_int_eq(tick(i % 2, i % 2), STALL_WAIT);
    ck_assert(s.passes);
}
END_TEST

START_TEST(a_stopped_graph_gets_ten_times_as_long) { /* a device that starts slowly, or what a client has paused */
    begin();
    unsigned wanted = 3000 / STALL_TICK_MS;
    ck_assert_uint_eq(ticks_of(0, STALL_FLUSH), wanted);
    ck_assert(!s.passes);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(ticks_of(0, STALL_REOPEN), wanted *= 2);
}
END_TEST

START_TEST(a_paused_graph_gets_the_rest_of_its_time) {
    begin();
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(tick(0, 0), STALL_WAIT);
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), 1);
}
END_TEST

START_TEST(an_occasional_cycle_counts_once) {
    begin();
    ck_assert_int_eq(tick(0, 1), STALL_WAIT);
    ck_assert_uint_eq(ticks_of(0, STALL_FLUSH), 3000 / STALL_TICK_MS - STALL_STANDING);
}
END_TEST

START_TEST(occasional_late_blocks_are_no_stall) {
    begin();
    for (unsigned i = 0; i < 10; i++) {
        tick(1, 20);
        for (unsigned missing = STALL_TICK_MS; missing < STALL_FIRST_MS; missing += STALL_TICK_MS) {
            tick(0, 20);
            ck_assert(s.passes);
        }
    }
}
END_TEST

START_TEST(a_running_watch_is_not_restarted) {
    begin();
    for (unsigned waited = STALL_TICK_MS; waited < STALL_FIRST_MS; waited += STALL_TICK_MS) {
        ck_assert_int_eq(tick(0, 20), STALL_WAIT);
        stall_watch(&s, true, blocks, cycles); /* the node calls it for each change of the graph */
    }
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), 1);
}
END_TEST

START_TEST(a_stall_is_flushed_then_reopened_at_growing_intervals) {
    begin();
    tick(1, 1);
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), STALL_FIRST_MS / STALL_TICK_MS);
    ck_assert(!s.passes);
    unsigned before = STALL_FIRST_MS / STALL_TICK_MS;
    for (unsigned i = 0; i < 20; i++) {
        const unsigned now = ticks_until(STALL_REOPEN);
        ck_assert_uint_eq(now, 2 * before < STALL_MAX_MS / STALL_TICK_MS ? 2 * before : STALL_MAX_MS / STALL_TICK_MS);
        before = now;
    }
    ck_assert_uint_eq(s.n, 21);
}
END_TEST

START_TEST(a_block_ends_the_stall) {
    begin();
    ticks_until(STALL_FLUSH);
    ticks_until(STALL_REOPEN);
    tick(1, 1);
    ck_assert(s.passes);
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), STALL_FIRST_MS / STALL_TICK_MS);
    ck_assert_uint_eq(s.n, 3);
}
END_TEST

START_TEST(reopened_streams_get_more_and_more_time) {
    begin();
    ticks_until(STALL_FLUSH);
    unsigned wanted = STALL_FIRST_MS / STALL_TICK_MS;
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(ticks_until(STALL_REOPEN), wanted *= 2);
        stall_watch(&s, false, blocks, cycles); /* no stream, so no link and no recorder */
        stall_watch(&s, true, blocks, cycles);
    }
    stall_watch(&s, false, blocks, cycles);
    ck_assert_uint_eq(s.n, 6);
    stall_forget(&s);
    stall_watch(&s, true, blocks, cycles);
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), STALL_FIRST_MS / STALL_TICK_MS);
}
END_TEST

START_TEST(the_watch_ends_with_the_last_recorder) {
    begin();
    ck_assert(!stall_watch(&s, true, blocks, cycles));
    tick(1, 1);
    ck_assert_msg(stall_watch(&s, false, blocks, cycles), "who watches the status is not told that no sound passes");
    ck_assert(!s.passes);
    ck_assert(!stall_watch(&s, false, blocks, cycles));
    stall_watch(&s, true, blocks, cycles);
    ck_assert_msg(!s.passes, "sound of an earlier recording counts");
    ck_assert_uint_eq(ticks_until(STALL_FLUSH), STALL_FIRST_MS / STALL_TICK_MS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stall");
    TCase *tcase = tcase_create("stall");
    tcase_add_test(tcase, passing_sound_is_left_alone);
    tcase_add_test(tcase, the_longest_blocks_are_no_stall);
    tcase_add_test(tcase, a_stopped_graph_gets_ten_times_as_long);
    tcase_add_test(tcase, a_paused_graph_gets_the_rest_of_its_time);
    tcase_add_test(tcase, an_occasional_cycle_counts_once);
    tcase_add_test(tcase, occasional_late_blocks_are_no_stall);
    tcase_add_test(tcase, a_running_watch_is_not_restarted);
    tcase_add_test(tcase, a_stall_is_flushed_then_reopened_at_growing_intervals);
    tcase_add_test(tcase, a_block_ends_the_stall);
    tcase_add_test(tcase, reopened_streams_get_more_and_more_time);
    tcase_add_test(tcase, the_watch_ends_with_the_last_recorder);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
