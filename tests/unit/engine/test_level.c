/* The automatic level alone, with speech probabilities and sounds made by the test. */
#include "engine/level.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, HOP = 256, N = 40 * RATE, FINE = 8, REACH = 32 };

static const float ceiling = .8913f; /* -1 dB */
static uint32_t seed, first_seed;
static struct level level;
static struct level_channel channels[2];

static float uniform(void) { /* [-1, 1) */
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 8388608 - 1;
}

static float db_of(double power) {
    return (float)(10 * log10(power + 1e-20));
}

static float power_db(const float *x, size_t n) {
    double power = 0;
    for (size_t i = 0; i < n; i++)
        power += (double)x[i] * x[i];
    return db_of(power / (double)n);
}

static float *get(void) {
    float *x = calloc(N, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

static void setup(void) {
    seed = first_seed;
    memset(channels, 0, sizeof channels);
    level_init(&level, RATE);
    level_control(&level, LEVEL_TARGET);
}

static bool is_pause(size_t i) {
    return i % (4 * RATE) >= 3 * RATE;
}

/* Alternates three seconds of syllables, with peaks 15 dB above their power, and one of noise 40 dB lower. */
static float *speech(float rms_db) {
    float *x = get();
    const float rms = powf(10, rms_db / 20);
    float low = 0;
    for (size_t i = 0; i < N; i++) {
        const float t = (float)i / RATE, pitch = 120 + 20 * sinf(3 * t);
        const float syllable = .5f - .5f * cosf(2 * (float)M_PI * 4 * t), phase = fmodf(pitch * t, 1);
        low += .3f * (uniform() - low);
        x[i] = rms * (is_pause(i) ? .01f * uniform() : syllable * (9 * expf(-25 * phase) * cosf(40 * phase) + low));
    }
    return x;
}

/* Processes x from one sample to another, in blocks of n, with the probability of speech that the test knows. */
static void run(float *x, size_t from, size_t to, unsigned n) {
    for (size_t i = from; i < to; i += n) {
        if (n > to - i)
            n = (unsigned)(to - i);
        channels[0].x = x + i;
        rt_guard_enter();
        level_process(&level, channels, 1, n, is_pause(i) ? .05f : .95f);
        rt_guard_leave();
    }
}

/* The loudness of speech in x by BS.1770-4: its table for 48 kHz. */
static float lufs(const float *x, size_t from, size_t to) {
    static const double b[2][3] = {{1.53512485958697, -2.69169618940638, 1.19839281085285}, {1, -2, 1}};
    static const double a[2][2] = {{-1.69065929318241, .73248077421585}, {-1.99004745483398, .99007225036621}};
    double s[2][2] = {{0}}, power = 0, n = 0;
    for (size_t i = 0; i < to; i++) {
        double y = x[i];
        for (int k = 0; k < 2; k++) {
            const double in = y;
            y = b[k][0] * in + s[k][0];
            s[k][0] = b[k][1] * in - a[k][0] * y + s[k][1];
            s[k][1] = b[k][2] * in - a[k][1] * y;
        }
        if (i >= from && !is_pause(i)) {
            power += y * y;
            n++;
        }
    }
    return db_of(power / n) - .691f;
}

/* The highest point of the signal through n samples, by a windowed sinc eight times as fine. */
static float true_peak(const float *x, size_t n) {
    static float taps[FINE][2 * REACH];
    for (int p = 0; p < FINE; p++)
        for (int k = 0; k < 2 * REACH; k++) {
            const double t = k - REACH + 1 - (double)p / FINE;
            taps[p][k] = (float)((t == 0 ? 1 : sin(M_PI * t) / (M_PI * t)) * (.5 + .5 * cos(M_PI * t / REACH)));
        }
    float most = 0;
    for (size_t i = REACH; i + REACH < n; i++) {
        if (fabsf(x[i]) < .4f)
            continue;
        for (int p = 0; p < FINE; p++) {
            float y = 0;
            for (int k = 0; k < 2 * REACH; k++)
                y += taps[p][k] * x[i + (size_t)k + 1 - REACH];
            most = fmaxf(most, fabsf(y));
        }
    }
    return most;
}

static const struct {
    unsigned rate;
    float target;
} sines[] = {{48000, -23}, {48000, -32}, {48000, -16}, {44100, -23}, {16000, -23}, {96000, -23}};

/* 997 Hz at full scale are -3.01 LUFS: BS.1770. */
START_TEST(loudness_is_that_of_the_standard) {
    float *x = get();
    for (size_t i = 0; i < N; i++)
        x[i] = .05f * (float)sin(2 * M_PI * 997 * (double)i / sines[_i].rate);
    level_init(&level, sines[_i].rate);
    level_control(&level, sines[_i].target);
    ck_assert(level_target(&level) == sines[_i].target);
    for (size_t i = 0; i < N; i += HOP) {
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, 1);
    }
    ck_assert_float_eq_tol(power_db(x + N - 16000, 16000), sines[_i].target, .1f); /* power is 3.01 dB below the peak */
    free(x);
}
END_TEST

static const struct {
    float rms_db, limited_db; /* the gain where it ends at a bound, or 0 */
} levels[] = {{-50, 18}, {-45, 18}, {-38, 0}, {-30, 0}, {-23, 0}, {-15, 0}, {-10, -12}};

START_TEST(speech_ends_at_the_target) {
    float *x = speech(levels[_i].rms_db), *before = get();
    memcpy(before, x, N * sizeof *x);
    run(x, 0, N, HOP);
    const float due = levels[_i].limited_db != 0 ? lufs(before, N / 2, N) + levels[_i].limited_db : LEVEL_TARGET;
    const float is = lufs(x, N / 2, N);
    printf("%.0f dBFS: %.1f LUFS before, %.1f after, due %.1f\n", levels[_i].rms_db, lufs(before, N / 2, N), is, due);
    ck_assert_float_eq_tol(is, due, 1);
    ck_assert_float_le(true_peak(x, N), ceiling);
    free(x);
    free(before);
}
END_TEST

/* The gain stays, however loud and long a pause is; the limiter's gain does not recover in it either. */
START_TEST(the_gain_holds_in_pauses) {
    float *x = speech(-40 + 15 * (float)_i), *before = get();
    for (size_t i = 3 * RATE - RATE / 10; _i == 2 && i < 3 * RATE; i++)
        x[i] *= 30;
    for (size_t i = 0; i < N; i++)
        if (is_pause(i))
            x[i] *= i / RATE / 4 % 2 ? 30 : 1;
    memcpy(before, x, N * sizeof *x);
    run(x, 0, N, HOP);
    for (size_t pause = 3 * RATE; pause < N; pause += 4 * RATE) {
        const size_t first = (pause + HOP) / HOP * HOP, last = pause + RATE - HOP;
        const float gain = x[first] / before[first];
        for (size_t i = first; i < last; i++)
            ck_assert_msg(x[i] <= 0 ? x[i] >= 1.0001f * gain * before[i] : x[i] <= 1.0001f * gain * before[i],
                          "sample %zu of %g is %g, gain %g", i, before[i], x[i], gain);
        ck_assert_float_eq_tol(power_db(x + last - 4800, 4800) - power_db(before + last - 4800, 4800),
                               20 * log10f(gain), .01f);
    }
    free(x);
    free(before);
}
END_TEST

static float *tone(float dbfs) {
    float *x = get();
    for (size_t i = 0; i < N; i++)
        x[i] = powf(10, (dbfs + 3.01f) / 20) * sinf(2 * (float)M_PI * 997 * (float)(i % RATE) / RATE);
    return x;
}

/* Processes x, all of it speech, up to a time, and returns the gain at its end. */
static float gain_after(float *x, float seconds) {
    const size_t n = (size_t)(seconds * RATE) / HOP * HOP;
    const float before_db = power_db(x + n - 960, 960);
    for (size_t i = 0; i < n; i += HOP) {
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, .6f);
    }
    return power_db(x + n - 960, 960) - before_db;
}

static const struct {
    float off_db, seconds, gain_db; /* a tone off the target, and the gain after this time */
} constants[] = {
    {-3.5f, 1, -2.21f},
    {3.5f, 3, 2.21f}, /* 63 % */
    {-7.5f, .3f, -4.14f},
    {10, 1.5f, 6.71f}, /* to 4 dB off with the short constant, from there with the long one */
};

START_TEST(attack_and_release_are_as_stated) {
    float *x = tone(LEVEL_TARGET - constants[_i].off_db);
    ck_assert_float_eq_tol(gain_after(x, .1f + constants[_i].seconds), constants[_i].gain_db, .2f);
    free(x);
}
END_TEST

/* A tone in place of one 20 dB quieter, after 0.1 s. */
START_TEST(sudden_loudness_is_reduced_at_once) {
    float *x = tone(LEVEL_TARGET - 10), *loud = tone(LEVEL_TARGET + 10);
    ck_assert_float_ge(gain_after(x, 20), 9.5f);
    ck_assert_float_le(10 + gain_after(loud, .1f), 8.5f);
    free(x);
    free(loud);
}
END_TEST

/* Two alternating voices, 20 dB apart, with 6 s of speech per turn. From the third turn on, checks the loudness of each
 * after 4.5 s of speech. */
START_TEST(alternating_talkers_reach_the_same_level) {
    enum { TURN = 8 * RATE };
    float *x = speech(-20);
    for (size_t i = 0; i < N; i++)
        x[i] *= i / TURN % 2 ? .1f : 1;
    run(x, 0, N, HOP);
    for (size_t turn = 2 * TURN; turn + TURN <= N; turn += TURN) {
        const bool loud = turn / TURN % 2 == 0;
        const float first = lufs(x, turn, turn + RATE), rest = lufs(x, turn + 6 * RATE, turn + TURN);
        printf("%s: %.1f LUFS in its first second, then %.1f\n", loud ? "loud" : "quiet", first, rest);
        ck_assert_float_eq_tol(rest, LEVEL_TARGET, loud ? 2 : 5);
        ck_assert_float_le(first, LEVEL_TARGET + 8);
    }
    ck_assert_float_le(true_peak(x, N), ceiling);
    free(x);
}
END_TEST

/* First sounds without content in the two octaves below half the rate, then noise of the whole band, measured at the
 * points that BS.1770 uses. */
START_TEST(no_true_peak_is_above_the_ceiling) {
    static const unsigned blocks[] = {256, 1, 7, 33, 480, 1000};
    float *x = get(), low[3] = {0};
    for (size_t i = 0; i < N / 4; i++) {
        const float burst = i / 5000 % 3 ? .1f : 8 * fabsf(sinf((float)(i / 5000)));
        low[0] += .3f * (burst * uniform() - low[0]);
        low[1] += .3f * (low[0] - low[1]);
        low[2] += .3f * (low[1] - low[2]);
        x[i] = 3 * low[2];
    }
    run(x, 0, N / 4, blocks[_i]);
    const float peak = true_peak(x, N / 4);
    printf("blocks of %u: %.2f dBTP\n", blocks[_i], 20 * log10f(peak));
    ck_assert_msg(peak <= ceiling, "seed %u: %g", first_seed, peak);
    ck_assert_float_ge(peak, .75f);
    free(x);
}
END_TEST

START_TEST(a_sharp_noise_is_limited) {
    float *x = get();
    for (size_t i = 0; i < N / 4; i++)
        x[i] = 3 * uniform() * (i / 9600 % 2 ? 1 : .1f);
    run(x, 0, N / 4, HOP);
    for (size_t i = 0; i < N / 4; i++)
        ck_assert_float_le(fabsf(x[i]), ceiling);
    /* the middle phase of annex 2 */
    static const float phase[] = {-.0291748f, .0292969f,  -.0517578f, .0891113f,  -.1665039f, .4650879f,
                                  .7797852f,  -.2003174f, .1015625f,  -.0582275f, .0330811f,  -.0189209f};
    for (size_t i = 0; i + 12 < N / 4; i++) {
        float there = 0, back = 0;
        for (size_t k = 0; k < 12; k++) {
            there += phase[k] * x[i + k];
            back += phase[11 - k] * x[i + k];
        }
        ck_assert_float_le(fmaxf(fabsf(there), fabsf(back)), ceiling);
    }
    free(x);
}
END_TEST

/* A steady tone above the ceiling: measures the limiter's distortion. */
START_TEST(the_limiter_hardly_distorts) {
    static const double hz[] = {100, 220, 997, 1000};
    float *x = get();
    for (size_t i = 0; i < N / 4; i++)
        x[i] = (float)sin(2 * M_PI * hz[_i] * (double)i / RATE);
    for (size_t i = 0; i < 2 * RATE; i += HOP) {
        level.n = 0; /* no block of speech is ever complete: the voice's gain stays */
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, 1);
    }
    double in_phase = 0, across = 0, power = 0;
    for (size_t i = RATE; i < 2 * RATE; i++) {
        in_phase += 2 * x[i] * sin(2 * M_PI * hz[_i] * (double)i / RATE) / RATE;
        across += 2 * x[i] * cos(2 * M_PI * hz[_i] * (double)i / RATE) / RATE;
        power += (double)x[i] * x[i] / RATE;
    }
    const double tone = (in_phase * in_phase + across * across) / 2;
    printf("%.0f Hz: THD+N %.1f dB\n", hz[_i], db_of(fabs(power - tone) / tone));
    ck_assert_double_lt(fabs(power - tone), 1e-6 * tone); /* -60 dB */
    free(x);
}
END_TEST

/* With the level off, or speech unknown, even sound above the ceiling. */
START_TEST(unlevelled_sound_passes_bit_for_bit) {
    float *x = speech(-10), *before = get();
    memcpy(before, x, N * sizeof *x);
    if (_i == 0)
        level_control(&level, NAN);
    for (size_t i = 0; i < N; i += HOP) {
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, _i == 0 ? 1 : NAN);
    }
    ck_assert_mem_eq(x, before, N * sizeof *x);
    free(x);
    free(before);
}
END_TEST

/* Bypass, or the level, off and on: the gain changes without a click, and then has its former value. */
START_TEST(the_gain_comes_back_after_a_bypass) {
    float *x = get();
    for (size_t i = 0; i < N; i++)
        x[i] = .01f * sinf(2 * (float)M_PI * 200 * (float)(i % RATE) / RATE);
    float most = 0, gain = 0;
    for (size_t i = 0; i < N / 2; i += HOP) {
        const bool bypassed = i >= N / 4 && i < N / 4 + RATE;
        if (_i)
            level_control(&level, bypassed ? NAN : LEVEL_TARGET);
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, bypassed && !_i ? NAN : .9f);
        if (i >= N / 4 - HOP && i < N / 4)
            gain = level.gain;
        if (i == N / 4 + (RATE / 20 + HOP) / HOP * HOP)
            ck_assert_float_eq(level.gain, 1);
        if (i == N / 4 + (RATE + RATE / 20 + HOP) / HOP * HOP)
            ck_assert_float_eq_tol(level.gain, gain, .02f * gain);
    }
    for (size_t i = 1; i < N / 2; i++)
        most = fmaxf(most, fabsf(x[i] - x[i - 1]));
    ck_assert_float_gt(gain, 5);
    ck_assert_float_le(most, .01f * gain * 2 * (float)M_PI * 200 / RATE * 1.1f);
    free(x);
}
END_TEST

/* A clipping microphone, during bypass and after it. */
START_TEST(a_bypass_ends_the_limiter) {
    float *x = get(), *before = get();
    for (size_t i = 0; i < N; i++)
        x[i] = before[i] = uniform() > 0 ? 1 : -1;
    for (size_t i = 0; i < 6 * RATE; i += HOP) {
        channels[0].x = x + i;
        level_process(&level, channels, 1, HOP, i / RATE % 4 < 2 ? 1 : NAN);
    }
    ck_assert_mem_eq(x + 7 * RATE / 2, before + 7 * RATE / 2, RATE / 2 / HOP * HOP * sizeof *x);
    ck_assert_float_ge(power_db(x + 6 * RATE - 4800, 4800), -30);
    free(x);
    free(before);
}
END_TEST

/* One channel of two is half as loud as the other and has no peaks: it stays half as loud. */
START_TEST(channels_share_the_gain) {
    float *x = speech(-12), *other = get(), *before = get();
    for (size_t i = 0; i < N; i++)
        other[i] = .1f * sinf((float)(i % RATE) * .05f);
    memcpy(before, x, N * sizeof *x);
    float *alone = get();
    memcpy(alone, other, N * sizeof *other);
    for (size_t i = 0; i < N; i += HOP) {
        channels[0].x = x + i;
        channels[1].x = other + i;
        level_process(&level, channels, 2, HOP, is_pause(i) ? 0 : 1);
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_float_eq_tol(x[i] * alone[i], other[i] * before[i], 1e-4f);
    ck_assert_float_eq_tol(db_of(pow(10, lufs(x, N / 2, N) / 10) + pow(10, lufs(other, N / 2, N) / 10)), LEVEL_TARGET,
                           1);
    free(x);
    free(other);
    free(before);
    free(alone);
}
END_TEST

START_TEST(any_split_gives_the_same_level) {
    float *x = speech(-35), *y = get();
    memcpy(y, x, N * sizeof *x);
    run(x, 0, N, HOP);
    memset(channels, 0, sizeof channels);
    level_restart(&level);
    run(y, 0, N, (unsigned[]){64, 100, 441}[_i]);
    for (size_t i = RATE; i + RATE < N; i += RATE)
        ck_assert_float_eq_tol(power_db(x + i, RATE), power_db(y + i, RATE), .2f);
    free(x);
    free(y);
}
END_TEST

/* Silence, even if classified as speech, and sound louder than any speech have no lasting effect. */
START_TEST(extreme_input_has_no_lasting_effect) {
    static const float odd[] = {0, 1e-40f, 1000};
    float *x = speech(-30), junk[HOP];
    for (size_t i = 0; i < 2 * RATE; i += HOP) {
        for (unsigned k = 0; k < HOP; k++)
            junk[k] = odd[_i];
        channels[0].x = junk;
        level_process(&level, channels, 1, HOP, 1);
    }
    run(x, 0, N, HOP);
    ck_assert_float_eq_tol(lufs(x, N / 2, N), LEVEL_TARGET, 1);
    free(x);
}
END_TEST

int main(void) {
    first_seed = seed_of_run(1);
    Suite *suite = suite_create("level");
    TCase *t = tcase_create("level");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, loudness_is_that_of_the_standard, 0, sizeof sines / sizeof *sines);
    tcase_add_loop_test(t, speech_ends_at_the_target, 0, sizeof levels / sizeof *levels);
    tcase_add_loop_test(t, the_gain_holds_in_pauses, 0, 3);
    tcase_add_loop_test(t, attack_and_release_are_as_stated, 0, sizeof constants / sizeof *constants);
    tcase_add_test(t, sudden_loudness_is_reduced_at_once);
    tcase_add_test(t, alternating_talkers_reach_the_same_level);
    tcase_add_loop_test(t, no_true_peak_is_above_the_ceiling, 0, 6);
    tcase_add_test(t, a_sharp_noise_is_limited);
    tcase_add_loop_test(t, the_limiter_hardly_distorts, 0, 4);
    tcase_add_loop_test(t, unlevelled_sound_passes_bit_for_bit, 0, 2);
    tcase_add_loop_test(t, the_gain_comes_back_after_a_bypass, 0, 2);
    tcase_add_test(t, a_bypass_ends_the_limiter);
    tcase_add_test(t, channels_share_the_gain);
    tcase_add_loop_test(t, any_split_gives_the_same_level, 0, 3);
    tcase_add_loop_test(t, extreme_input_has_no_lasting_effect, 0, 3);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
