/* primeknet enhance: enhances one sound file, or many files and folders, as many in parallel as there are cores. */
#include "config.h"

#include "tool/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "control/names.h"
#include "control/presets.h"
#include "control/values.h"
#include "tool/enhance.h"
#include "tool/sound_file.h"

#include <errno.h>
#include <fts.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One file keeps a GPU busy; meanwhile the others read, resample and write. */
enum { MOST_THREADS = 256, MOST_ON_GPU = 4, BAR_WIDTH = 40, BAR_MS = 100 };

static atomic_int interrupted; /* the signal's number, or 0 */

struct arguments {
    char **words; /* terminated by NULL */
    const char *out, *model, *engine;
    struct primeknet_controls controls;
    bool cold;
};

struct file {
    char *in, *out;
    double size;         /* bytes: the file's share of the total work */
    _Atomic float share; /* the share of this file that is done, 0 to 1 */
};

struct batch {
    const struct arguments *args;
    struct primeknet *first; /* each thread opens another like it */
    struct file *files;
    size_t n;
    size_t n_others; /* files in folders without the extension of a sound file */
    double size;
    bool bar;
    atomic_size_t next; /* the next file to take */

    pthread_mutex_t lock; /* protects what follows, and the terminal */
    pthread_cond_t changed;
    unsigned n_running; /* threads */
    size_t n_done, n_failed, n_cut;
};

static int out_of_memory(void) {
    return cli_fail("out of memory");
}

/* ---- finding the files ------------------------------------------------------------------------------------------ */

/* Takes ownership of `out`, which is NULL if memory ran out. */
static int add(struct batch *b, const char *in, char *out, double size) {
    struct file *files = realloc(b->files, (b->n + 1) * sizeof *files);
    char *copy = strdup(in);
    if (files)
        b->files = files;
    if (!files || !out || !copy) {
        free(copy);
        free(out);
        return out_of_memory();
    }
    b->files[b->n++] = (struct file){.in = copy, .out = out, .size = size};
    b->size += size;
    return cli_done;
}

/* Adds a file whose output goes to the folder of --out as `name`. */
static int add_to_folder(struct batch *b, const char *in, const char *name, double size) {
    char out[4096];
    if (path_join(out, sizeof out, b->args->out, name) < 0)
        return cli_fail("%s: the name is too long", in);
    return add(b, in, strdup(out), size);
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Reports a path that cannot be used; the rest of the batch continues. */
static void leave_out(struct batch *b, const char *path, const char *why) {
    cli_fail("%s: %s", path, why);
    b->n_failed++;
}

/* Adds the sound files in a folder and its subfolders, except hidden ones and those in the folder of --out. */
static int add_folder(struct batch *b, char *folder, const struct stat *out) {
    size_t n = strlen(folder);
    const size_t n_before = b->n + b->n_failed;
    int status = cli_done;
    while (n > 1 && folder[n - 1] == '/')
        folder[--n] = '\0';
    FTS *walk = fts_open((char *[]){folder, NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    if (!walk)
        return out_of_memory();
    for (FTSENT *e; status == cli_done && (e = fts_read(walk));) {
        const char *name = e->fts_path + n + (folder[n - 1] != '/');
        if (e->fts_level > 0 && e->fts_name[0] == '.')
            fts_set(walk, e, FTS_SKIP);
        else if (e->fts_info == FTS_D && out && same_file(e->fts_statp, out))
            fts_set(walk, e, FTS_SKIP);
        else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            leave_out(b, e->fts_path, strerror(e->fts_errno));
        else if (e->fts_info == FTS_F && sound_file_named(e->fts_name))
            status = add_to_folder(b, e->fts_path, name, (double)e->fts_statp->st_size);
        else if (e->fts_info == FTS_F)
            b->n_others++;
    }
    fts_close(walk);
    if (status == cli_done && b->n + b->n_failed == n_before)
        leave_out(b, folder, "contains no sound files");
    return status;
}

static int by_out(const void *a, const void *b) {
    return strcmp(((const struct file *)a)->out, ((const struct file *)b)->out);
}

/* No output may be written twice, or over another file's input. */
static int check_outs(struct batch *b) {
    struct stat in, out;
    if (b->n)
        qsort(b->files, b->n, sizeof *b->files, by_out);
    for (size_t i = 0; i < b->n; i++) {
        const struct file *f = &b->files[i];
        if (i && strcmp(f->out, f[-1].out) == 0)
            return cli_fail("%s and %s would both be written to %s", f[-1].in, f->in, f->out);
        if (stat(f->in, &in) == 0 && stat(f->out, &out) == 0 && same_file(&in, &out))
            return cli_fail("%s: would be overwritten; choose another folder for --out", f->in);
    }
    return cli_done;
}

static int list_files(struct batch *b) {
    const struct arguments *a = b->args;
    struct stat st, out;
    if (!a->out)
        return add(b, a->words[0], strdup(a->words[1]), 1);
    const bool exists = stat(a->out, &out) == 0;
    if (exists && !S_ISDIR(out.st_mode))
        return cli_fail("%s: is not a folder", a->out);
    int status = cli_done;
    for (char **word = a->words; *word && status == cli_done; word++) {
        const bool is_there = stat(*word, &st) == 0;
        if (is_there && S_ISDIR(st.st_mode) && exists && same_file(&st, &out))
            status = cli_fail("%s: its files would be overwritten; choose another folder for --out", *word);
        else if (is_there && S_ISDIR(st.st_mode))
            status = add_folder(b, *word, exists ? &out : NULL);
        else
            status = add_to_folder(b, *word, basename(*word), is_there ? (double)st.st_size : 0);
    }
    return status == cli_done ? check_outs(b) : status;
}

/* ---- the progress bar: all files, weighted by size -------------------------------------------------------------- */

static void print_bar(const struct batch *b, double elapsed_s) {
    double done = 0;
    for (size_t i = 0; i < b->n; i++)
        done += b->files[i].share * b->files[i].size;
    const double share = b->size > 0 ? done / b->size : 0;
    const int full = (int)(share * BAR_WIDTH);
    fprintf(stderr, "\r[%.*s%*s] ", full, "########################################", BAR_WIDTH - full, "");
    if (b->n > 1)
        fprintf(stderr, "%zu of %zu files, ", b->n_done, b->n);
    fprintf(stderr, "%.0f %%", 100 * share);
    if (share > 0 && elapsed_s > 1) {
        const long left = lround(elapsed_s / share * (1 - share));
        if (left >= 3600)
            fprintf(stderr, ", %ld:%02ld:%02ld left", left / 3600, left / 60 % 60, left % 60);
        else
            fprintf(stderr, ", %ld:%02ld left", left / 60, left % 60);
    }
    fputs("\033[K", stderr);
}

static void await_all(struct batch *b) {
    const int64_t start = now_ms();
    pthread_mutex_lock(&b->lock);
    while (b->n_running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += BAR_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&b->changed, &b->lock, &until);
        if (b->bar)
            print_bar(b, (double)(now_ms() - start) / 1000);
    }
    if (b->bar)
        fputs("\r\033[K", stderr);
    pthread_mutex_unlock(&b->lock);
}

/* ---- the work -------------------------------------------------------------------------------------------------- */

static void file_done(struct batch *b, int code, const struct err *err) {
    pthread_mutex_lock(&b->lock);
    b->n_done += code >= 0;
    b->n_failed += code < 0;
    b->n_cut += code > 0;
    if (code != 0 && code != -EINTR) {
        if (b->bar)
            fputs("\r\033[K", stderr);
        cli_fail("%s", err->text);
    }
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void *work(void *data) {
    struct batch *b = data;
    const struct arguments *a = b->args;
    struct enhancer e = {.like = b->first, .controls = a->controls, .cold = a->cold, .stop = &interrupted};
    for (size_t i; !interrupted && (i = atomic_fetch_add(&b->next, 1)) < b->n;) {
        struct file *f = &b->files[i];
        struct err err;
        int code = a->out ? make_parents(f->out, 0777, &err) : 0;
        if (code == 0)
            code = enhance_file(&e, f->in, f->out, &f->share, &err);
        file_done(b, code, &err);
    }
    enhancer_done(&e);
    pthread_mutex_lock(&b->lock);
    b->n_running--;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static unsigned count_cores(void) {
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : online > 0 ? (unsigned)online : 1;
}

static int run_all(struct batch *b) {
    pthread_t threads[MOST_THREADS];
    unsigned wanted = count_cores(), n = 0;
    if (strcmp(primeknet_get_engine(b->first), "cuda") == 0 && wanted > MOST_ON_GPU)
        wanted = MOST_ON_GPU;
    if (wanted > b->n)
        wanted = (unsigned)b->n;
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    pthread_mutex_lock(&b->lock);
    while (n < wanted && pthread_create(&threads[n], NULL, work, b) == 0)
        n++;
    b->n_running = n;
    pthread_mutex_unlock(&b->lock);
    if (n == 0)
        return cli_fail("cannot start a thread");
    await_all(b);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return b->n_failed ? cli_failed : b->n_cut ? cli_cut_short : cli_done;
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int parse(struct arguments *a, const struct cli_call *call) {
    const char *model = cli_option(call, 'm'), *engine = cli_option(call, 'e'), *strength = cli_option(call, 's');
    const char *floor_text = cli_option(call, 'f'), *low_cut = cli_option(call, 'l'), *name = cli_option(call, 'p');
    const char *level_text = cli_option(call, 'L');
    const struct preset *preset = preset_find(name ? name : PRESET_DEFAULT);
    *a = (struct arguments){.words = call->words,
                            .out = cli_option(call, 'o'),
                            .model = model ? model : "base",
                            .engine = engine ? engine : "auto",
                            .cold = cli_option(call, 'c')};
    if (!a->out && call->n_words < 2)
        return cli_misuse(call->command, "OUT is missing");
    if (!a->out && call->n_words > 2)
        return cli_misuse(call->command, "'%s' is not expected; several files need --out DIR", call->words[2]);
    for (char **word = a->words; a->out && *word; word++)
        if (strcmp(*word, "-") == 0)
            return cli_misuse(call->command, "--out: '-' has no name there; write IN OUT instead");
    if (a->out && !a->out[0])
        return cli_misuse(call->command, "--out: the name of the folder is empty");
    double share = preset->strength, floor_db = preset->floor_db, low_cut_hz = preset->low_cut_hz, level = -INFINITY;
    const struct {
        const char *option, *text;
        int setting;
        double *value;
    } numbers[] = {
        {"strength", strength, SETTING_strength, &share},
        {"floor", floor_text, SETTING_floor_db, &floor_db},
        {"low-cut", low_cut, SETTING_low_cut_hz, &low_cut_hz},
        {"level", level_text, SETTING_level, &level},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].text && !value_number(numbers[i].setting, numbers[i].text, numbers[i].value))
            return cli_misuse(call->command, "--%s: '%s' is not %s", numbers[i].option, numbers[i].text,
                              settings_allowed(numbers[i].setting));
    a->controls = (struct primeknet_controls){.size = sizeof a->controls,
                                              .strength = (float)share,
                                              .floor_db = (float)floor_db,
                                              .low_cut_hz = (float)low_cut_hz,
                                              .level_target = isfinite(level) ? (float)level : 0};
    return cli_done;
}

static void on_interrupt(int signal) {
    interrupted = signal;
}

/* Catches the signals that are not ignored (nohup ignores some). A file that gets too large is an error of write. */
static void await_signals(void) {
    const struct sigaction ends = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};
    const int signals[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
    struct sigaction before;
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &ends, NULL);
}

static int open_network(struct batch *b) {
    char error[PRIMEKNET_ERROR];
    const struct primeknet_options options = {.size = sizeof options, .engine = b->args->engine};
    return primeknet_open(&b->first, b->args->model, &options, error) == 0 ? cli_done : cli_fail("%s", error);
}

static void print_sum(const struct batch *b) {
    printf("%zu file%s enhanced in %s", b->n_done, b->n_done == 1 ? "" : "s", b->args->out);
    if (b->n_failed)
        printf(", %zu failed", b->n_failed);
    if (b->n_others)
        printf(", %zu other file%s skipped", b->n_others, b->n_others == 1 ? "" : "s");
    putchar('\n');
}

static int run_enhance(const struct cli_call *call) {
    struct arguments a;
    int status = parse(&a, call);
    if (status)
        return status;
    struct batch b = {.args = &a,
                      .bar = isatty(STDERR_FILENO),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    await_signals();
    status = list_files(&b);
    if (!status && !a.out && strcmp(a.words[1], "-") == 0 && isatty(STDOUT_FILENO))
        status = cli_fail("standard output is a terminal; send it to a file or a program");
    if (!status && b.n == 0)
        status = cli_failed;
    if (!status)
        status = open_network(&b);
    if (!status)
        status = run_all(&b);
    if (a.out && b.n_done + b.n_failed && !interrupted)
        print_sum(&b);
    for (size_t i = 0; i < b.n; i++) {
        free(b.files[i].in);
        free(b.files[i].out);
    }
    free(b.files);
    primeknet_close(b.first);
    if (interrupted)
        raise(interrupted); /* only now, because no partial file is left */
    return status;
}

const struct cli_command enhance_command = {
    .name = "enhance",
    .summary = "enhance the speech in sound files",
    .run = run_enhance,
    .usage = {"IN OUT [OPTION...]", "--out DIR FILE|FOLDER... [OPTION...]"},
    .arguments = {{"IN", .kind = CLI_FILE}, {"OUT", .kind = CLI_FILE, .optional = true, .many = true}},
    .options = {{'o', "out", "DIR", .kind = CLI_FILE, .help = "the folder to write to; created if necessary"},
                CLI_MODEL_OPTION,
                CLI_ENGINE_OPTION,
                {'p', "preset", "natural|balanced|strong", .kind = CLI_ONE_OF,
                 .help = "sets the next three together; default: balanced"},
                {'s', "strength", "S", .help = "from 0 (the input) to 1 (the full effect)"},
                {'f', "floor", "D", .kind = CLI_VALUE, .help = "lowest gain in dB, from -60 to 0, or off"},
                {'l', "low-cut", "F", .help = "remove frequencies below this, 0 (off) to 300 Hz"},
                {'L', "level", "L", .kind = CLI_VALUE,
                 .help = "loudness to bring speech to, -32 to -14 LUFS; auto: -23; default: off"},
                {'c', "cold-start", .help = "start as a live stream does, without hearing the beginning first"}},
    .about = "Enhances the speech in IN, any file that libsndfile reads, and writes OUT with the same rate, channels,\n"
             "length and tags, without delay; the extension of OUT determines the format. With --out each FILE is\n"
             "written to DIR under its own name, and so is each sound file in a FOLDER and its subfolders; as many\n"
             "files run at once as there are cores. - is standard input, or standard output as WAV.\n",
};
