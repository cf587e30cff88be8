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

struct scores {
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

/* sounds [n_sounds] of PESQ_RATE and equal length, the clean one first -> PESQ of the others, NaN where it fails.
 * Returns false if PESQ is not installed. */
static bool run_pesq(const struct sound *sounds, size_t n_sounds, struct scores *scores) {
    int ends[2]; /* ours, and the scorer's for both of its streams */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    char length[32];
    snprintf(length, sizeof length, "%zu", sounds[0].n);
    char *argv[] = {"python3", "-c", (char *)pesq_program, length, NULL};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", 1, 0);
    pid_t pid;
    int error = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ), status = 0;
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    /* the scorer reads all input before it writes, and may exit without reading */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; !error && i < n_sounds; i++)
        if (file_put(ends[0], sounds[i].samples, sounds[i].n * sizeof *sounds[i].samples) < 0)
            break;
    shutdown(ends[0], SHUT_WR);
    signal(SIGPIPE, before);
    FILE *f = fdopen(ends[0], "r");
    for (size_t i = 1; !error && f && i < n_sounds; i++)
        if (fscanf(f, "%lf", &scores[i].pesq) != 1)
            scores[i].pesq = NAN;
    if (f)
        fclose(f);
    else
        close(ends[0]);
    if (!error)
        waitpid(pid, &status, 0);
    return !error && !(WIFEXITED(status) && (WEXITSTATUS(status) == PESQ_MISSING || WEXITSTATUS(status) == 127));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void sounds_free(struct sound *sounds, size_t n_sounds) {
    for (size_t i = 0; sounds && i < n_sounds; i++)
        sound_done(&sounds[i]);
    free(sounds);
}

/* Cuts all sounds, which have the same rate, to one length; returns how many samples the longest lost. */
static size_t cut_to_shortest(struct sound *sounds, size_t n_sounds) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < n_sounds; i++) {
        least = sounds[i].n < least ? sounds[i].n : least;
        most = sounds[i].n > most ? sounds[i].n : most;
    }
    for (size_t i = 0; i < n_sounds; i++)
        sounds[i].n = least;
    return most - least;
}

/* Copies sounds [n_sounds] at another rate. */
static int resample_all(struct sound *copies, const struct sound *sounds, size_t n_sounds, unsigned rate, char **paths,
                        struct err *err) {
    int code = 0;
    for (size_t i = 0; code == 0 && i < n_sounds; i++)
        code = sound_resample(&copies[i], &sounds[i], rate, paths[i], err);
    return code;
}

/* The clean sound is the first, here and below. */
static int score_all(struct scores *scores, bool *has_pesq, const struct sound *sounds, size_t n_sounds, char **paths,
                     struct err *err) {
    const struct sound *clean = &sounds[0];
    struct sound *at_stoi = calloc(n_sounds, sizeof *at_stoi), *at_pesq = calloc(n_sounds, sizeof *at_pesq);
    int code = at_stoi && at_pesq ? 0 : err_set(err, -ENOMEM, "out of memory");
    if (code == 0)
        code = resample_all(at_stoi, sounds, n_sounds, SCORE_STOI_RATE, paths, err);
    for (size_t i = 1; code == 0 && i < n_sounds; i++) {
        const float *x = sounds[i].samples;
        scores[i].si_sdr = score_si_sdr(clean->samples, x, clean->n);
        scores[i].segmental_snr = score_segmental_snr(clean->samples, x, clean->n, clean->rate);
        if (score_stoi(&scores[i].stoi, at_stoi[0].samples, at_stoi[i].samples, at_stoi[0].n) < 0)
            code = err_set(err, -ENOMEM, "%s: out of memory", paths[i]);
    }
    if (code == 0)
        code = resample_all(at_pesq, sounds, n_sounds, PESQ_RATE, paths, err);
    if (code == 0)
        *has_pesq = run_pesq(at_pesq, n_sounds, scores);
    sounds_free(at_stoi, n_sounds);
    sounds_free(at_pesq, n_sounds);
    return code;
}

static void print_cell(int width, int digits, double value) {
    if (isnan(value))
        printf("  %*s", width, "-");
    else
        printf("  %*.*f", width, digits, value);
}

static void print_table(char **paths, const struct scores *scores, size_t n_sounds, bool has_pesq) {
    int width = 0;
    for (size_t i = 1; i < n_sounds; i++)
        width = (int)strlen(paths[i]) > width ? (int)strlen(paths[i]) : width;
    printf("%-*s  SI-SDR dB  seg. SNR dB   STOI%s\n", width, "", has_pesq ? "  WB-PESQ" : "");
    for (size_t i = 1; i < n_sounds; i++) {
        printf("%-*s", width, paths[i]);
        print_cell(9, 2, scores[i].si_sdr);
        print_cell(11, 2, scores[i].segmental_snr);
        print_cell(5, 3, scores[i].stoi);
        if (has_pesq)
            print_cell(7, 2, scores[i].pesq);
        putchar('\n');
    }
}

/* paths [n_sounds], the clean one first. */
static int compare(char **paths, size_t n_sounds, struct err *err) {
    bool has_pesq = false;
    struct sound *sounds = calloc(n_sounds, sizeof *sounds);
    struct scores *scores = calloc(n_sounds, sizeof *scores);
    int code = sounds && scores ? 0 : err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; code == 0 && i < n_sounds; i++) {
        code = sound_read(&sounds[i], paths[i], err);
        if (code == 0 && sounds[i].rate != sounds[0].rate)
            code = err_set(err, -EINVAL, "%s: its rate is %u Hz, that of %s %u Hz", paths[i], sounds[i].rate, paths[0],
                           sounds[0].rate);
    }
    if (code == 0) {
        size_t n_cut = cut_to_shortest(sounds, n_sounds);
        code = score_all(scores, &has_pesq, sounds, n_sounds, paths, err);
        if (code == 0) {
            print_table(paths, scores, n_sounds, has_pesq);
            printf("Compared with %s sample by sample; delays are not compensated.\n", paths[0]);
            if (n_cut)
                printf("The files differ in length; only the first %.2f s are compared.\n",
                       (double)sounds[0].n / sounds[0].rate);
            if (!has_pesq)
                puts(
                    "For PESQ, install its Python package: python3 -m venv pesq && pesq/bin/pip install pesq,\n"
                    "then PATH=pesq/bin:$PATH primeknet compare ...");
        }
    }
    sounds_free(sounds, n_sounds);
    free(scores);
    return code;
}

static int run_compare(const struct cli_call *call) {
    char **paths = call->words, *noisy = paths[0];
    paths[0] = paths[1];
    paths[1] = noisy;
    struct err err;
    return compare(paths, call->n_words, &err) < 0 ? cli_fail("%s", err.text) : cli_done;
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
