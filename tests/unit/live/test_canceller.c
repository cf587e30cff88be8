/* The echo canceller's stage: the output equals the near end bit for bit, at the reported delay, for any quantum and
 * either order of a cycle's two blocks; and late blocks. */
#include "live/canceller.h"

#include "tests/support/rt_guard.h"
#include "tests/support/run.h"

#include <check.h>
#include <math.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AEC_DELAY 100u
#define LONGEST 2048u

enum order { PLAYED_FIRST, MIC_FIRST, NOTHING_PLAYED };

static unsigned n_poisoned;

/* A perfect canceller: outputs mic minus played, delayed. If gated, it processes one block per post of `may`. */
static struct {
    float past[AEC_DELAY];
    sem_t may;
    _Atomic bool gated, poisoned; /* poisoned, its numbers are none until it is renewed */
    _Atomic unsigned n_blocks, n_changes;
    float loudest;
} aec;

static struct {
    struct canceller *canceller;
    uint64_t cycle, end;  /* samples so far */
    uint64_t handed_over; /* of these */
    enum order before;    /* in the last cycle */
    float out[LONGEST];
} w;

/* Whole numbers, whose sums are exact. */
static float sound(uint64_t position, uint64_t seed) {
    return (float)((position * 2654435761u + seed * 40503u) >> 7 & 511) - 256;
}

static float near(uint64_t position) {
    return sound(position, 1);
}

static void run(void *data, const float *mic, const float *played, float *out) {
    (void)data;
    if (aec.gated)
        sem_wait(&aec.may);
    float all[AEC_DELAY + CANCELLER_BLOCK];
    memcpy(all, aec.past, sizeof aec.past);
    for (unsigned i = 0; i < CANCELLER_BLOCK; i++)
        all[AEC_DELAY + i] = mic[i] - played[i];
    for (unsigned i = 0; i < CANCELLER_BLOCK; i++)
        aec.loudest = fmaxf(aec.loudest, fmaxf(fabsf(mic[i]), fabsf(played[i])));
    memcpy(out, all, CANCELLER_BLOCK * sizeof *out);
    memcpy(aec.past, all + CANCELLER_BLOCK, sizeof aec.past);
    if (aec.poisoned)
        out[n_poisoned * 100 % CANCELLER_BLOCK] = (float[]){NAN, INFINITY, -INFINITY}[n_poisoned % 3];
    n_poisoned += aec.poisoned;
    atomic_fetch_add(&aec.n_blocks, 1);
}

static void renew(void *data) {
    (void)data;
    aec.poisoned = false;
}

static void changed(void *data) {
    (void)data;
    atomic_fetch_add(&aec.n_changes, 1);
}

static void setup(void) {
    const struct aec engine = {.run = run, .renew = renew, .changed = changed, .delay = AEC_DELAY};
    sem_init(&aec.may, 0, 0);
    ck_assert_int_eq(canceller_open(&w.canceller, &rt_posix, &engine), 0);
    w.before = NOTHING_PLAYED;
}

static void teardown(void) {
    for (unsigned i = 0; i < 1000; i++)
        sem_post(&aec.may);
    canceller_close(w.canceller);
}

static void await(_Atomic unsigned *count, unsigned value) {
    while (atomic_load(count) != value)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void play(unsigned n) {
    float played[LONGEST];
    for (unsigned i = 0; i < n; i++)
        played[i] = sound(w.end + i, 2);
    rt_guard_enter();
    canceller_played(w.canceller, w.cycle, played, n);
    rt_guard_leave();
}

/* Runs a cycle of n samples. The microphone's samples contain the far end. */
static void begin_cycle(unsigned n, enum order order) {
    float mic[LONGEST];
    for (unsigned i = 0; i < n; i++)
        mic[i] = near(w.end + i) + (order == NOTHING_PLAYED ? 0 : sound(w.end + i, 2));
    w.cycle++;
    if (order == PLAYED_FIRST)
        play(n);
    rt_guard_enter();
    memcpy(w.out, canceller_process(w.canceller, w.cycle, mic, n), n * sizeof *mic);
    rt_guard_leave();
    if (order == MIC_FIRST)
        play(n);
    w.end += n;
    if (order != NOTHING_PLAYED || w.before == NOTHING_PLAYED)
        w.handed_over = w.end;
    w.before = order;
}

/* Runs a cycle, and waits until all samples passed to the canceller are processed. */
static void cycle(unsigned n, enum order order) {
    begin_cycle(n, order);
    await(&aec.n_blocks, (unsigned)(w.handed_over / CANCELLER_BLOCK));
}

/* Checks that the last cycle's n samples are the near end at this delay from position `since` on, and silence
 * before. */
static void assert_near(unsigned n, unsigned delay, uint64_t since) {
    for (unsigned i = 0; i < n; i++) {
        const uint64_t at = w.end - n + i;
        ck_assert_msg(w.out[i] == (at < since + delay ? 0 : near(at - delay)), "position %ju of a quantum of %u: %g",
                      (uintmax_t)at, n, w.out[i]);
    }
}

static const unsigned quanta[] = {64, 256, 480, 512, 1000, 1024, 2048};

START_TEST(the_echo_is_removed_and_the_near_end_has_the_reported_delay) {
    const unsigned n = quanta[_i];
    for (unsigned i = 0; i < 200000 / n; i++) { /* more than the rings hold */
        cycle(n, i / 7 % 2 ? MIC_FIRST : PLAYED_FIRST);
        ck_assert_uint_eq(canceller_delay(w.canceller), n + CANCELLER_BLOCK + AEC_DELAY);
        assert_near(n, n + CANCELLER_BLOCK + AEC_DELAY, 0);
    }
}
END_TEST

START_TEST(the_far_end_is_used_once) {
    const unsigned n = 512, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    for (unsigned i = 0; i < 64; i++)
        cycle(n, MIC_FIRST);
    cycle(n, NOTHING_PLAYED); /* it might still arrive ... */
    cycle(n, NOTHING_PLAYED); /* ... it does not: that block is late, and without echo */
    for (unsigned i = 0; i < 300; i++) {
        cycle(n, NOTHING_PLAYED);
        assert_near(n, delay, 0);
    }
}
END_TEST

START_TEST(cancellation_resumes_with_playback) {
    const unsigned n = 512, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    for (unsigned i = 0; i < 20; i++)
        cycle(n, NOTHING_PLAYED);
    cycle(n, MIC_FIRST); /* handed over without it: nothing was played before */
    for (unsigned i = 0; i < 5; i++)
        cycle(n, MIC_FIRST);
    for (unsigned i = 0; i < 20; i++) {
        cycle(n, MIC_FIRST);
        assert_near(n, delay, 0);
    }
}
END_TEST

START_TEST(a_late_block_passes_the_microphone_at_the_same_delay) {
    const unsigned n = 512, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    for (unsigned i = 0; i < 20; i++)
        cycle(n, MIC_FIRST);
    aec.gated = true;
    for (unsigned i = 0; i < 10; i++) {
        begin_cycle(n, MIC_FIRST);
        for (unsigned k = 0; i > 3 && k < n; k++) {
            const uint64_t at = w.end - n + k - delay;
            ck_assert_float_eq(w.out[k], near(at) + sound(at, 2));
        }
    }
    for (unsigned i = 0; i < 1000; i++)
        sem_post(&aec.may);
    await(&aec.n_blocks, (unsigned)(w.handed_over / CANCELLER_BLOCK));
    for (unsigned i = 0; i < 20; i++) {
        cycle(n, MIC_FIRST);
        assert_near(n, delay, 0);
    }
}
END_TEST

START_TEST(a_new_quantum_changes_the_delay_after_a_fade) {
    static const unsigned then[] = {1024, 256, 2048, 64, 512};
    unsigned before = 512;
    for (unsigned i = 0; i < 50; i++)
        cycle(before, MIC_FIRST);
    for (unsigned q = 0; q < sizeof then / sizeof *then; q++) {
        const unsigned n = then[q], n_changes = atomic_load(&aec.n_changes);
        cycle(n, MIC_FIRST); /* fades */
        ck_assert_float_eq(w.out[0], near(w.end - n - (before + CANCELLER_BLOCK + AEC_DELAY)));
        await(&aec.n_changes, n_changes + 1);
        for (unsigned i = 0; i < 50; i++) {
            cycle(n, MIC_FIRST);
            assert_near(n, n + CANCELLER_BLOCK + AEC_DELAY, 0);
        }
        before = n;
    }
}
END_TEST

START_TEST(a_restart_discards_earlier_samples) {
    const unsigned n = 256, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    for (unsigned i = 0; i < 50; i++)
        cycle(n, MIC_FIRST);
    rt_guard_enter();
    canceller_restart(w.canceller);
    rt_guard_leave();
    const uint64_t since = w.end;
    for (unsigned i = 0; i < 50; i++) {
        cycle(n, MIC_FIRST);
        assert_near(n, delay, since);
    }
}
END_TEST

START_TEST(it_continues_after_a_long_delay) {
    const unsigned n = 1024, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    aec.gated = true;
    for (unsigned i = 0; i < 100; i++)
        begin_cycle(n, MIC_FIRST);
    const unsigned n_blocks = atomic_load(&aec.n_blocks);
    aec.gated = false;
    for (unsigned i = 0; i < 1000; i++)
        sem_post(&aec.may);
    await(&aec.n_blocks, n_blocks + 2); /* the one that was held up, and the latest */
    for (unsigned i = 0; i < 20; i++) {
        begin_cycle(n, MIC_FIRST);
        await(&aec.n_blocks, n_blocks + 2 + (unsigned)((w.end - 100 * n) / CANCELLER_BLOCK));
        if (i > 3)
            assert_near(n, delay, 0);
    }
}
END_TEST

START_TEST(nan_counts_as_silence) {
    const float none[3] = {__builtin_nanf(""), __builtin_inff(), -__builtin_inff()};
    for (unsigned i = 0; i < 20; i++) {
        float mic[256] = {0};
        memcpy(mic, none, sizeof none);
        canceller_played(w.canceller, ++w.cycle, mic, 256);
        const float *out = canceller_process(w.canceller, w.cycle, mic, 256);
        w.end += 256;
        await(&aec.n_blocks, (unsigned)(w.end / CANCELLER_BLOCK));
        for (unsigned k = 0; k < 256; k++)
            ck_assert_float_eq(out[k], 0);
    }
}
END_TEST

/* In either sound: their power does not overflow. */
START_TEST(numbers_that_are_huge_are_clipped) {
    static float huge[512], silence[512];
    for (unsigned i = 0; i < 512; i++)
        huge[i] = i % 2 ? -1e19f : 1e38f;
    for (unsigned i = 0; i < 20; i++) {
        aec.loudest = 0;
        canceller_played(w.canceller, ++w.cycle, _i ? huge : silence, 512);
        canceller_process(w.canceller, w.cycle, _i ? silence : huge, 512);
        w.end += 512;
        await(&aec.n_blocks, (unsigned)(w.end / CANCELLER_BLOCK));
        ck_assert_float_eq(aec.loudest, 1000);
    }
}
END_TEST

/* A canceller that outputs NaN is reset: one block keeps its echo, at the same delay. */
START_TEST(a_canceller_that_outputs_nan_is_reset) {
    const unsigned n = CANCELLER_BLOCK, delay = n + CANCELLER_BLOCK + AEC_DELAY;
    for (unsigned i = 0; i < 400; i++) {
        if (i >= 20 && i % 20 == 0)
            aec.poisoned = true;
        cycle(n, MIC_FIRST);
        ck_assert(!aec.poisoned);
        for (unsigned k = 0; i > 3 && k < n; k++) {
            const uint64_t at = w.end - n + k - delay, block = (at + AEC_DELAY) / CANCELLER_BLOCK;
            const float echo = block >= 20 && block % 20 == 0 ? sound(at, 2) : 0;
            ck_assert_msg(w.out[k] == near(at) + echo, "position %ju: %g", (uintmax_t)at, (double)w.out[k]);
        }
    }
    ck_assert_uint_eq(n_poisoned, 19);
}
END_TEST

int main(void) {
    Suite *const suite = suite_create("canceller");
    TCase *const tcase = tcase_create("stage");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, the_echo_is_removed_and_the_near_end_has_the_reported_delay, 0,
                        sizeof quanta / sizeof *quanta);
    tcase_add_test(tcase, the_far_end_is_used_once);
    tcase_add_test(tcase, cancellation_resumes_with_playback);
    tcase_add_test(tcase, a_late_block_passes_the_microphone_at_the_same_delay);
    tcase_add_test(tcase, a_new_quantum_changes_the_delay_after_a_fade);
    tcase_add_test(tcase, a_restart_discards_earlier_samples);
    tcase_add_test(tcase, it_continues_after_a_long_delay);
    tcase_add_test(tcase, nan_counts_as_silence);
    tcase_add_loop_test(tcase, numbers_that_are_huge_are_clipped, 0, 2);
    tcase_add_test(tcase, a_canceller_that_outputs_nan_is_reset);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK);
}
