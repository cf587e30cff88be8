/* The guarantees of primeknet enhance for every format and fault, the table in primeknet(1): for new files and in
 * place. It never replaces a recording that it could not read completely, and leaves no partial file. */
#include "config.h"
#include "tests/support/content.h"
#include "tests/support/open_file.h"
#include "tests/support/run.h"

#include "tool/container.h"
#include "tool/sound_file.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <signal.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000, SHORT = 4 * RATE, LONG = 20 * RATE, UNTRIED = 77 };

static char root[] = "/tmp/primeknet-recordings-XXXXXX", dir[64], err_text[70000];

static const char *in_dir(const char *name) {
    static char paths[8][512];
    static int next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void write_sound(const char *path, int format, size_t n) {
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = format};
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    ck_assert_msg(f != NULL, "%s: %s", path, sf_strerror(NULL));
    float x[4800];
    uint32_t r = 1;
    for (size_t i = 0; i < n; i += 4800) {
        for (size_t k = 0; k < 4800; k++) {
            r = r * 1664525u + 1013904223u;
            x[k] = .4f * sinf(.04f * (float)(i + k)) + .05f * ((float)(r >> 8) / 8388608.f - 1);
        }
        ck_assert_int_eq(sf_writef_float(f, x, 4800), 4800);
    }
    ck_assert_int_eq(sf_close(f), 0);
}

/* Returns the number of frames that can be read; -1: not a sound file. */
static sf_count_t length(const char *path) {
    SF_INFO info = {0};
    SNDFILE *f = sf_open(path, SFM_READ, &info);
    float x[4800];
    sf_count_t n = 0;
    if (!f)
        return -1;
    for (sf_count_t got; (got = sf_readf_float(f, x, 4800 / info.channels)) > 0;)
        n += got;
    sf_close(f);
    return n;
}

struct bytes {
    unsigned char *data;
    size_t n;
};

static struct bytes load(const char *path) {
    struct stat st;
    const int fd = open(path, O_RDONLY);
    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    struct bytes b = {malloc(2 * (size_t)st.st_size), (size_t)st.st_size};
    ck_assert_int_eq(read(fd, b.data, b.n), st.st_size);
    close(fd);
    return b;
}

static void save(const char *path, const struct bytes *b) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(fd >= 0 && write(fd, b->data, b->n) == (ssize_t)b->n);
    close(fd);
}

/* ---- the tool ---------------------------------------------------------------------------------------------------- */

/* Makes a system call fail in the program under test, if its arguments contain the bits `flags`. */
struct denial {
    int call, argument, error;
    unsigned flags;
};

static const struct denial no_fsync = {.call = SYS_fsync, .error = EIO},
                           no_tmpfile = {SYS_openat, 2, EOPNOTSUPP, O_TMPFILE & ~O_DIRECTORY};

static bool deny(const struct denial *d) {
    const unsigned argument = offsetof(struct seccomp_data, args) + 8 * (unsigned)d->argument;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)d->call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(d->flags ? BPF_JMP | BPF_JSET | BPF_K : BPF_JMP | BPF_JGE | BPF_K, d->flags, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)d->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct how {
    const struct denial *denial;
    rlim_t most_bytes; /* of a file; 0: as it is */
    const char *model;
    const char *in, *out; /* standard streams */
};

static pid_t start(const char *from, const char *to, const struct how *how) {
    const pid_t pid = fork();
    if (pid)
        return pid;
    const int err = open(in_dir("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(err, 2);
    close(err);
    if (how->in)
        dup2(open(how->in, O_RDONLY), 0);
    if (how->out)
        dup2(open(how->out, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    if (how->most_bytes)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){how->most_bytes, how->most_bytes});
    for (int number = 1; number < 32; number++) /* nohup's child, for one, ignores some, and so would the tool */
        signal(number, SIG_DFL);
    if (how->denial && !deny(how->denial))
        _exit(UNTRIED);
    execl("./primeknet", "primeknet", "enhance", from, to, "-e", "cpu", "-m", how->model ? how->model : "small", "-s",
          "0", NULL);
    _exit(98);
}

/* Returns the exit status, or minus the signal. */
static int await(pid_t pid) {
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    snprintf(err_text, sizeof err_text, "%s", content(in_dir("stderr")));
    unlink(in_dir("stderr"));
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int enhance(const char *from, const char *to, const struct how *how) {
    return await(start(from, to, how));
}

static unsigned n_files(void) {
    DIR *d = opendir(dir);
    unsigned n = 0;
    for (struct dirent *entry; (entry = readdir(d));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int format;
    const char *field;  /* the name before the length in the header; NULL: it has none */
    unsigned offset, n; /* from its end to the length; bytes of the length */
    bool big;
    const char *never_known; /* the lengths that are written where it is not known, in hexadecimal */
    bool tells_damage;
} formats[] = {
    {"x.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, "data", 0, 4, false, "00000000 ffffffff 7fffffdb 7ffff000", false},
    {"x.rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_24, NULL, 0, 0, false, NULL, false},
    {"x.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "SSND", 0, 4, true, "00000000 ffffffff 7f000008", false},
    {"x.au", SF_FORMAT_AU | SF_FORMAT_PCM_16, ".snd", 4, 4, true, "ffffffff", false},
    {"x.w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, "data", 12, 8, false, "0000000000000000 ffffffffffffffff", false},
    {"x.caf", SF_FORMAT_CAF | SF_FORMAT_PCM_16, "data", 0, 8, true, "ffffffffffffffff", false},
    {"x.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "fLaC", 18, 4, true, "00000000", true},
    {"x.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, "Xing", 4, 4, true, NULL, true},
    {"x.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, NULL, 0, 0, false, NULL, true},
    {"x.opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, NULL, 0, 0, false, NULL, true},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static int of; /* the format in turn */

static size_t length_at(const struct bytes *b) {
    const unsigned char *p = memmem(b->data, b->n, formats[of].field, 4);
    ck_assert_ptr_nonnull(p);
    return (size_t)(p - b->data) + 4 + formats[of].offset;
}

static void put_length(struct bytes *b, uint64_t n) {
    const size_t at = length_at(b), size = formats[of].n;
    for (size_t i = 0; i < size; i++)
        b->data[at + (formats[of].big ? size - 1 - i : i)] = (unsigned char)(n >> 8 * i);
}

static uint64_t get_length(const struct bytes *b) {
    const size_t at = length_at(b), size = formats[of].n;
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++)
        n = n << 8 | b->data[at + (formats[of].big ? i : size - 1 - i)];
    return n;
}

/* The header states a quarter of the length. */
static bool make_short_header(struct bytes *b) {
    if (formats[of].field)
        put_length(b, get_length(b) / 4);
    return formats[of].field;
}

static bool make_long_header(struct bytes *b) {
    if (formats[of].field)
        put_length(b, get_length(b) * 2);
    return formats[of].field;
}

static bool cut(struct bytes *b) {
    b->n /= 2;
    return true;
}

static bool join(struct bytes *b) {
    memcpy(b->data + b->n, b->data, b->n);
    b->n *= 2;
    return true;
}

/* Damages the samples, a third of the way in. */
static bool damage(struct bytes *b) {
    for (size_t i = 0; i < 800 && formats[of].tells_damage; i++)
        b->data[b->n / 3 + i] ^= 0x5a;
    return formats[of].tells_damage;
}

/* Garbage between two halves. */
static bool insert(struct bytes *b) {
    if (!formats[of].tells_damage)
        return false;
    memmove(b->data + b->n / 2 + 700, b->data + b->n / 2, b->n - b->n / 2);
    memset(b->data + b->n / 2, 0x13, 700);
    b->n += 700;
    return true;
}

/* clang-format off */
static const struct {
    const char *name;
    bool (*make)(struct bytes *b); /* NULL: as it is; false: the format does not have that */
    struct how how;
    int status;
    double least, most; /* of the sound comes out; 0 for a new file that must not be */
    const char *says;
} faults[] = {
    {"whole", NULL, {0}, 0, 1, 1.03, ""},
    {"a header that counts less", make_short_header, {0}, 3, 1, 1.03, "holds more than its header says"},
    {"a header that counts more", make_long_header, {0}, 3, .97, 1.03, "is cut short"},
    {"cut short", cut, {0}, 3, .15, .7, "is cut short"},
    {"joined", join, {0}, 0, 2, 2.06, ""},
    {"damaged", damage, {0}, 3, .25, 1.03, "is damaged"},
    {"garbage in it", insert, {0}, 3, .4, 1.03, "is damaged"},
    {"a full disk", NULL, {.most_bytes = 8000}, 1, 0, 0, "cannot be written: File too large"},
    {"a full disk, named parts", NULL, {.most_bytes = 8000, .denial = &no_tmpfile}, 1, 0, 0,
     "cannot be written: File too large"},
    {"named parts", NULL, {.denial = &no_tmpfile}, 0, 1, 1.03, ""},
    {"a failing fsync", NULL, {.denial = &no_fsync}, 1, 0, 0, "cannot be written: Input/output error"},
};
/* clang-format on */
enum { N_FAULTS = sizeof faults / sizeof *faults };

static void begin(int format) {
    of = format;
    snprintf(dir, sizeof dir, "%s/%d", root, format);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert(system(command) == 0 && mkdir(dir, 0700) == 0);
}

static void ck_fault(unsigned i, const struct bytes *whole) {
    const char *name = formats[of].name, *fault = faults[i].name;
    struct bytes b = {malloc(2 * whole->n + 1000), whole->n};
    memcpy(b.data, whole->data, whole->n);
    if (faults[i].make && !faults[i].make(&b)) {
        free(b.data);
        return;
    }
    char in[512], out[512];
    snprintf(in, sizeof in, "%s", in_dir(name));
    snprintf(out, sizeof out, "%s/out-%s", dir, name);
    save(in, &b);
    for (int in_place = 0; in_place < 2; in_place++) {
        const int status = enhance(in, in_place ? in : out, &faults[i].how);
        if (status == UNTRIED)
            continue;
        ck_assert_msg(status == faults[i].status, "%s, %s, in place %d: %d, %s", name, fault, in_place, status,
                      err_text);
        ck_assert_msg(strstr(err_text, faults[i].says) && (*faults[i].says || !*err_text), "%s, %s: %s", name, fault,
                      err_text);
        ck_assert_msg(!*err_text || !strchr(err_text, '\n')[1], "%s, %s: %s", name, fault, err_text);
        struct bytes now = load(in);
        const bool kept = now.n == b.n && memcmp(now.data, b.data, b.n) == 0;
        free(now.data);
        ck_assert_msg(kept == (!in_place || status != 0), "%s, %s, in place %d: the input", name, fault, in_place);
        const bool is_out = !in_place && status != 1;
        ck_assert_msg(n_files() == 1u + is_out, "%s, %s, in place %d: %u files", name, fault, in_place, n_files());
        if (is_out || status == 0) {
            const double share = (double)length(in_place ? in : out) / SHORT;
            ck_assert_msg(share >= faults[i].least - 1e-4 && share <= faults[i].most, "%s, %s, in place %d: %.3f", name,
                          fault, in_place, share);
        }
        unlink(out);
    }
    free(b.data);
    unlink(in);
}

START_TEST(every_format_and_fault_is_as_documented) {
    begin(_i);
    char in[512];
    snprintf(in, sizeof in, "%s", in_dir(formats[_i].name));
    write_sound(in, formats[_i].format, SHORT);
    struct bytes whole = load(in);
    for (unsigned i = 0; i < N_FAULTS; i++)
        ck_fault(i, &whole);
    for (const char *p = formats[_i].never_known; p && *p; p += strcspn(p, " "), p += *p == ' ') {
        struct bytes b = {malloc(whole.n), whole.n};
        memcpy(b.data, whole.data, whole.n);
        put_length(&b, strtoull(p, NULL, 16));
        save(in, &b);
        free(b.data);
        for (int in_place = 0; in_place < 2; in_place++) {
            char out[512];
            snprintf(out, sizeof out, "%s/out-%s", dir, formats[_i].name);
            const int status = enhance(in, in_place ? in : out, &(struct how){0});
            ck_assert_msg(status == 0 && !*err_text, "%s, %.16s: %d, %s", formats[_i].name, p, status, err_text);
            ck_assert_msg(length(in_place ? in : out) == SHORT, "%s, %.16s: %ld", formats[_i].name, p,
                          (long)length(in_place ? in : out));
            unlink(out);
        }
    }
    free(whole.data);
}
END_TEST

/* If the rates differ, the first part is enhanced; in place, the file is not changed. */
START_TEST(joined_files_must_match) {
    begin(_i);
    char in[512];
    snprintf(in, sizeof in, "%s", in_dir(formats[_i].name));
    write_sound(in, formats[_i].format, SHORT);
    struct bytes both = load(in), other;
    SF_INFO info = {.samplerate = 16000, .channels = 1, .format = formats[_i].format};
    static const float x[16000];
    SNDFILE *f = sf_open(in, SFM_WRITE, &info);
    ck_assert(f && sf_writef_float(f, x, 16000) == 16000 && sf_close(f) == 0);
    other = load(in);
    both.data = realloc(both.data, both.n + other.n);
    memcpy(both.data + both.n, other.data, other.n);
    both.n += other.n;
    save(in, &both);
    ck_assert_int_eq(enhance(in, in, &(struct how){0}), 3);
    ck_assert_msg(strstr(err_text, "goes on at another rate"), "%s: %s", formats[_i].name, err_text);
    ck_assert_int_eq(enhance(in, in_dir("out.wav"), &(struct how){0}), 3);
    ck_assert_double_eq_tol((double)length(in_dir("out.wav")) / SHORT, 1, .02);
    free(both.data);
    free(other.data);
}
END_TEST

START_TEST(no_signal_leaves_anything_behind) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGKILL};
    begin(_i);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    char in[512], out[512];
    snprintf(in, sizeof in, "%s", in_dir(formats[_i].name));
    snprintf(out, sizeof out, "%s/out-%s", dir, formats[_i].name);
    write_sound(in, formats[_i].format, LONG);
    struct bytes whole = load(in);
    for (unsigned i = 0; i < 2 * sizeof signals / sizeof *signals; i++) {
        const int number = signals[i / 2];
        const bool named = number != SIGKILL && i % 4 == 1; /* as where the system has no files without a name */
        const pid_t pid = start(in, i % 2 ? in : out,
                                &(struct how){.model = "large", .denial = named ? &no_tmpfile : NULL});
        if (named && waitpid(pid, NULL, WNOHANG) != 0)
            continue;
        await_open(pid, dir, NULL);
        ck_assert_int_eq(kill(pid, number), 0);
        const int status = await(pid);
        ck_assert_msg(status == -number, "%s, signal %d: %d, %s", formats[_i].name, number, status, err_text);
        struct bytes now = load(in);
        ck_assert(now.n == whole.n && memcmp(now.data, whole.data, whole.n) == 0);
        free(now.data);
        ck_assert_msg(n_files() == 1, "%s, signal %d", formats[_i].name, number);
    }
    free(whole.data);
}
END_TEST

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Files over 4 GiB whose lengths have lost their upper bits, written as holes to save space. */
START_TEST(a_length_that_wrapped_around_is_corrected) {
    begin(0);
    const uint64_t n = (UINT64_C(1) << 32) + 96000;
    unsigned char head[44] = "RIFF....WAVEfmt \x10\0\0\0\1\0\1\0\x80\xbb\0\0\0\x77\1\0\2\0\x10\0data";
    for (int list = 0; list < 2; list++) { /* with tags after the sound, and without */
        for (int i = 0; i < 4; i++) {
            head[4 + i] = (unsigned char)((n + 36 + (list ? 12 : 0)) >> 8 * i);
            head[40 + i] = (unsigned char)(n >> 8 * i);
        }
        const int fd = open(in_dir("big.wav"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        ck_assert_int_eq(write(fd, head, 44), 44);
        ck_assert_int_eq(ftruncate(fd, (off_t)n + 44), 0);
        if (list)
            ck_assert_int_eq(pwrite(fd, "LIST\4\0\0\0INFO", 12, (off_t)n + 44), 12);
        close(fd);
        struct sound_in f;
        struct err err = {0};
        ck_assert_msg(sound_in_open(&f, in_dir("big.wav"), NULL, &err) == 0, "%s", err.text);
        ck_assert_int_eq(f.info.frames, n / 2);
        ck_assert_ptr_null(sound_in_fault(&f));
        float x[100];
        ck_assert_int_eq(sf_seek(f.file, (sf_count_t)n / 2 - 50, SEEK_SET), (sf_count_t)n / 2 - 50);
        ck_assert_int_eq(sound_in_read(&f, x, 100, &err), 50);
        sound_in_close(&f);
    }
}
END_TEST

/* AIFF has no header for such a length. */
START_TEST(an_aiff_file_over_4_gib_is_refused) {
    begin(0);
    const char head[54] = "FORM....AIFFCOMM\0\0\0\x12\0\1....\0\x10\x40\x0e\xbb\x80\0\0\0\0\0\0SSND";
    const int fd = open(in_dir("big.aiff"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(fd, head, sizeof head), sizeof head);
    ck_assert_int_eq(ftruncate(fd, (off_t)((UINT64_C(1) << 32) + 96000)), 0);
    close(fd);
    ck_assert_int_eq(enhance(in_dir("big.aiff"), in_dir("big.aiff"), &(struct how){0}), 1);
    ck_assert_msg(strstr(err_text, "holds more sound than a file of its format can count"), "%s", err_text);
}
END_TEST

START_TEST(sounds_too_long_for_a_format_are_refused) {
    static const struct {
        const char *name;
        int subtype, format;
        sf_count_t frames;
    } outs[] = {
        {"o.wav", SF_FORMAT_PCM_16, SF_FORMAT_WAV, 2000000000},
        {"o.wav", SF_FORMAT_PCM_16, SF_FORMAT_RF64, 2147483648},
        {"o.wav", SF_FORMAT_DOUBLE, SF_FORMAT_RF64, 536870912},
        {"o.aiff", SF_FORMAT_PCM_16, 0, 2147483648},
        {"o.au", SF_FORMAT_FLOAT, 0, 1073741824},
        {"o.voc", SF_FORMAT_PCM_16, 0, 8388608},
        {"o.w64", SF_FORMAT_PCM_16, SF_FORMAT_W64, 1ll << 40},
        {"o.flac", SF_FORMAT_PCM_16, SF_FORMAT_FLAC, 1ll << 34},
    };
    begin(0);
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++) {
        struct sound_out o;
        struct err err = {0};
        const SF_INFO like = {.samplerate = RATE, .channels = 1, .format = SF_FORMAT_WAV | outs[i].subtype};
        const int code = sound_out_open(&o, in_dir(outs[i].name), &like, outs[i].frames, &err);
        ck_assert_msg((code == 0) == (outs[i].format != 0), "%s: %s", outs[i].name, err.text);
        if (code == 0)
            ck_assert_int_eq(o.format & SF_FORMAT_TYPEMASK, outs[i].format);
        else
            ck_assert_msg(strstr(err.text, "more sound than this format can count"), "%s", err.text);
        sound_out_drop(&o);
        ck_assert_uint_eq(n_files(), 0);
    }
    /* Nobody knew the length. */
    struct sound_out o;
    struct err err = {0};
    float x[200] = {0};
    const SF_INFO like = {.samplerate = RATE, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    ck_assert_int_eq(sound_out_open(&o, in_dir("o.aiff"), &like, 0, &err), 0);
    o.most_frames = 300;
    ck_assert_int_eq(sound_out_write(&o, x, 200, &err), 0);
    ck_assert_int_eq(sound_out_write(&o, x, 200, &err), -EFBIG);
    sound_out_drop(&o);
    ck_assert_uint_eq(n_files(), 0);
}
END_TEST

/* The sound of a pipe, say. A hole stands for 4 GiB of it. */
START_TEST(a_wav_file_of_unknown_length_may_exceed_4_gib) {
    begin(0);
    for (int big = 0; big < 2; big++) {
        struct sound_out o;
        struct sound_in f;
        struct err err = {0};
        const SF_INFO like = {.samplerate = RATE, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
        const uint64_t hole = big ? UINT64_C(1) << 32 : 0;
        float x[200] = {0};
        ck_assert_int_eq(sound_out_open(&o, in_dir("o.wav"), &like, 0, &err), 0);
        ck_assert_int_eq(sound_out_write(&o, x, 200, &err), 0);
        o.bytes.at += hole;
        ck_assert_int_eq(sound_out_write(&o, x, 200, &err), 0);
        ck_assert_int_eq(sound_out_close(&o, &err), 0);
        ck_assert_int_eq(sound_out_finish(&o, &err), 0);
        sound_out_drop(&o);
        ck_assert_int_eq(sound_in_open(&f, in_dir("o.wav"), NULL, &err), 0);
        ck_assert_int_eq((f.info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_RF64, big);
        ck_assert_int_eq(f.info.frames, 400 + hole / 2);
        ck_assert_ptr_null(sound_in_fault(&f));
        sound_in_close(&f);
    }
}
END_TEST

/* ---- streams and names ------------------------------------------------------------------------------------------- */

START_TEST(pipes_and_standard_streams_are_files_too) {
    begin(0);
    char in[512], out[512], fifo[512];
    snprintf(in, sizeof in, "%s", in_dir("in.flac"));
    snprintf(out, sizeof out, "%s", in_dir("out.wav"));
    snprintf(fifo, sizeof fifo, "%s", in_dir("fifo"));
    write_sound(in, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SHORT);
    ck_assert_msg(enhance("-", "-", &(struct how){.in = in, .out = out}) == 0, "%s", err_text);
    ck_assert_int_eq(length(out), SHORT);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    const pid_t cat = fork();
    if (!cat) {
        dup2(open(fifo, O_WRONLY), 1);
        execlp("cat", "cat", in, NULL);
        _exit(98);
    }
    ck_assert_msg(enhance(fifo, out, &(struct how){0}) == 0, "%s", err_text);
    ck_assert_int_eq(waitpid(cat, NULL, 0), cat);
    ck_assert_int_eq(length(out), SHORT);
    ck_assert_int_eq(enhance(in, "-", &(struct how){.out = "/dev/full"}), 1);
    ck_assert_msg(strstr(err_text, "standard output: cannot be written: No space left on device"), "%s", err_text);
    unlink(out);
    const pid_t waits = start(fifo, out, &(struct how){0}); /* nobody writes */
    await_open(waits, dir, fifo);
    ck_assert_int_eq(kill(waits, SIGINT), 0);
    ck_assert_int_eq(await(waits), -SIGINT);
    ck_assert_int_eq(access(out, F_OK), -1);
}
END_TEST

START_TEST(a_name_of_255_bytes_is_written) {
    begin(0);
    char name[260], in[512];
    snprintf(in, sizeof in, "%s", in_dir("in.wav"));
    write_sound(in, SF_FORMAT_WAV | SF_FORMAT_PCM_16, SHORT);
    for (int n = 247; n <= 256; n++) {
        memset(name, 'a', sizeof name);
        strcpy(name + n - 4, ".wav");
        for (int named = 0; named < 2; named++) {
            const int status = enhance(in, in_dir(name), &(struct how){.denial = named ? &no_tmpfile : NULL});
            if (status != UNTRIED)
                ck_assert_msg(status == (n > 255), "%d bytes: %d, %s", n, status, err_text);
            ck_assert_int_eq(access(in_dir(name), F_OK), n > 255 ? -1 : 0);
            unlink(in_dir(name));
        }
    }
}
END_TEST

/* As ffmpeg writes it: frames vary in size, and no encoder's info frame has their number, so libsndfile guesses the
 * length. */
START_TEST(mp3_in_a_wav_is_whole) {
    static const unsigned char head[] = {'R',  'I',  'F',  'F', 0, 0, 0,    0, 'W', 'A', 'V',  'E',  'f', 'm',
                                         't',  ' ',  30,   0,   0, 0, 0x55, 0, 1,   0,   0x44, 0xac, 0,   0,
                                         0x80, 0x3e, 0,    0,   1, 0, 0,    0, 12,  0,   1,    0,    2,   0,
                                         0,    0,    0x80, 4,   1, 0, 0x71, 5, 'd', 'a', 't',  'a'};
    begin(0);
    float x[SHORT] = {0};
    SF_INFO info = {.samplerate = 44100, .channels = 1, .format = SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};
    SNDFILE *f = sf_open(in_dir("in.mp3"), SFM_WRITE, &info);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(sf_writef_float(f, x, SHORT), SHORT);
    sf_close(f);
    const struct bytes mp3 = load(in_dir("in.mp3"));
    const unsigned char *second = memmem(mp3.data + 4, mp3.n - 4, "\xff\xfb", 2);
    ck_assert_ptr_nonnull(second);
    const size_t n = mp3.n - (size_t)(second - mp3.data);
    struct bytes wav = {malloc(sizeof head + 4 + n), sizeof head + 4 + n};
    memcpy(wav.data, head, sizeof head);
    memcpy(wav.data + sizeof head + 4, second, n);
    for (int i = 0; i < 4; i++) {
        wav.data[sizeof head + i] = (unsigned char)(n >> 8 * i);
        wav.data[4 + i] = (unsigned char)((wav.n - 8) >> 8 * i);
    }
    save(in_dir("mp3.wav"), &wav);
    ck_assert_msg(enhance(in_dir("mp3.wav"), in_dir("out.wav"), &(struct how){0}) == 0, "%s", err_text);
    wav.n -= n / 2;
    save(in_dir("mp3.wav"), &wav);
    ck_assert_int_eq(enhance(in_dir("mp3.wav"), in_dir("out.wav"), &(struct how){0}), 3);
    ck_assert_msg(strstr(err_text, "is cut short"), "%s", err_text);
    free(wav.data);
    free(mp3.data);
}
END_TEST

START_TEST(errors_say_what_to_do_with_other_files) {
    /* clang-format off */
    static const struct {
        const char *name, *head, *says;
        size_t n;
    } others[] = {
        {"a.m4a", "\0\0\0\x20" "ftypM4A \0\0\0\0", "is an MP4 or M4A file, which libsndfile does not read", 16},
        {"a.wma", "\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\0\xaa\0\x62\xce\x6c", "is a WMA or WMV file", 16},
        {"a.webm", "\x1a\x45\xdf\xa3\1\0\0\0\0\0\0\x1f\x42\x86\x81\1", "is a WebM or Matroska file", 16},
        {"a.aac", "\xff\xf1\x50\x80\x2e\x7f\xfc\x21\x4c\xa0\x82\0\0\0\0\0", "is an AAC file", 16},
        {"a.spx", "OggS\0\2\0\0\0\0\0\0\0\0ag\xe4\x84\0\0\0\0V\x17\\\x1e\1PSpeex   ", "is a Speex file", 36},
        {"a.oga", "OggS\0\2\0\0\0\0\0\0\0\0\x12" "F\x88<\0\0\0\0\xcd\x36\xc3\xfe\1\x33\x7f" "FLAC\1\0",
         "is a FLAC stream in Ogg", 36},
        {"a.tta", "TTA1\1\0\1\0\x10\0\x80\xbb\0\0\0\x77", "is a True Audio file", 16},
        {"a.ac3", "\x0b\x77\x73\x0e\x0c\x40\x2f\x84\0\0\0\0\0\0\0", "is an AC-3 file", 16},
        {"a.nut", "nut/multimedia container", "is not a sound file in a format that libsndfile reads", 24},
        {"a.wav", "RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x45\0\1\0@\x1f\0\0@\x1f\0\0\1\0\4\0data\0\0\0\0",
         "uses an encoding that libsndfile does not read", 44},
    };
    /* clang-format on */
    begin(0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct bytes b = {(unsigned char *)others[i].head, others[i].n};
        save(in_dir(others[i].name), &b);
        char hint[600];
        snprintf(hint, sizeof hint, "convert it: ffmpeg -i '%s' sound.wav\n", in_dir(others[i].name));
        ck_assert_int_eq(enhance(in_dir(others[i].name), in_dir("out.wav"), &(struct how){0}), 1);
        ck_assert_msg(strstr(err_text, others[i].says) && strstr(err_text, hint), "%s", err_text);
    }
    const struct bytes quoted = {(unsigned char *)others[0].head, others[0].n};
    save(in_dir("it's.m4a"), &quoted);
    ck_assert_int_eq(enhance(in_dir("it's.m4a"), in_dir("out.wav"), &(struct how){0}), 1);
    ck_assert_msg(strstr(err_text, "/it'\\''s.m4a' sound.wav\n"), "%s", err_text);
    float x[SHORT];
    for (int i = 0; i < SHORT; i++)
        x[i] = 12000 * sinf(.03f * (float)i);
    SF_INFO info = {.samplerate = RATE, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *f = sf_open(in_dir("loud.wav"), SFM_WRITE, &info);
    ck_assert_int_eq(sf_writef_float(f, x, SHORT), SHORT);
    sf_close(f);
    ck_assert_int_eq(enhance(in_dir("loud.wav"), in_dir("loud.wav"), &(struct how){0}), 1);
    ck_assert_msg(strstr(err_text, "numbers of 16 bits") && strstr(err_text, "volume=1/32768"), "%s", err_text);
    ck_assert_int_eq(length(in_dir("loud.wav")), SHORT);
}
END_TEST

int main(void) {
    if (!mkdtemp(root))
        return 99;
    Suite *s = suite_create("recordings");
    const struct {
        const char *name;
        const TTest *test;
        int n;
    } cases[] = {
        {"faults", every_format_and_fault_is_as_documented, N_FORMATS},
        {"joined", joined_files_must_match, N_FORMATS - 1}, /* Opus has one rate */
        {"signals", no_signal_leaves_anything_behind, N_FORMATS},
        {"wrapped", a_length_that_wrapped_around_is_corrected, 1},
        {"sizes", an_aiff_file_over_4_gib_is_refused, 1},
        {"sizes", sounds_too_long_for_a_format_are_refused, 1},
        {"sizes", a_wav_file_of_unknown_length_may_exceed_4_gib, 1},
        {"streams", pipes_and_standard_streams_are_files_too, 1},
        {"names", a_name_of_255_bytes_is_written, 1},
        {"MP3 in WAV", mp3_in_a_wav_is_whole, 1},
        {"others", errors_say_what_to_do_with_other_files, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TCase *t = tcase_create(cases[i].name); /* CK_RUN_CASE chooses one */
        tcase_add_loop_test(t, cases[i].test, 0, cases[i].n);
        tcase_set_timeout(t, 600);
        suite_add_tcase(s, t);
    }
    const int failed = run_suite(s, CK_FORK);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || failed;
}
