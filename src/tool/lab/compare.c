/* primeknet compare: scores sound files against the clean one. */
#include "tool/cli.h"

#include "base/file.h"
#include "tool/lab/score.h"
#include "tool/sound.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PESQ_RATE = 16000, PESQ_MISSING = 3 };

extern char **environ;

struct file {
    const char *path;
    struct sound sound, at_stoi, at_pesq; /* and at the rates of these scores */
    double si_sdr, segmental_snr, stoi, pesq;
};

/* ---- PESQ: the standard's code may not be redistributed, but a Python package brings it -------------------------- */

static const char pesq_program[] =
    "import sys\n"
    "try:\n"
    "    import numpy\n"
    "    from pesq import pesq\n"
    "except ImportError:\n"
    "    sys.exit(3)\n"
    "sounds = numpy.frombuffer(sys.stdin.buffer.read(), 'f4').reshape(-1, int(sys.argv[1]))\n"
    "for sound in sounds[1:]:\n"
    "    try:\n"
    "        print(pesq(16000, sounds[0], sound, 'wb'))\n"
    "    except Exception:\n"
    "        print('nan')\n";

/* files [n], the clean one first, of equal length -> PESQ of the others, NaN where it fails. Returns false if PESQ is
 * not installed. */
static bool run_pesq(struct file *files, size_t n) {
    int ends[2]; /* ours, and the scorer's for both of its streams */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    char length[32];
    snprintf(length, sizeof length, "%zu", files[0].at_pesq.n);
    char *argv[] = {"python3", "-c", (char *)pesq_program, length, NULL};
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_adddup2(&streams, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&streams, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, "/dev/null", 1, 0);
    pid_t pid;
    int error = posix_spawnp(&pid, argv[0], &streams, NULL, argv, environ), status = 0;
    posix_spawn_file_actions_destroy(&streams);
    close(ends[1]);
    /* the scorer reads all input before it writes, and may exit without reading */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; !error && i < n; i++)
        if (file_put(ends[0], files[i].at_pesq.samples, files[i].at_pesq.n * sizeof(float)) < 0)
            break;
    shutdown(ends[0], SHUT_WR);
    signal(SIGPIPE, before);
    FILE *f = fdopen(ends[0], "r");
    for (size_t i = 1; !error && f && i < n; i++)
        if (fscanf(f, "%lf", &files[i].pesq) != 1)
            files[i].pesq = NAN;
    if (f)
        fclose(f);
    else
        close(ends[0]);
    if (!error)
        waitpid(pid, &status, 0);
    return !error && !(WIFEXITED(status) && (WEXITSTATUS(status) == PESQ_MISSING || WEXITSTATUS(status) == 127));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Cuts all sounds, which have the same rate, to one length; returns how many samples the longest lost. */
static size_t cut_to_shortest(struct file *files, size_t n) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        least = files[i].sound.n < least ? files[i].sound.n : least;
        most = files[i].sound.n > most ? files[i].sound.n : most;
    }
    for (size_t i = 0; i < n; i++)
        files[i].sound.n = least;
    return most - least;
}

/* The clean sound is the first, here and below. */
static int score_all(struct file *files, size_t n, bool *has_pesq, struct err *err) {
    const struct file *clean = &files[0];
    const struct sound *c = &clean->sound;
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++) {
        code = sound_resample(&files[i].at_stoi, &files[i].sound, SCORE_STOI_RATE, files[i].path, err);
        if (code == 0)
            code = sound_resample(&files[i].at_pesq, &files[i].sound, PESQ_RATE, files[i].path, err);
    }
    for (size_t i = 1; code == 0 && i < n; i++) {
        const float *x = files[i].sound.samples;
        files[i].si_sdr = score_si_sdr(c->samples, x, c->n);
        files[i].segmental_snr = score_segmental_snr(c->samples, x, c->n, c->rate);
        if (score_stoi(&files[i].stoi, clean->at_stoi.samples, files[i].at_stoi.samples, clean->at_stoi.n) < 0)
            code = err_set(err, -ENOMEM, "%s: out of memory", files[i].path);
    }
    if (code == 0)
        *has_pesq = run_pesq(files, n);
    return code;
}

static void print_cell(int width, int digits, double value) {
    if (isnan(value))
        printf("  %*s", width, "-");
    else
        printf("  %*.*f", width, digits, value);
}

static void print_table(const struct file *files, size_t n, bool has_pesq) {
    int width = 0;
    for (size_t i = 1; i < n; i++)
        width = (int)strlen(files[i].path) > width ? (int)strlen(files[i].path) : width;
    printf("%-*s  SI-SDR dB  seg. SNR dB   STOI%s\n", width, "", has_pesq ? "  WB-PESQ" : "");
    for (size_t i = 1; i < n; i++) {
        printf("%-*s", width, files[i].path);
        print_cell(9, 2, files[i].si_sdr);
        print_cell(11, 2, files[i].segmental_snr);
        print_cell(5, 3, files[i].stoi);
        if (has_pesq)
            print_cell(7, 2, files[i].pesq);
        putchar('\n');
    }
}

/* files [n], whose paths are given. */
static int compare(struct file *files, size_t n, struct err *err) {
    bool has_pesq = false;
    const struct file *clean = &files[0];
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++) {
        struct file *f = &files[i];
        code = sound_read(&f->sound, f->path, err);
        if (code == 0 && f->sound.rate != clean->sound.rate)
            code = err_set(err, -EINVAL, "%s: its rate is %u Hz, that of %s %u Hz", f->path, f->sound.rate, clean->path,
                           clean->sound.rate);
    }
    const size_t n_cut = code == 0 ? cut_to_shortest(files, n) : 0;
    if (code == 0)
        code = score_all(files, n, &has_pesq, err);
    if (code < 0)
        return code;
    print_table(files, n, has_pesq);
    printf("Compared with %s sample by sample; delays are not compensated.\n", clean->path);
    if (n_cut)
        printf("The files differ in length; only the first %.2f s are compared.\n",
               (double)clean->sound.n / clean->sound.rate);
    if (!has_pesq)
        puts("For PESQ, install its Python package: python3 -m venv pesq && pesq/bin/pip install pesq,\n"
             "then PATH=pesq/bin:$PATH primeknet compare ...");
    return 0;
}

static int run_compare(const struct cli_call *call) {
    struct err err;
    struct file *files = calloc(call->n_words, sizeof *files);
    if (!files)
        return cli_fail("out of memory");
    for (unsigned i = 0; i < call->n_words; i++)
        files[i].path = call->words[i < 2 ? 1 - i : i]; /* the clean one first */
    const int code = compare(files, call->n_words, &err);
    int status = code < 0 ? cli_fail("%s", err.text) : cli_done;
    for (unsigned i = 0; i < call->n_words; i++) {
        if (status != cli_failed && files[i].sound.fault) {
            cli_fail("%s: %s", files[i].path, files[i].sound.fault);
            status = cli_cut_short;
        }
        sound_done(&files[i].sound);
        sound_done(&files[i].at_stoi);
        sound_done(&files[i].at_pesq);
    }
    free(files);
    return status;
}

const struct cli_command compare_command = {
    .name = "compare",
    .summary = "score files against the clean recording",
    .run = run_compare,
    .arguments = {{"NOISY", .kind = CLI_FILE},
                  {"CLEAN", .kind = CLI_FILE},
                  {"ENHANCED", .kind = CLI_FILE, .optional = true, .many = true}},
    .about = "Scores NOISY and each ENHANCED against CLEAN: SI-SDR and segmental signal-to-noise ratio in dB, STOI,\n"
             "and wide-band PESQ if Python's package pesq is installed. The files must have the same rate; they are\n"
             "compared sample by sample, without looking for a delay, up to the end of the shortest.\n",
};
