/* The file tool as a user runs it: the file commands and `primeknet bench` from the build tree, on files that the test
 * makes. */
#include "config.h"
#include "tests/support/content.h"
#include "tests/support/open_file.h"
#include "tests/support/run.h"

#include <FLAC/metadata.h>
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sndfile.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char dir[] = "/tmp/primeknet-files-XXXXXX", out_text[4096], err_text[4096];

static const char *in_dir(const char *name) {
    static char paths[8][128];
    static int next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

static void slurp(const char *path, char *text, size_t size) {
    const char *all = content(path);
    ck_assert_uint_lt(strlen(all), size);
    strcpy(text, all);
}

/* Runs ./primeknet with arguments up to NULL; its output goes to out_text and err_text. Returns its exit status. */
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

/* Noise under a swelling tone, with another frequency in each channel. */
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

/* Options that leave the sound unchanged. */
#define AS_IT_IS "--strength", "0", "--low-cut", "0"

static const struct {
    int rate, channels;
    size_t n;
    int format;
    const char *name;
    double error_db; /* at strength 0 against the input: rounding at the model's rate, the resampler's edge at other
                      * rates */
} kinds[] = {
    {48000, 1, 48000, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "a.wav", -110},
    {48000, 2, 1, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "b.wav", -100},
    {48000, 1, 255, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "c.wav", -110},
    {48000, 3, 20011, SF_FORMAT_WAV | SF_FORMAT_PCM_24, "d.wav", -100},
    {44100, 2, 44100, SF_FORMAT_WAV | SF_FORMAT_FLOAT, "e.wav", -35},
    {16000, 1, 16000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "f.flac", -35},
    {8000, 1, 4000, SF_FORMAT_WAV | SF_FORMAT_ULAW, "g.wav", -38},
    {96000, 1, 48000, SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "h.aiff", -21},
    {48000, 2, 20000, SF_FORMAT_WAV | SF_FORMAT_PCM_16, "i.wav", -200},
    {48000, 1, 20000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "j.flac", -200},
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
    ck_assert_int_eq(run("enhance", in, out, "--model", "small", AS_IT_IS, NULL), 0);
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

/* Common formats in and out. Samples of a coded format that the output cannot hold become 16 bits. */
START_TEST(the_name_determines_the_kind_of_file) {
    static const struct {
        const char *out;
        int format;
    } names[] = {
        {"from.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},          {"from.FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
        {"from.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},        {"from.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
        {"from.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}, {"from.opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
        {"from.aifc", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},        {"from.wave", SF_FORMAT_WAV | SF_FORMAT_PCM_16},
        {"from.bwf", SF_FORMAT_WAV | SF_FORMAT_PCM_16},          {"from.snd", SF_FORMAT_AU | SF_FORMAT_PCM_16},
    };
    size_t n = 30000;
    float *x = make_sound(n, 1, 48000, .5f);
    write_sound(in_dir("coded.mp3"), SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, x, n, 1, 48000);
    free(x);
    SF_INFO coded, info;
    x = read_sound(in_dir("coded.mp3"), &coded);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char out[128];
        snprintf(out, sizeof out, "%s/%s", dir, names[i].out);
        ck_assert_msg(run("enhance", in_dir("coded.mp3"), out, "--model", "small", AS_IT_IS, NULL) == 0, "%s",
                      err_text);
        float *y = read_sound(out, &info);
        ck_assert_msg((info.format & (SF_FORMAT_TYPEMASK | SF_FORMAT_SUBMASK)) == names[i].format, "%s: %#x",
                      names[i].out, info.format);
        ck_assert_int_eq(info.samplerate, 48000);
        ck_assert_int_ge(info.frames, coded.frames);
        if ((names[i].format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16) {
            ck_assert_int_eq(info.frames, coded.frames);
            ck_assert_double_lt(difference_db(y, x, coded.frames), -80);
        }
        free(y);
    }
    free(x);
}
END_TEST

START_TEST(full_strength_changes_the_sound_and_floor_0_loses_nothing) {
    size_t n = 48000;
    float *x = make_sound(n, 1, 48000, .5f);
    write_sound(in_dir("x.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 1, 48000);
    SF_INFO info;
    ck_assert_int_eq(run("enhance", in_dir("x.wav"), in_dir("y.wav"), "--model", "small", NULL), 0);
    float *y = read_sound(in_dir("y.wav"), &info);
    ck_assert_double_gt(difference_db(y, x, n), -40);
    free(y);
    /* In place, and with all gains at 1 or above only phases and boosts differ: nothing is lost. */
    ck_assert_int_eq(run("enhance", in_dir("x.wav"), in_dir("x.wav"), "--model", "small", "--floor", "0", NULL), 0);
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

/* Hum in the left channel, a voice's pitch in the right one. */
START_TEST(a_low_cut_removes_hum) {
    static const struct {
        const char *hz;
        double left_least_db, left_most_db, right_least_db;
    } cuts[] = {{NULL, -14, -11, -1}, {"0", -.01, .01, -.01}, {"300", -80, -35, -80}};
    const size_t n = 48000;
    float *x = malloc(2 * n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 2; c++)
            x[2 * i + c] = .3f * sinf(2 * (float)M_PI * (c ? 120 : 50) * (float)i / 48000);
    write_sound(in_dir("hum.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 2, 48000);
    for (unsigned i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        SF_INFO info;
        const char *option = cuts[i].hz ? "--low-cut" : NULL;
        ck_assert_int_eq(run("enhance", in_dir("hum.wav"), in_dir("cut.wav"), "--model", "small", "--strength", "0",
                             option, cuts[i].hz, NULL),
                         0);
        float *y = read_sound(in_dir("cut.wav"), &info);
        double power[2] = {0}, before = 0;
        for (size_t k = n / 4; k < n * 3 / 4; k++) {
            before += .3 * .3 / 2;
            for (int c = 0; c < 2; c++)
                power[c] += y[2 * k + c] * y[2 * k + c];
        }
        const double left_db = 10 * log10(power[0] / before), right_db = 10 * log10(power[1] / before);
        ck_assert_msg(left_db >= cuts[i].left_least_db && left_db <= cuts[i].left_most_db &&
                          right_db >= cuts[i].right_least_db,
                      "%s: %.2f and %.2f dB", cuts[i].hz ? cuts[i].hz : "default", left_db, right_db);
        free(y);
    }
    free(x);
}
END_TEST

/* Of three channels fewer frames are read at once than of one, and resampled. */
static const struct layout { int channels, rate; } layouts[] = {{2, 48000}, {3, 16000}};

START_TEST(channels_are_enhanced_independently) {
    const int channels = layouts[_i].channels, rate = layouts[_i].rate;
    size_t n = 80000;
    float *all = make_sound(n, channels, rate, .5f), *one = malloc(n * sizeof *one);
    for (size_t i = 0; i < n; i++)
        one[i] = all[channels * i + 1];
    write_sound(in_dir("all.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, all, n, channels, rate);
    write_sound(in_dir("one.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, one, n, 1, rate);
    ck_assert_int_eq(run("enhance", in_dir("all.wav"), in_dir("all-out.wav"), "--model", "small", NULL), 0);
    ck_assert_int_eq(run("enhance", in_dir("one.wav"), in_dir("one-out.wav"), "--model", "small", NULL), 0);
    SF_INFO info;
    float *a = read_sound(in_dir("all-out.wav"), &info), *b = read_sound(in_dir("one-out.wav"), &info);
    for (size_t i = 0; i < n; i++)
        one[i] = a[channels * i + 1];
    ck_assert_double_lt(difference_db(one, b, n), -110);
    free(all);
    free(one);
    free(a);
    free(b);
}
END_TEST

START_TEST(too_loud_input_is_limited) {
    size_t n = 48000;
    float *x = make_sound(n, 1, 48000, 6);
    write_sound(in_dir("loud.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 1, 48000);
    ck_assert_int_eq(run("enhance", in_dir("loud.wav"), in_dir("limited.wav"), "--model", "small", AS_IT_IS, NULL), 0);
    SF_INFO info;
    float *y = read_sound(in_dir("limited.wav"), &info);
    for (size_t i = 0; i < n; i++)
        ck_assert_float_le(fabsf(y[i]), 1);
    free(x);
    free(y);
}
END_TEST

/* Expects one line with both words on stderr, no output file and no leftovers. */
static void ck_refused(int status, int expected, const char *word, const char *second) {
    ck_assert_msg(status == expected, "status %d: %s", status, err_text);
    ck_assert_msg(strstr(err_text, word) && strstr(err_text, second), "'%s', '%s' not in: %s", word, second, err_text);
    ck_assert_int_eq(access(in_dir("refused.wav"), F_OK), -1);
}

static void ck_one_line(void) {
    ck_assert_ptr_eq(strchr(err_text, '\n') + 1, err_text + strlen(err_text));
}

START_TEST(unusable_inputs_are_refused_by_name) {
    const char *out = in_dir("refused.wav");
    char name[128];
    ck_refused(run("enhance", "/nonexistent/in.wav", out, NULL), 1, "primeknet: /nonexistent/in.wav: No such file", "");
    ck_one_line();

    snprintf(name, sizeof name, "%s/text.wav", dir);
    put_content(name, "this is no sound");
    ck_refused(run("enhance", name, out, NULL), 1, "text.wav", "is not a sound file in a format that libsndfile reads");
    ck_one_line();
    ck_refused(run("enhance", dir, out, NULL), 1, dir, "is a folder");
    ck_one_line();

    put_content(in_dir("none.wav"), "");
    ck_refused(run("enhance", in_dir("none.wav"), out, NULL), 1, "none.wav", "is empty");
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
    write_sound(in_dir("slow.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, bad, 300, 2, 100);
    ck_refused(run("enhance", in_dir("slow.wav"), out, NULL), 1, "slow.wav", "100 Hz cannot be resampled");
    ck_one_line();
}
END_TEST

START_TEST(unusable_models_and_outputs_are_refused_by_name) {
    const char *out = in_dir("refused.wav");
    const float x[600] = {0};
    put_content(in_dir("text.wav"), "this is no sound");
    write_sound(in_dir("good.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 300, 2, 48000);
    ck_refused(run("enhance", in_dir("good.wav"), out, "--model", "enormous", NULL), 1, "enormous", "");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), out, "--model", in_dir("text.wav"), NULL), 1, "text.wav", "");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), out, "--engine", "steam", NULL), 2, "steam", "auto, cuda or cpu");
    ck_refused(run("enhance", in_dir("good.wav"), in_dir("out.xyz"), NULL), 1, "out.xyz",
               ".xyz is not the extension of a sound file");
    ck_one_line();
    ck_assert_ptr_nonnull(strstr(err_text, " .wav .flac .mp3 .ogg "));
    ck_refused(run("enhance", in_dir("good.wav"), in_dir("out"), NULL), 1, "/out: has no extension", " .wav .flac ");
    ck_one_line();
    write_sound(in_dir("three.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 200, 3, 48000);
    ck_refused(run("enhance", in_dir("three.wav"), in_dir("out.mp3"), NULL), 1, "out.mp3",
               "cannot hold 3 channels at 48000 Hz");
    ck_one_line();
    ck_assert_ptr_null(strstr(strstr(err_text, "choose one of"), ".mp3"));
    write_sound(in_dir("fast.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 300, 2, 96000);
    ck_refused(run("enhance", in_dir("fast.wav"), in_dir("out.opus"), NULL), 1, "out.opus",
               "cannot hold 2 channels at 96000 Hz");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), "/nonexistent/out.wav", NULL), 1, "/nonexistent/out.wav",
               "No such file");
    ck_one_line();
    ck_refused(run("enhance", in_dir("good.wav"), dir, NULL), 1, dir, "is a folder");
    ck_one_line();
}
END_TEST

START_TEST(bad_usage_is_refused) {
    const char *out = in_dir("refused.wav");
    ck_refused(run("enhance", in_dir("good.wav"), NULL), 2, "OUT is missing", "Usage");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--strength", "1.5", NULL), 2, "--strength", "1.5");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--strength", "nan", NULL), 2, "--strength", "nan");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--floor", "6", NULL), 2, "--floor", "6");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--low-cut", "301", NULL), 2, "--low-cut", "301");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--low-cut", "nan", NULL), 2, "--low-cut", "nan");
    ck_refused(run("enhance", in_dir("good.wav"), out, "--level", "-13", NULL), 2, "--level", "-13");
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

/* Counts files in the directory whose names begin like this, hidden ones included. */
static unsigned n_called(const char *beginning) {
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    unsigned n = 0;
    for (struct dirent *entry; (entry = readdir(d));)
        n += strncmp(entry->d_name, beginning, strlen(beginning)) == 0 ||
             (entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0);
    closedir(d);
    return n;
}

START_TEST(an_interrupt_leaves_nothing_behind) {
    const size_t n = 600 * 48000;
    float *x = calloc(n, sizeof *x);
    ck_assert_ptr_nonnull(x);
    x[0] = .5f;
    write_sound(in_dir("long.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, n, 1, 48000);
    free(x);
    char *argv[] = {"./primeknet",
                    "enhance",
                    (char *)in_dir("long.wav"),
                    (char *)in_dir("stopped.wav"),
                    "--model",
                    "large",
                    "--engine",
                    "cpu",
                    NULL};
    pid_t pid;
    int status;
    ck_assert_int_eq(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    await_open(pid, dir, NULL);
    ck_assert_int_eq(kill(pid, SIGINT), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    ck_assert_uint_eq(n_called("stopped.wav"), 0);
}
END_TEST

/* ---- tags, links, files that are cut short ----------------------------------------------------------------------- */

static void copy_head(const char *from, const char *to, double share) {
    FILE *f = fopen(from, "r"), *g = fopen(to, "w");
    ck_assert(f && g);
    fseek(f, 0, SEEK_END);
    const size_t n = (size_t)(share * ftell(f));
    char *data = malloc(n);
    rewind(f);
    ck_assert_uint_eq(fread(data, 1, n, f), n);
    ck_assert_uint_eq(fwrite(data, 1, n, g), n);
    free(data);
    fclose(f);
    fclose(g);
}

static const struct {
    const char *name;
    int format;
    bool lossy;
} tagged[] = {
    {"wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, false},   {"flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, false},
    {"ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, true},    {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, true},
    {"aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, false}, {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, true},
};

static SNDFILE *open_sound(const char *path) {
    SF_INFO info = {0};
    SNDFILE *f = sf_open(path, SFM_READ, &info);
    ck_assert_msg(f != NULL, "%s: %s", path, sf_strerror(NULL));
    return f;
}

START_TEST(tags_are_kept) {
    char in[128], out[128], as_wav[128];
    snprintf(in, sizeof in, "%s/tagged.%s", dir, tagged[_i].name);
    snprintf(out, sizeof out, "%s/tagged-out.%s", dir, tagged[_i].name);
    snprintf(as_wav, sizeof as_wav, "%s/tagged-out.w.wav", dir);
    SF_INFO info = {.samplerate = 48000, .channels = 1, .format = tagged[_i].format};
    float *x = make_sound(20000, 1, 48000, .5f);
    SNDFILE *f = sf_open(in, SFM_WRITE, &info);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(sf_set_string(f, SF_STR_TITLE, "A walk by the Rhône"), 0);
    ck_assert_int_eq(sf_set_string(f, SF_STR_ARTIST, "Ann Onym"), 0);
    sf_set_string(f, SF_STR_COMMENT, "windy");
    char picture[] = "id3 with a picture";
    const SF_CHUNK_INFO chunk = {.id = "id3 ", .id_size = 4, .datalen = sizeof picture, .data = picture};
    if (_i == 0)
        ck_assert_int_eq(sf_set_chunk(f, &chunk), 0);
    ck_assert_int_eq(sf_writef_float(f, x, 20000), 20000);
    sf_close(f);
    free(x);
    for (int i = 0; i < 2; i++) {
        const char *path = i ? as_wav : out;
        ck_assert_msg(run("enhance", in, path, "--model", "small", NULL) == 0, "%s", err_text);
        ck_assert_str_eq(err_text, "");
        f = open_sound(path);
        ck_assert_str_eq(sf_get_string(f, SF_STR_TITLE), "A walk by the Rhône");
        ck_assert_str_eq(sf_get_string(f, SF_STR_ARTIST), "Ann Onym");
        ck_assert_str_eq(sf_get_string(f, SF_STR_COMMENT), "windy");
        SF_CHUNK_INFO got = {.id = "id3 ", .id_size = 4};
        SF_CHUNK_ITERATOR *at = sf_get_chunk_iterator(f, &got);
        ck_assert_int_eq(at != NULL, _i == 0);
        if (at) {
            char data[64];
            ck_assert(sf_get_chunk_size(at, &got) == 0 && got.datalen < sizeof data);
            got.data = data;
            ck_assert_int_eq(sf_get_chunk_data(at, &got), 0);
            ck_assert_int_eq(memcmp(data, picture, sizeof picture), 0);
        }
        sf_close(f);
    }
}
END_TEST

/* Blocks of these types in a FLAC file, and the bytes of the last. */
static unsigned flac_blocks(const char *path, FLAC__MetadataType type, char *ret, size_t size) {
    FLAC__Metadata_SimpleIterator *i = FLAC__metadata_simple_iterator_new();
    unsigned n = 0;
    ck_assert(FLAC__metadata_simple_iterator_init(i, path, true, false));
    do
        if (FLAC__metadata_simple_iterator_get_block_type(i) == type) {
            FLAC__StreamMetadata *block = FLAC__metadata_simple_iterator_get_block(i);
            if (type == FLAC__METADATA_TYPE_PICTURE)
                snprintf(ret, size, "%.*s", (int)block->data.picture.data_length, (char *)block->data.picture.data);
            else
                snprintf(ret, size, "%s", (char *)block->data.vorbis_comment.comments[0].entry);
            FLAC__metadata_object_delete(block);
            n++;
        }
    while (FLAC__metadata_simple_iterator_next(i));
    FLAC__metadata_simple_iterator_delete(i);
    return n;
}

START_TEST(flac_keeps_its_pictures_and_every_comment) {
    char picture[] = "looks like a cover", text[64];
    float *x = make_sound(20000, 2, 44100, .5f);
    write_sound(in_dir("cover.flac"), SF_FORMAT_FLAC | SF_FORMAT_PCM_16, x, 20000, 2, 44100);
    FLAC__Metadata_Chain *chain = FLAC__metadata_chain_new();
    FLAC__Metadata_Iterator *i = FLAC__metadata_iterator_new();
    ck_assert(FLAC__metadata_chain_read(chain, in_dir("cover.flac")));
    FLAC__metadata_iterator_init(i, chain);
    while (FLAC__metadata_iterator_next(i))
        FLAC__metadata_iterator_delete_block(i, false);
    FLAC__StreamMetadata *comment = FLAC__metadata_object_new(FLAC__METADATA_TYPE_VORBIS_COMMENT);
    FLAC__StreamMetadata_VorbisComment_Entry entry = {.entry = (FLAC__byte *)"MICROPHONE=a ribbon", .length = 19};
    ck_assert(FLAC__metadata_object_vorbiscomment_append_comment(comment, entry, true));
    ck_assert(FLAC__metadata_iterator_insert_block_after(i, comment));
    FLAC__StreamMetadata *block = FLAC__metadata_object_new(FLAC__METADATA_TYPE_PICTURE);
    ck_assert(FLAC__metadata_object_picture_set_data(block, (FLAC__byte *)picture, strlen(picture), true));
    ck_assert(FLAC__metadata_iterator_insert_block_after(i, block));
    FLAC__metadata_iterator_delete(i);
    ck_assert(FLAC__metadata_chain_write(chain, true, false));
    FLAC__metadata_chain_delete(chain);
    ck_assert_msg(run("enhance", in_dir("cover.flac"), in_dir("cover-out.flac"), "--model", "small", AS_IT_IS, NULL) ==
                      0,
                  "%s", err_text);
    ck_assert_uint_eq(flac_blocks(in_dir("cover-out.flac"), FLAC__METADATA_TYPE_PICTURE, text, sizeof text), 1);
    ck_assert_str_eq(text, picture);
    ck_assert_uint_eq(flac_blocks(in_dir("cover-out.flac"), FLAC__METADATA_TYPE_VORBIS_COMMENT, text, sizeof text), 1);
    ck_assert_str_eq(text, "MICROPHONE=a ribbon");
    SF_INFO info;
    float *y = read_sound(in_dir("cover-out.flac"), &info);
    ck_assert_int_eq(info.frames, 20000);
    ck_assert_double_lt(difference_db(y, x, 40000), -35);
    free(x);
    free(y);
}
END_TEST

/* A tag longer than libsndfile's, a shorter one, and one that is cut off by the end of the file. */
START_TEST(mp3_keeps_its_tag_byte_for_byte) {
    static char tag[3000], got[3000], rest[300000];
    float *x = make_sound(30000, 1, 48000, .5f);
    write_sound(in_dir("bare.mp3"), SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, x, 30000, 1, 48000);
    free(x);
    FILE *f = fopen(in_dir("bare.mp3"), "r");
    const size_t n = fread(rest, 1, sizeof rest, f);
    fclose(f);
    const size_t sizes[] = {20, 3000, 3000};
    for (int i = 0; i < 3; i++) {
        memset(tag, 0, sizeof tag); /* padding, as it follows the last frame of a tag */
        memcpy(tag, "ID3\3\0\0", 6);
        const size_t size = i == 2 ? 1 << 20 : sizes[i] - 10;
        for (int k = 0; k < 4; k++)
            tag[6 + k] = size >> (21 - 7 * k) & 0x7f;
        if (i == 1)
            memcpy(tag + 10,
                   "APIC\0\0\0\x16\0\0"
                   "\0image/png\0\3\0"
                   "a picture",
                   32);
        f = fopen(in_dir("tag.mp3"), "w");
        fwrite(tag, 1, sizes[i], f);
        fwrite(rest, 1, n, f);
        fclose(f);
        if (i == 2) {
            ck_assert_int_eq(run("enhance", in_dir("tag.mp3"), in_dir("no.mp3"), "--model", "small", NULL), 1);
            continue;
        }
        ck_assert_msg(run("enhance", in_dir("tag.mp3"), in_dir("tag-out.mp3"), "--model", "small", NULL) == 0, "%s",
                      err_text);
        f = fopen(in_dir("tag-out.mp3"), "r");
        ck_assert_uint_eq(fread(got, 1, sizes[i], f), sizes[i]);
        fclose(f);
        ck_assert_int_eq(memcmp(got, tag, sizes[i]), 0);
        SF_INFO info;
        free(read_sound(in_dir("tag-out.mp3"), &info));
        ck_assert_int_eq(info.frames, 30000);
    }
}
END_TEST

START_TEST(a_symbolic_link_is_followed) {
    float *x = make_sound(5000, 1, 48000, .5f);
    write_sound(in_dir("real.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 10, 1, 48000);
    write_sound(in_dir("from.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 5000, 1, 48000);
    free(x);
    chmod(in_dir("real.wav"), 0640);
    mkdir(in_dir("links"), 0700);
    ck_assert_int_eq(symlink("../real.wav", in_dir("links/link.wav")), 0);
    ck_assert_int_eq(symlink("links/link.wav", in_dir("second.wav")), 0);
    ck_assert_int_eq(symlink("made.wav", in_dir("links/dangling.wav")), 0);
    const char *names[][2] = {{"second.wav", "real.wav"}, {"links/dangling.wav", "links/made.wav"}};
    for (int i = 0; i < 2; i++) {
        struct stat link, real;
        ck_assert_msg(run("enhance", in_dir("from.wav"), in_dir(names[i][0]), "--model", "small", NULL) == 0, "%s",
                      err_text);
        ck_assert(lstat(in_dir(names[i][0]), &link) == 0 && S_ISLNK(link.st_mode));
        ck_assert(lstat(in_dir(names[i][1]), &real) == 0 && S_ISREG(real.st_mode));
        ck_assert_int_gt(real.st_size, 10000);
        if (i == 0)
            ck_assert_int_eq(real.st_mode & 0777, 0640);
    }
    if (geteuid() == 0) { /* who enhances somebody's file does not take it away */
        struct stat mine;
        ck_assert_int_eq(chown(in_dir("real.wav"), 1234, 2345), 0);
        ck_assert_int_eq(run("enhance", in_dir("real.wav"), in_dir("real.wav"), "--model", "small", NULL), 0);
        ck_assert_int_eq(stat(in_dir("real.wav"), &mine), 0);
        ck_assert(mine.st_uid == 1234 && mine.st_gid == 2345 && (mine.st_mode & 0777) == 0640);
    }
    ck_assert_int_eq(symlink("loop.wav", in_dir("loop.wav")), 0);
    ck_assert_int_eq(run("enhance", in_dir("from.wav"), in_dir("loop.wav"), "--model", "small", NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "loop.wav"));
    ck_one_line();
}
END_TEST

static const struct {
    const char *name;
    int format;
} cut[] = {
    {"cut.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},   {"cut.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
    {"cut.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_24}, {"cut.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
    {"cut.opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},    {"cut.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
    {"cut.w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16},   {"cut.au", SF_FORMAT_AU | SF_FORMAT_PCM_16},
};

START_TEST(a_file_that_is_cut_short_is_enhanced_with_a_warning) {
    float *x = make_sound(200000, 1, 48000, .5f);
    char whole[128], in[128], out[128];
    snprintf(whole, sizeof whole, "%s/whole-%s", dir, cut[_i].name);
    snprintf(in, sizeof in, "%s/%s", dir, cut[_i].name);
    snprintf(out, sizeof out, "%s/out-%s", dir, cut[_i].name);
    write_sound(whole, cut[_i].format, x, 200000, 1, 48000);
    free(x);
    copy_head(whole, in, .5);
    ck_assert_int_eq(run("enhance", whole, out, "--model", "small", NULL), 0);
    ck_assert_str_eq(err_text, "");
    ck_assert_int_eq(run("enhance", in, out, "--model", "small", NULL), 3);
    ck_assert_msg(strstr(err_text, cut[_i].name) && strstr(err_text, "is cut short"), "%s", err_text);
    SF_INFO info;
    free(read_sound(out, &info));
    ck_assert_int_gt(info.frames, 60000);
    ck_assert_int_lt(info.frames, 140000);
}
END_TEST

/* The length was unknown when the header was written. */
START_TEST(a_file_written_through_a_pipe_is_whole) {
    float *x = make_sound(20000, 1, 48000, .5f);
    write_sound(in_dir("piped.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 20000, 1, 48000);
    free(x);
    const uint32_t lengths[] = {0xffffffff, 0x7fffffff - 36};
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(in_dir("piped.wav"), "r+");
        fseek(f, 4, SEEK_SET);
        fwrite(&lengths[i], 4, 1, f);
        fseek(f, 40, SEEK_SET);
        fwrite(&lengths[i], 4, 1, f);
        fclose(f);
        ck_assert_msg(run("enhance", in_dir("piped.wav"), in_dir("unpiped.wav"), "--model", "small", NULL) == 0, "%s",
                      err_text);
        ck_assert_str_eq(err_text, "");
        SF_INFO info;
        free(read_sound(in_dir("unpiped.wav"), &info));
        ck_assert_int_eq(info.frames, 20000);
    }
}
END_TEST

START_TEST(a_full_disk_is_reported) {
    float *x = make_sound(200000, 1, 48000, .5f);
    write_sound(in_dir("much.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 200000, 1, 48000);
    free(x);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000}), 0);
    ck_refused(run("enhance", in_dir("much.wav"), in_dir("refused.wav"), "--model", "small", NULL), 1,
               "refused.wav: cannot be written: File too large\n", "");
    ck_one_line();
    ck_assert_uint_eq(n_called("refused.wav"), 0);
}
END_TEST

START_TEST(values_are_read_as_set_reads_them) {
    float *x = make_sound(20000, 1, 48000, .5f);
    write_sound(in_dir("v.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 20000, 1, 48000);
    free(x);
    setenv("XDG_STATE_HOME", dir, 1);
    ck_assert_msg(run("enhance", in_dir("v.wav"), in_dir("v1.wav"), "--model", "small", "--floor", "off", NULL) == 0,
                  "%s", err_text);
    ck_assert_msg(run("enhance", in_dir("v.wav"), in_dir("v2.wav"), "--model", "small", NULL) == 0, "%s", err_text);
    SF_INFO info;
    float *a = read_sound(in_dir("v1.wav"), &info), *b = read_sound(in_dir("v2.wav"), &info);
    ck_assert_int_eq(memcmp(a, b, 20000 * sizeof *a), 0);
    free(a);
    free(b);
    ck_assert_msg(run("enhance", in_dir("v.wav"), in_dir("v3.wav"), "--model", "auto", "--engine", "cpu", NULL) == 0,
                  "%s", err_text);
    ck_assert_int_eq(run("enhance", in_dir("v.wav"), in_dir("v4.wav"), "-m", "small", "-s", "0.5", NULL), 0);
    float *const half = read_sound(in_dir("v4.wav"), &info);
    const char *halves[] = {"50%", "0,5"};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run("enhance", in_dir("v.wav"), in_dir("v5.wav"), "-m", "small", "-s", halves[i], NULL), 0);
        b = read_sound(in_dir("v5.wav"), &info);
        ck_assert_int_eq(memcmp(half, b, 20000 * sizeof *b), 0);
        free(b);
    }
    free(half);
    ck_refused(run("enhance", in_dir("v.wav"), in_dir("refused.wav"), "--model", "auto", "--engine", "steam", NULL), 2,
               "steam", "auto, cuda or cpu");
}
END_TEST

/* ---- many files -------------------------------------------------------------------------------------------------- */

static void make_tree(const char *root) {
    static const char *const folders[] = {"", "/sub", "/sub/deep", "/.hidden"};
    static const char *const files[] = {"/a.wav",  "/sub/b.flac", "/sub/deep/c.wav", "/.hidden/d.wav",
                                        "/.e.wav", "/notes.txt",  "/cover.jpg"};
    char path[128];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s%s", dir, root, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    for (int i = 0; i < 7; i++) {
        float *x = make_sound(20000 + 5000 * i, 1 + i % 2, 48000, .5f);
        snprintf(path, sizeof path, "%s/%s%s", dir, root, files[i]);
        write_sound(path, (i == 1 ? SF_FORMAT_FLAC : SF_FORMAT_WAV) | SF_FORMAT_PCM_16, x, 20000 + 5000 * i, 1 + i % 2,
                    48000);
        free(x);
    }
}

/* Compares with the samples from enhancing the file alone. */
static void ck_as_alone(const char *in, const char *out) {
    SF_INFO info, alone_info;
    char alone[128];
    snprintf(alone, sizeof alone, "%s/alone%s", dir, strrchr(out, '.'));
    ck_assert_msg(run("enhance", in, alone, "--model", "small", NULL) == 0, "%s", err_text);
    float *a = read_sound(out, &info), *b = read_sound(alone, &alone_info);
    ck_assert_int_eq(info.frames, alone_info.frames);
    ck_assert_int_eq(memcmp(a, b, info.frames * info.channels * sizeof *a), 0);
    free(a);
    free(b);
}

START_TEST(a_folder_is_enhanced_as_it_is_built) {
    make_tree("tree");
    float *x = make_sound(9000, 1, 16000, .5f);
    write_sound(in_dir("one more.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 9000, 1, 16000);
    free(x);
    ck_assert_msg(run("enhance", "--out", in_dir("tree/new/clean"), in_dir("tree/"), in_dir("one more.wav"), "--model",
                      "small", NULL) == 0,
                  "%s", err_text);
    ck_assert_str_eq(err_text, "");
    char line[256];
    snprintf(line, sizeof line, "4 files enhanced in %s, 2 other files skipped\n", in_dir("tree/new/clean"));
    ck_assert_str_eq(out_text, line);
    const char *names[][2] = {{"tree/a.wav", "tree/new/clean/a.wav"},
                              {"tree/sub/b.flac", "tree/new/clean/sub/b.flac"},
                              {"tree/sub/deep/c.wav", "tree/new/clean/sub/deep/c.wav"},
                              {"one more.wav", "tree/new/clean/one more.wav"}};
    for (int i = 0; i < 4; i++)
        ck_as_alone(in_dir(names[i][0]), in_dir(names[i][1]));
    /* Again: what was written is not taken for more to do, though it lies in the folder. */
    ck_assert_int_eq(run("enhance", "--out", in_dir("tree/new/clean"), in_dir("tree"), "--model", "small", NULL), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "3 files enhanced"));
}
END_TEST

START_TEST(a_failed_file_does_not_affect_the_others) {
    float *x = make_sound(60000, 1, 48000, .5f);
    write_sound(in_dir("1.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 60000, 1, 48000);
    write_sound(in_dir("3.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 60000, 1, 48000);
    copy_head(in_dir("1.wav"), in_dir("4.wav"), .5);
    x[50000] = NAN;
    write_sound(in_dir("2.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 60000, 1, 48000);
    free(x);
    char out[128];
    strcpy(out, in_dir("some"));
    ck_assert_int_eq(run("enhance", in_dir("1.wav"), in_dir("2.wav"), in_dir("5.wav"), in_dir("3.wav"), "--out", out,
                         "--model", "small", NULL),
                     1);
    ck_assert_ptr_nonnull(strstr(err_text, "2.wav: frame 50000, channel 1 is not a number\n"));
    ck_assert_ptr_nonnull(strstr(err_text, "5.wav: No such file or directory\n"));
    ck_assert_ptr_nonnull(strstr(out_text, "2 files enhanced in "));
    ck_assert_ptr_nonnull(strstr(out_text, ", 2 failed\n"));
    ck_as_alone(in_dir("1.wav"), in_dir("some/1.wav"));
    ck_as_alone(in_dir("3.wav"), in_dir("some/3.wav"));
    unlink(in_dir("some/1.wav"));
    unlink(in_dir("some/3.wav"));
    ck_assert_int_eq(rmdir(out), 0); /* nothing else is there */

    ck_assert_int_eq(run("enhance", in_dir("1.wav"), in_dir("4.wav"), "--out", out, "--model", "small", NULL), 3);
    ck_assert_ptr_nonnull(strstr(err_text, "4.wav: is cut short"));
    ck_one_line();
    ck_assert_ptr_nonnull(strstr(out_text, "2 files enhanced in "));
}
END_TEST

START_TEST(no_output_replaces_another_file) {
    make_tree("kept");
    char tree[128], out[128];
    strcpy(tree, in_dir("kept"));
    strcpy(out, in_dir("none"));
    ck_assert_int_eq(run("enhance", "--out", tree, tree, NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "would be overwritten"));
    ck_one_line();
    ck_assert_int_eq(run("enhance", "--out", tree, in_dir("kept/a.wav"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "would be overwritten"));
    ck_one_line();
    ck_assert_int_eq(run("enhance", "--out", out, tree, in_dir("kept/a.wav"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "would both be written to"));
    ck_one_line();
    ck_assert_int_eq(run("enhance", "--out", in_dir("kept/a.wav"), tree, NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "is not a folder"));
    ck_one_line();
    mkdir(in_dir("bare"), 0700);
    ck_assert_int_eq(run("enhance", "--out", out, in_dir("bare"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "contains no sound files"));
    ck_one_line();
    ck_assert_int_eq(run("enhance", "--out", out, NULL), 2);
    ck_assert_int_eq(run("enhance", in_dir("kept/a.wav"), in_dir("b.wav"), in_dir("c.wav"), NULL), 2);
    ck_assert_int_eq(access(out, F_OK), -1);
}
END_TEST

START_TEST(the_bar_describes_its_level) {
    make_tree("bars");
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), status;
    ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, ptsname(terminal), O_RDWR | O_NOCTTY, 0);
    char *argv[] = {"./primeknet",          "enhance", "--model", "small", "--out", (char *)in_dir("shown"),
                    (char *)in_dir("bars"), NULL};
    pid_t pid;
    ck_assert_int_eq(posix_spawn(&pid, argv[0], &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    static char text[65536];
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(terminal, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    close(terminal);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_msg(strstr(text, "] 3 of 3 files, 100 %"), "%s", text);
    ck_assert_msg(n >= 4 && strcmp(text + n - 4, "\r\033[K") == 0, "%s", text);
}
END_TEST

START_TEST(an_interrupt_ends_all_files_and_leaves_nothing_half_written) {
    const size_t n = 600 * 48000;
    float *x = calloc(n, sizeof *x);
    ck_assert_ptr_nonnull(x);
    x[0] = .5f;
    mkdir(in_dir("long"), 0700);
    write_sound(in_dir("long/1.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, n, 1, 48000);
    write_sound(in_dir("long/2.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, n, 1, 48000);
    free(x);
    char out[128];
    strcpy(out, in_dir("halves"));
    char *argv[] = {"./primeknet", "enhance", (char *)in_dir("long"), "--out", out, "--model", "large", "--engine",
                    "cpu",         NULL};
    pid_t pid;
    int status;
    ck_assert_int_eq(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    await_open(pid, dir, NULL);
    ck_assert_int_eq(kill(pid, SIGTERM), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    ck_assert_int_eq(rmdir(out), 0);
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

/* ---- test material ----------------------------------------------------------------------------------------------- */

static double power(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * (double)x[i];
    return sum / (double)n;
}

/* A tone, noise and a room with a direct path and one echo: the pair must contain exactly these, at the requested
 * level. */
START_TEST(a_mixture_is_the_sum_of_its_parts) {
    enum { n = 48000, n_noise = 16000, echo = 960 };
    float *tone = malloc(n * sizeof *tone), *noise = make_sound(n_noise, 1, 16000, .5f),
          room[1000] = {[3] = -.5f, [3 + echo] = .1f};
    for (size_t i = 0; i < n; i++)
        tone[i] = .2f * sinf(6.2832f * 440 * i / 48000);
    write_sound(in_dir("tone.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, tone, n, 1, 48000);
    write_sound(in_dir("noise.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, noise, n_noise, 1, 16000);
    write_sound(in_dir("room.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, room, 1000, 1, 48000);
    put_content(in_dir("rooms.lst"), "room.wav\n\n");
    ck_assert_msg(run("mix", in_dir("tone.wav"), in_dir("noise.wav"), in_dir("rooms.lst"), "--snr", "10,-5", "--out",
                      dir, NULL) == 0,
                  "%s", err_text);
    for (int level = 0; level < 2; level++) {
        SF_INFO info;
        float *clean = read_sound(in_dir(level ? "tone_-5dB_clean.flac" : "tone_10dB_clean.flac"), &info);
        ck_assert_int_eq(info.samplerate, 48000);
        ck_assert_int_eq(info.frames, n);
        float *noisy = read_sound(in_dir(level ? "tone_-5dB_noisy.flac" : "tone_10dB_noisy.flac"), &info);
        ck_assert_int_eq(info.frames, n);
        double gain = sqrt(power(clean, n) / power(tone, n));
        for (size_t i = 0; i < n; i++) {
            ck_assert_float_eq_tol(clean[i], gain * tone[i], 1e-6);
            noisy[i] -= gain * (tone[i] - (i < echo ? 0 : .2f * tone[i - echo])); /* the noise is left */
        }
        double speech = 0; /* a steady tone and its echo: their power is that at the end */
        for (size_t i = n / 2; i < n; i++)
            speech += pow(gain * (tone[i] - .2f * tone[i - echo]), 2) / (n / 2);
        ck_assert_double_eq_tol(10 * log10(speech / power(noisy, n)), level ? -5 : 10, .05);
        free(clean);
        free(noisy);
    }
    free(tone);
    free(noise);
}
END_TEST

START_TEST(a_single_pair_is_mixed_once) {
    float *x = make_sound(8000, 1, 16000, .5f);
    write_sound(in_dir("p.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 8000, 1, 16000);
    free(x);
    char out[128], line[256];
    snprintf(out, sizeof out, "%s//", in_dir("p"));
    mkdir(out, 0700);
    ck_assert_msg(run("mix", in_dir("p.wav"), in_dir("p.wav"), "--snr", "5", "--out", out, NULL) == 0, "%s", err_text);
    snprintf(line, sizeof line, "1 pair in %s\n", in_dir("p/pairs.tsv"));
    ck_assert_str_eq(out_text, line);
}
END_TEST

static char *in_text(const char *name) {
    static char text[8192];
    slurp(in_dir(name), text, sizeof text);
    return text;
}

START_TEST(a_seed_draws_the_same_again) {
    float *x = make_sound(8000, 1, 16000, .5f);
    char folder[128], out[128];
    strcpy(folder, in_dir("noises"));
    strcpy(out, in_dir("drawn"));
    ck_assert(mkdir(folder, 0700) == 0 && mkdir(out, 0700) == 0);
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof name, "noises/%d.wav", i);
        write_sound(in_dir(name), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 8000, 1, 16000);
    }
    write_sound(in_dir("short.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 4000, 1, 16000);
    free(x);
    FILE *f = fopen(in_dir("speech.txt"), "w");
    fprintf(f, "short.wav\nnoises/1.wav\n%s/short.wav\n", dir); /* a name twice: two pairs all the same */
    fclose(f);
    char first[8192];
    const char *seeds[] = {"1", "1", "2"};
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(
            run("mix", in_dir("speech.txt"), folder, "--snr", "0,5,10", "--seed", seeds[i], "--out", out, NULL) == 0,
            "%s", err_text);
        char *table = in_text("drawn/pairs.tsv");
        if (i == 0)
            strcpy(first, table);
        ck_assert_int_eq(strcmp(first, table) == 0, i < 2);
    }
    int n_lines = 0;
    for (const char *p = first; (p = strchr(p, '\n')); p++)
        n_lines++;
    ck_assert_int_eq(n_lines, 10);
    ck_assert_ptr_nonnull(strstr(first, "\nshort-2_10dB\t16000\t10\t"));
    ck_assert_int_eq(access(in_dir("drawn/short-2_10dB_noisy.flac"), F_OK), 0);
    ck_assert_int_eq(access(in_dir("drawn/1_0dB_clean.flac"), F_OK), 0);
}
END_TEST

START_TEST(unusable_material_is_refused) {
    float x[600] = {0};
    write_sound(in_dir("silent.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 600, 1, 48000);
    x[5] = .5f;
    write_sound(in_dir("click.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 600, 1, 48000);
    put_content(in_dir("empty.txt"), "");
    char good[128], silent[128], empty[128], out[128]; /* in_dir keeps but a few names */
    strcpy(good, in_dir("click.wav"));
    strcpy(silent, in_dir("silent.wav"));
    strcpy(empty, in_dir("empty.txt"));
    strcpy(out, in_dir("none"));
    ck_assert_int_eq(mkdir(out, 0700), 0);
    ck_refused(run("mix", silent, good, "--snr", "5", "--out", out, NULL), 1, "silent.wav", "silent");
    ck_one_line();
    ck_refused(run("mix", good, silent, "--snr", "5", "--out", out, NULL), 1, "silent.wav", "silent");
    ck_one_line();
    ck_refused(run("mix", good, good, silent, "--snr", "5", "--out", out, NULL), 1, "silent.wav", "silent");
    ck_one_line();
    ck_refused(run("mix", good, empty, "--snr", "5", "--out", out, NULL), 1, "empty.txt", "names no file");
    ck_one_line();
    ck_refused(run("mix", good, "/nonexistent/n.wav", "--snr", "5", "--out", out, NULL), 1, "/nonexistent/n.wav",
               "No such file");
    ck_one_line();
    ck_refused(run("mix", good, good, "--snr", "5", "--out", "/nonexistent", NULL), 1, "/nonexistent", "No such file");
    ck_one_line();
    write_sound(in_dir("slow.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 600, 1, 100);
    ck_refused(run("mix", good, in_dir("slow.wav"), "--snr", "5", "--out", out, NULL), 1, "slow.wav",
               "100 Hz cannot be resampled");
    ck_refused(run("mix", good, good, "--out", out, NULL), 2, "--snr DB[,DB...] is missing", "Usage");
    ck_refused(run("mix", good, good, "--snr", "5,loud", "--out", out, NULL), 2, "--snr", "loud");
    ck_refused(run("mix", good, good, "--snr", "5", "--seed", "1.5", NULL), 2, "--seed", "1.5");
    ck_assert_int_eq(rmdir(out), 0); /* nothing was left in it */
}
END_TEST

START_TEST(compare_prints_a_line_per_file) {
    size_t n = 96000;
    float *clean = make_sound(n, 1, 48000, .3f), *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = clean[i] + .02f * ((float)(i * 2654435761u >> 8 & 0xffff) / 32768 - 1);
    write_sound(in_dir("clean.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, clean, n, 1, 48000);
    write_sound(in_dir("noisy.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n, 1, 48000);
    for (size_t i = 0; i < n; i++)
        x[i] = 2 * clean[i] + .2f * (x[i] - clean[i]);
    write_sound(in_dir("better.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, n - 4800, 1, 48000);
    free(clean);
    free(x);
    ck_assert_msg(run("compare", in_dir("noisy.wav"), in_dir("clean.wav"), in_dir("better.wav"), NULL) == 0, "%s",
                  err_text);
    double noisy[3], better[3];
    char *line = strchr(out_text, '\n') + 1;
    ck_assert_int_eq(sscanf(line, "%*[^ ]%lf%lf%lf", &noisy[0], &noisy[1], &noisy[2]), 3);
    ck_assert_ptr_nonnull(strstr(line, "noisy.wav"));
    line = strchr(line, '\n') + 1;
    ck_assert_int_eq(sscanf(line, "%*[^ ]%lf%lf%lf", &better[0], &better[1], &better[2]), 3);
    ck_assert_ptr_nonnull(strstr(line, "better.wav"));
    ck_assert_double_eq_tol(better[0] - noisy[0], 20, .1); /* a tenth of the noise; the scale does not count */
    ck_assert_double_lt(better[1], noisy[1]);              /* here it does */
    ck_assert_double_ge(better[2], noisy[2]);
    ck_assert_ptr_nonnull(strstr(out_text, "first 1.90 s"));

    ck_assert_int_eq(run("compare", in_dir("noisy.wav"), in_dir("none.wav"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "none.wav"));
    ck_one_line();
    float few[100] = {.1f};
    write_sound(in_dir("16k.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, few, 100, 1, 16000);
    ck_assert_int_eq(run("compare", in_dir("16k.wav"), in_dir("clean.wav"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "16k.wav: its rate is 16000 Hz"));
    ck_one_line();
    ck_assert_int_eq(run("compare", in_dir("noisy.wav"), NULL), 2);
    copy_head(in_dir("noisy.wav"), in_dir("part.wav"), .6);
    ck_assert_int_eq(run("compare", in_dir("part.wav"), in_dir("clean.wav"), NULL), 3);
    ck_assert_ptr_nonnull(strstr(err_text, "part.wav: is cut short"));
    ck_one_line();
    unlink(in_dir("pairs.tsv")); /* another test's */
    ck_assert_int_eq(run("mix", in_dir("clean.wav"), in_dir("part.wav"), "--snr", "5", "--out", dir, NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "part.wav: is cut short"));
    ck_one_line();
    ck_assert_int_eq(access(in_dir("pairs.tsv"), F_OK), -1);
}
END_TEST

/* A fake scorer with the interface of the real package. */
START_TEST(pesq_needs_a_scorer) {
    float *x = make_sound(48000, 1, 48000, .3f);
    write_sound(in_dir("a.wav"), SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 48000, 1, 48000);
    free(x);
    char bin[128], path[8192];
    snprintf(bin, sizeof bin, "%s/bin", dir);
    ck_assert_int_eq(mkdir(bin, 0700), 0);
    put_content(in_dir("bin/python3"), "#!/bin/sh\n[ \"$1\" = -c ] && [ \"$3\" = 16000 ] && "
                                       "[ $(cat | wc -c) = 192000 ] && printf '3.25\\nnan\\n'\n");
    chmod(in_dir("bin/python3"), 0700);
    const char *before = getenv("PATH");
    snprintf(path, sizeof path, "%s:%s", bin, before);
    setenv("PATH", path, 1);
    ck_assert_int_eq(run("compare", in_dir("a.wav"), in_dir("a.wav"), in_dir("a.wav"), NULL), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "WB-PESQ"));
    ck_assert_ptr_nonnull(strstr(out_text, " 3.25\n"));
    ck_assert_ptr_nonnull(strstr(out_text, " -\n"));
    put_content(in_dir("bin/python3"), "#!/bin/sh\nexit 3\n");
    ck_assert_int_eq(run("compare", in_dir("a.wav"), in_dir("a.wav"), NULL), 0);
    ck_assert_ptr_null(strstr(out_text, "WB-PESQ"));
    ck_assert_ptr_nonnull(strstr(out_text, "pip install pesq"));
}
END_TEST

#ifdef HAVE_CAIRO
START_TEST(a_plot_is_a_picture) {
#ifdef SANITIZED
    put_content(in_dir("suppressions"), "leak:libfontconfig\n"); /* fontconfig keeps what it has read */
    char suppressions[128];
    snprintf(suppressions, sizeof suppressions, "suppressions=%s:print_suppressions=0", in_dir("suppressions"));
    setenv("LSAN_OPTIONS", suppressions, 1);
#endif
    float *x = make_sound(20000, 2, 16000, .5f);
    write_sound(in_dir("plotted.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 20000, 2, 16000);
    write_sound(in_dir("one.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, x, 1, 1, 48000);
    free(x);
    ck_assert_msg(run("plot", in_dir("plotted.wav"), "--model", "small", NULL) == 0, "%s", err_text);
    ck_assert_msg(run("plot", in_dir("one.wav"), in_dir("one.PNG"), "--model", "small", NULL) == 0, "%s", err_text);
    for (int i = 0; i < 2; i++) {
        unsigned char head[24] = {0};
        FILE *f = fopen(in_dir(i ? "one.PNG" : "plotted.png"), "r");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(fread(head, 1, sizeof head, f), sizeof head);
        fclose(f);
        ck_assert_int_eq(memcmp(head, "\x89PNG\r\n\x1a\n", 8), 0);
        ck_assert_int_eq(head[18] << 8 | head[19], 1200);
    }
    copy_head(in_dir("plotted.wav"), in_dir("part.wav"), .6);
    ck_assert_int_eq(run("plot", in_dir("part.wav"), "--model", "small", NULL), 3);
    ck_assert_ptr_nonnull(strstr(err_text, "part.wav: is cut short; drew the 0.75 s that can be read"));
    ck_one_line();
    ck_assert_int_eq(access(in_dir("part.png"), F_OK), 0);
    ck_assert_int_eq(run("plot", in_dir("none.wav"), in_dir("none.png"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "none.wav"));
    ck_one_line();
    ck_assert_int_eq(run("plot", in_dir("plotted.wav"), in_dir("plotted.wav"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "overwritten"));
    ck_assert_int_eq(run("plot", in_dir("plotted.wav"), "/nonexistent/p.png", NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "/nonexistent/p.png"));
    ck_one_line();
    ck_assert_int_eq(run("plot", in_dir("plotted.wav"), in_dir("x.jpg"), NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "x.jpg: the picture is a PNG file"));
    ck_one_line();
    ck_assert_int_eq(access(in_dir("x.jpg"), F_OK), -1);
    setenv("XDG_STATE_HOME", dir, 1);
    ck_assert_msg(run("plot", in_dir("one.wav"), "--model", "auto", NULL) == 0, "%s", err_text);
    ck_assert_int_eq(access(in_dir("none.png"), F_OK), -1);
    ck_assert_int_eq(run("plot", NULL), 2);
}
END_TEST
#else
START_TEST(a_plot_needs_cairo) {
    ck_assert_int_eq(run("plot", "in.wav", NULL), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "cairo"));
    ck_one_line();
}
END_TEST
#endif

int main(void) {
    if (!mkdtemp(dir))
        return 99;
    Suite *s = suite_create("files");
    TCase *t = tcase_create("files");
    tcase_add_loop_test(t, length_rate_and_place_are_kept, 0, sizeof kinds / sizeof *kinds);
    tcase_add_test(t, the_name_determines_the_kind_of_file);
    tcase_add_test(t, full_strength_changes_the_sound_and_floor_0_loses_nothing);
    tcase_add_test(t, a_low_cut_removes_hum);
    tcase_add_loop_test(t, channels_are_enhanced_independently, 0, sizeof layouts / sizeof *layouts);
    tcase_add_test(t, too_loud_input_is_limited);
    tcase_add_test(t, unusable_inputs_are_refused_by_name);
    tcase_add_test(t, unusable_models_and_outputs_are_refused_by_name);
    tcase_add_test(t, bad_usage_is_refused);
    tcase_add_test(t, a_failed_write_keeps_the_old_file);
    tcase_add_test(t, an_interrupt_leaves_nothing_behind);
    tcase_add_loop_test(t, tags_are_kept, 0, sizeof tagged / sizeof *tagged);
    tcase_add_test(t, flac_keeps_its_pictures_and_every_comment);
    tcase_add_test(t, mp3_keeps_its_tag_byte_for_byte);
    tcase_add_test(t, a_symbolic_link_is_followed);
    tcase_add_loop_test(t, a_file_that_is_cut_short_is_enhanced_with_a_warning, 0, sizeof cut / sizeof *cut);
    tcase_add_test(t, a_file_written_through_a_pipe_is_whole);
    tcase_add_test(t, a_full_disk_is_reported);
    tcase_add_test(t, values_are_read_as_set_reads_them);
    tcase_add_test(t, a_folder_is_enhanced_as_it_is_built);
    tcase_add_test(t, a_failed_file_does_not_affect_the_others);
    tcase_add_test(t, no_output_replaces_another_file);
    tcase_add_test(t, the_bar_describes_its_level);
    tcase_add_test(t, an_interrupt_ends_all_files_and_leaves_nothing_half_written);
    tcase_add_test(t, bench_prints_json);
    tcase_add_test(t, a_mixture_is_the_sum_of_its_parts);
    tcase_add_test(t, a_single_pair_is_mixed_once);
    tcase_add_test(t, a_seed_draws_the_same_again);
    tcase_add_test(t, unusable_material_is_refused);
    tcase_add_test(t, compare_prints_a_line_per_file);
    tcase_add_test(t, pesq_needs_a_scorer);
#ifdef HAVE_CAIRO
    tcase_add_test(t, a_plot_is_a_picture);
#else
    tcase_add_test(t, a_plot_needs_cairo);
#endif
    tcase_set_timeout(t, 600);
    suite_add_tcase(s, t);
    const int failed = run_suite(s, CK_FORK);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) || failed;
}
