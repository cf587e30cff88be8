/* The file tool as a user runs it: `primeknet enhance` and `primeknet bench` from the build tree, on files made here. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <sndfile.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char dir[] = "/tmp/primeknet-files-XXXXXX", out_text[4096], err_text[4096];

static const char *in_dir(const char *name) {
    static char paths[4][128];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static void slurp(const char *path, char *text, size_t size) {
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
}

/* Runs ./primeknet with the arguments up to NULL; its output ends up in out_text and err_text. Returns its exit status. */
static int run(const char *first, ...) {
    char *argv[16] = {"./primeknet", (char *)first};
    va_list args;
    va_start(args, first);
    for (int i = 2; (argv[i] = va_arg(args, char *)); i++)
        ck_assert_int_lt(i, 15);
    va_end(args);
    char out_path[128], err_path[128];
    snprintf(out_path, sizeof out_path, "%s/stdout", dir);
    snprintf(err_path, sizeof err_path, "%s/stderr", dir);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid;
    int status;
    ck_assert_int_eq(posix_spawn(&pid, argv[0], &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    slurp(out_path, out_text, sizeof out_text);
    slurp(err_path, err_text, sizeof err_text);
    ck_assert_msg(WIFEXITED(status), "killed by signal %d: %s", WTERMSIG(status), err_text);
    return WEXITSTATUS(status);
}

/* Noise under a swelling tone, another frequency in each channel. */
static float *make_sound(size_t n, int channels, int rate, float peak) {
    float *x = malloc(n * channels * sizeof *x);
    uint32_t r = 1;
    for (size_t i = 0; i < n * channels; i++) {
        r = r * 1664525u + 1013904223u;
        float noise = (r >> 8) / 8388608.f - 1, t = (float)(i / channels) / rate;
        x[i] = peak * (.9f * sinf(6.2832f * 300 * (1 + i % channels) * t) * (.5f + .5f * sinf(6 * t)) + .1f * noise);
    }
    return x;
}

static void write_sound(const char *path, int format, const float *x, size_t n, int channels, int rate) {
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    ck_assert_msg(f != NULL, "%s: %s", path, sf_strerror(NULL));
    ck_assert_int_eq(sf_writef_float(f, x, n), n);
    sf_close(f);
}

static float *read_sound(const char *path, SF_INFO *info) {
    *info = (SF_INFO){0};
    SNDFILE *f = sf_open(path, SFM_READ, info);
    ck_assert_msg(f != NULL, "%s: %s", path, sf_strerror(NULL));
    float *x = malloc((info->frames * info->channels + 1) * sizeof *x);
    ck_assert_int_eq(sf_readf_float(f, x, info->frames), info->frames);
    sf_close(f);
    return x;
}

static double difference_db(const float *a, const float *b, size_t n) {
    double error = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (double)(a[i] - b[i]);
        power += b[i] * (double)b[i];
    }
    return 10 * log10((error + 1e-30) / power);
}

static const struct {
    int rate, channels;
    size_t n;
    int format;
    const char *name;
    double error_db; /* of strength 0 against the input: rounding at the model's rate, the resampler's edge at others */
} kinds[] = {
    {48000, 1, 48000, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "a.wav", -110},
    {48000, 2, 1, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "b.wav", -100},
    {48000, 1, 255, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "c.wav", -110},
    {48000, 3, 20011, SF_FORMAT_WAV | SF_FORMAT_PCM_24, "d.wav", -100},
    {44100, 2, 44100, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "e.wav", -28},
    {16000, 1, 16000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "f.flac", -18},
    {8000, 1, 4000, SF_FORMAT_WAV | SF_FORMAT_ULAW, "g.wav", -15},
    {96000, 1, 48000, SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "h.aiff", -15},
};

START_TEST(length_rate_and_place_are_kept) {
    size_t n = kinds[_i].n;
    int channels = kinds[_i].channels, rate = kinds[_i].rate;
    float *x = make_sound(n, channels, rate, .5f);
    char in[128], out[128];
    snprintf(in, sizeof in, "%s/in-%s", dir, kinds[_i].name);
    snprintf(out, sizeof out, "%s/out-%s", dir, kinds[_i].name);
    write_sound(in, kinds[_i].format, x, n, channels, rate);
    free(x);
    SF_INFO info, before;
    x = read_sound(in, &before);
    ck_assert_int_eq(run("enhance", in, out, "--model", "small", "--strength", "0", NULL), 0);
    ck_assert_str_eq(err_text, "");
    float *y = read_sound(out, &info);
    ck_assert_int_eq(info.frames, n);
    ck_assert_int_eq(info.samplerate, rate);
    ck_assert_int_eq(info.channels, channels);
    ck_assert_int_eq(info.format, before.format);
    double db = difference_db(y, x, n * channels);
    ck_assert_msg(db < kinds[_i].error_db, "%s: %.1f dB", kinds[_i].name, db);
    free(x);
    free(y);
}
END_TEST

START_TEST(full_strength_differs_and_a_floor_holds) {
    size_t n = 48000;
    float *x = make_sound(n, 1, 48000, .5f);
    write_sound(in_dir("x.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 1, 48000);
    SF_INFO info;
    ck_assert_int_eq(run("enhance", in_dir("x.wav"), in_dir("y.wav"), "--model", "small", NULL), 0);
    float *y = read_sound(in_dir("y.wav"), &info);
    ck_assert_double_gt(difference_db(y, x, n), -40);
    free(y);
    /* In place, and with all gains at 1 or above only phases and boosts differ: nothing is lost. */
    ck_assert_int_eq(run("enhance", in_dir("x.wav"), in_dir("x.wav"), "--model", "small", "--floor-db", "0", NULL), 0);
    y = read_sound(in_dir("x.wav"), &info);
    double before = 0, after = 0;
    for (size_t i = 0; i < n; i++) {
        before += x[i] * x[i];
        after += y[i] * y[i];
    }
    ck_assert_double_gt(after, .5 * before);
    free(x);
    free(y);
}
END_TEST

START_TEST(channels_are_enhanced_each_alone) {
    size_t n = 30000;
    float *two = make_sound(n, 2, 48000, .5f), *one = malloc(n * sizeof *one);
    for (size_t i = 0; i < n; i++)
        one[i] = two[2 * i + 1];
    write_sound(in_dir("two.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, two, n, 2, 48000);
    write_sound(in_dir("one.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, one, n, 1, 48000);
    ck_assert_int_eq(run("enhance", in_dir("two.wav"), in_dir("two-out.wav"), "--model", "small", NULL), 0);
    ck_assert_int_eq(run("enhance", in_dir("one.wav"), in_dir("one-out.wav"), "--model", "small", NULL), 0);
    SF_INFO info;
    float *a = read_sound(in_dir("two-out.wav"), &info), *b = read_sound(in_dir("one-out.wav"), &info);
    for (size_t i = 0; i < n; i++)
        one[i] = a[2 * i + 1];
    ck_assert_double_lt(difference_db(one, b, n), -110);
    free(two);
    free(one);
    free(a);
    free(b);
}
END_TEST

START_TEST(too_loud_input_is_limited) {
    size_t n = 48000;
    float *x = make_sound(n, 1, 48000, 6);
    write_sound(in_dir("loud.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 1, 48000);
    ck_assert_int_eq(run("enhance", in_dir("loud.wav"), in_dir("limited.wav"), "--model", "small", "--strength", "0", NULL), 0);
    SF_INFO info;
    float *y = read_sound(in_dir("limited.wav"), &info);
    for (size_t i = 0; i < n; i++)
        ck_assert_float_le(fabsf(y[i]), 1);
    free(x);
    free(y);
}
END_TEST

/* One line on stderr that holds both words; no output file and no leftovers. */
static void ck_refused(int status, int expected, const char *word, const char *second) {
    ck_assert_msg(status == expected, "status %d: %s", status, err_text);
    ck_assert_msg(strstr(err_text, word) && strstr(err_text, second), "'%s', '%s' not in: %s", word, second, err_text);
    ck_assert_int_eq(access(in_dir("refused.wav"), F_OK), -1);
}

static void ck_one_line(void) {
    ck_assert_ptr_eq(strchr(err_text, '\n') + 1, err_text + strlen(err_text));
}

START_TEST(garbage_is_refused_by_name) {
    const char *out = in_dir("refused.wav");
    char name[128];
    ck_refused(run("enhance", "/nonexistent/in.wav", out, NULL), 1, "/nonexistent/in.wav", "No such file");
    ck_one_line();

    snprintf(name, sizeof name, "%s/text.wav", dir);
    FILE *f = fopen(name, "w");
    fputs("this is no sound", f);
    fclose(f);
    ck_refused(run("enhance", name, out, NULL), 1, "text.wav", "ormat");
    ck_one_line();

    float none = 0, bad[600] = {0};
    write_sound(in_dir("empty.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, &none, 0, 1, 48000);
    ck_refused(run("enhance", in_dir("empty.wav"), out, NULL), 1, "empty.wav", "no sound");
    ck_one_line();

    bad[2 * 123 + 1] = NAN;
    write_sound(in_dir("nan.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, bad, 300, 2, 48000);
    ck_refused(run("enhance", in_dir("nan.wav"), out, NULL), 1, "nan.wav: frame 123, channel 2", "not a number");
    ck_one_line();

    bad[2 * 123 + 1] = .1f;
    write_sound(in_dir("good.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, bad, 300, 2, 48000);
    ck_refused(run("enhance", in_dir("good.wav"), out, "--model", "enormous", NULL), 1, "enormous", "");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), out, "--model", in_dir("text.wav"), NULL), 1, "text.wav", "");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), out, "--engine", "steam", NULL), 1, "steam", "");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), in_dir("out.xyz"), NULL), 1, "out.xyz", "ending");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), "/nonexistent/out.wav", NULL), 1, "/nonexistent/out.wav", "No such file");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), dir, NULL), 1, dir, "regular");
    ck_one_line();

    ck_refused(run("enhance", in_dir("good.wav"), NULL), 2, "Usage", "");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--strength", "1.5", NULL), 2, "--strength", "1.5");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--strength", "nan", NULL), 2, "--strength", "nan");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--floor-db", "6", NULL), 2, "--floor-db", "6");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--colour", "red", NULL), 2, "colour", "");
    ck_refused(run("polish", NULL), 2, "polish", "");
}
END_TEST

START_TEST(a_failed_write_keeps_the_old_file) {
    float x[600] = {0};
    write_sound(in_dir("old.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 300, 2, 48000);
    x[10] = NAN;
    write_sound(in_dir("broken.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 300, 2, 48000);
    ck_assert_int_eq(run("enhance", in_dir("broken.wav"), in_dir("old.wav"), NULL), 1);
    SF_INFO info;
    float *y = read_sound(in_dir("old.wav"), &info);
    ck_assert_int_eq(info.frames, 300);
    free(y);
}
END_TEST

START_TEST(bench_prints_json) {
    ck_assert_int_eq(run("bench", "--engine", "cpu", "--model", "small", "--json", NULL), 0);
    json_error_t error;
    json_t *j = json_loads(out_text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(j != NULL, "%s: %s", error.text, out_text);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(j, "engine")), "cpu"));
    ck_assert_str_eq(json_string_value(json_object_get(j, "model")), "small");
    ck_assert_int_gt(json_integer_value(json_object_get(j, "hops")), 1000);
    double last = 0;
    for (const char *const *key = (const char *[]){"p50_us", "p99_us", "p999_us", "max_us", NULL}; *key; key++) {
        double value = json_real_value(json_object_get(j, *key));
        ck_assert_msg(value >= last && value > 0, "%s: %g", *key, value);
        last = value;
    }
    ck_assert_double_gt(json_real_value(json_object_get(j, "rtf")), 0);
    ck_assert_double_gt(json_real_value(json_object_get(j, "rss_mib")), 1);
    json_decref(j);
}
END_TEST

int main(void) {
    if (!mkdtemp(dir))
        return 99;
    Suite *s = suite_create("files");
    TCase *t = tcase_create("files");
    tcase_add_loop_test(t, length_rate_and_place_are_kept, 0, sizeof kinds / sizeof *kinds);
    tcase_add_test(t, full_strength_differs_and_a_floor_holds);
    tcase_add_test(t, channels_are_enhanced_each_alone);
    tcase_add_test(t, too_loud_input_is_limited);
    tcase_add_test(t, garbage_is_refused_by_name);
    tcase_add_test(t, a_failed_write_keeps_the_old_file);
    tcase_add_test(t, bench_prints_json);
    tcase_set_timeout(t, 600);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) || failed;
}
