/* primeknet mix: makes test material from clean speech, noise and rooms.
 *
 * x = s * h + g v: speech s in a room with impulse response h, and noise v with gain g. h is shifted and scaled so that
 * its largest sample, the direct path, is 1 at the start; the clean file of a pair is s. */
#include "config.h"

#include "tool/cli.h"

#include "base/file.h"
#include "base/text.h"
#include "kernels/fft/fft.h"
#include "kernels/kernels.h"
#include "model/pool.h"
#include "tool/sound.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { max_levels = 32 };

struct list {
    char **paths;
    size_t n;
};

struct arguments {
    struct list clean, noise, room; /* room: may be empty */
    const char *out;
    double snr_db[max_levels];
    unsigned n_levels;
    uint64_t seed;
};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void list_done(struct list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->paths[i]);
    free(l->paths);
}

static int list_add(struct list *l, const char *folder, const char *name, struct err *err) {
    char joined[4096];
    if (*name != '/' && *folder) {
        if (path_join(joined, sizeof joined, folder, name) < 0)
            return err_set(err, -ENAMETOOLONG, "%s: the name is too long", name);
        name = joined;
    }
    char **paths = realloc(l->paths, (l->n + 1) * sizeof *paths), *path = strdup(name);
    if (paths)
        l->paths = paths;
    if (!paths || !path) {
        free(path);
        return err_set(err, -ENOMEM, "%s: out of memory", name);
    }
    l->paths[l->n++] = path;
    return 0;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int list_folder(struct list *l, const char *folder, struct err *err) {
    struct dirent **entries;
    int n = scandir(folder, &entries, is_visible, alphasort), code = 0;
    if (n < 0)
        return err_set(err, -errno, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (code == 0)
            code = list_add(l, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return code;
}

/* Reads one file name per line, relative to the list's folder. */
static int list_lines(struct list *l, const char *path, struct err *err) {
    FILE *f = fopen(path, "r");
    if (!f)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    const char *slash = strrchr(path, '/');
    char *folder = strndup(path, slash ? (size_t)(slash - path) : 0), *line = NULL;
    size_t room = 0;
    int code = folder ? 0 : err_set(err, -ENOMEM, "%s: out of memory", path);
    while (code == 0 && getline(&line, &room, f) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line)
            code = list_add(l, folder, line, err);
    }
    if (code == 0 && ferror(f))
        code = err_set(err, -EIO, "%s: %s", path, strerror(errno));
    free(line);
    free(folder);
    fclose(f);
    return code;
}

static int list_of(struct list *l, const char *path, struct err *err) {
    struct stat st;
    const char *dot = strrchr(path, '.');
    int code;
    if (stat(path, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        code = list_folder(l, path, err);
    else if (dot && (strcmp(dot, ".txt") == 0 || strcmp(dot, ".lst") == 0))
        code = list_lines(l, path, err);
    else
        code = list_add(l, "", path, err);
    return code == 0 && l->n == 0 ? err_set(err, -EINVAL, "%s: names no file", path) : code;
}

/* ---- mixing ------------------------------------------------------------------------------------------------------ */

/* SplitMix64 (Steele et al. 2014): works equally well with any seed. */
static uint64_t draw(uint64_t *state, uint64_t n) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % n;
}

/* The mean power of the 20 ms frames within 20 dB of the loudest. */
static double speech_power(const float *x, size_t n, unsigned rate) {
    size_t frame = rate / 50 < n ? rate / 50 : n, n_loud = 0;
    double loudest = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t start = 0; start + frame <= n; start += frame) {
            double power = 0;
            for (size_t i = start; i < start + frame; i++)
                power += (double)x[i] * x[i] / (double)frame;
            if (pass == 0) {
                loudest = fmax(loudest, power);
            } else if (power > .01 * loudest) {
                sum += power;
                n_loud++;
            }
        }
    return n_loud ? sum / (double)n_loud : 0;
}

/* y [n] = x [n] convolved with h [m], by overlap-add with FFTs. */
static int convolve(float *y, const float *x, size_t n, const float *h, size_t m) {
    unsigned size = 32;
    while (size < 2 * m)
        size *= 2;
    const size_t piece = size - m + 1, n_bins = size / 2 + 1;
    const struct kernels *k = kernels_nth(0);
    struct pool pool = {0};
    float *time = pool_floats(&pool, size), *a = pool_floats(&pool, 2 * n_bins), *b = pool_floats(&pool, 2 * n_bins);
    struct fft_plan forward, inverse;
    fft_plan_init(&forward, pool_floats(&pool, fft_plan_init(&forward, NULL, size, false)), size, false);
    fft_plan_init(&inverse, pool_floats(&pool, fft_plan_init(&inverse, NULL, size, true)), size, true);
    const bool ok = pool_ok(&pool);
    if (ok) {
        memcpy(time, h, m * sizeof *time);
        k->fft(&(struct fft){&forward, time, b});
        memset(y, 0, n * sizeof *y);
    }
    for (size_t start = 0; ok && start < n; start += piece) {
        const size_t n_in = n - start < piece ? n - start : piece, n_out = n - start < size ? n - start : size;
        memset(time, 0, size * sizeof *time);
        memcpy(time, x + start, n_in * sizeof *time);
        k->fft(&(struct fft){&forward, time, a});
        for (size_t i = 0; i < 2 * n_bins; i += 2) {
            const float re = a[i] * b[i] - a[i + 1] * b[i + 1];
            a[i + 1] = a[i] * b[i + 1] + a[i + 1] * b[i];
            a[i] = re;
        }
        k->fft(&(struct fft){&inverse, a, time});
        for (size_t i = 0; i < n_out; i++)
            y[start + i] += time[i] / (float)size;
    }
    pool_done(&pool);
    return ok ? 0 : -ENOMEM;
}

/* Test material must not differ from what its table says. */
static int read_whole(struct sound *ret, const char *path, struct err *err) {
    const int code = sound_read(ret, path, err);
    if (code < 0 || !ret->fault)
        return code;
    err_set(err, 0, "%s: %s; mend it or leave it out", path, ret->fault);
    sound_done(ret);
    return -EINVAL;
}

static int read_at(struct sound *ret, const char *path, unsigned rate, struct err *err) {
    struct sound s;
    int code = read_whole(&s, path, err);
    if (code < 0)
        return code;
    code = sound_resample(ret, &s, rate, path, err);
    sound_done(&s);
    return code;
}

/* clean -> y [clean->n], as it sounds in the room, with the direct path unchanged. */
static int add_room(float *y, const struct sound *clean, const char *path, struct err *err) {
    struct sound h;
    int code = read_at(&h, path, clean->rate, err);
    if (code < 0)
        return code;
    size_t direct = 0;
    for (size_t i = 0; i < h.n; i++)
        if (fabsf(h.samples[i]) > fabsf(h.samples[direct]))
            direct = i;
    float scale = h.samples[direct];
    size_t m = h.n - direct < clean->n ? h.n - direct : clean->n;
    for (size_t i = 0; scale != 0 && i < m; i++)
        h.samples[direct + i] /= scale;
    if (scale == 0)
        code = err_set(err, -EINVAL, "%s: is silent, so not an impulse response", path);
    else if (m > INT32_MAX / 4)
        code = err_set(err, -EFBIG, "%s: is too long for an impulse response", path);
    else if (convolve(y, clean->samples, clean->n, h.samples + direct, m) < 0)
        code = err_set(err, -ENOMEM, "%s: out of memory", path);
    sound_done(&h);
    return code;
}

/* Adds noise to y [clean->n], from sample *begin on, repeating it if it is too short. */
static int add_noise(float *y, size_t n, unsigned rate, const char *clean_path, const char *path, double snr_db,
                     uint64_t *random, size_t *begin, struct err *err) {
    struct sound v;
    int code = read_at(&v, path, rate, err);
    if (code < 0)
        return code;
    double speech = speech_power(y, n, rate), noise = 0;
    *begin = draw(random, v.n > n ? v.n - n + 1 : v.n);
    for (size_t i = 0; i < n; i++) {
        double x = v.samples[(*begin + i) % v.n];
        noise += x * x / (double)n;
    }
    if (speech == 0 || noise == 0) {
        code = err_set(err, -EINVAL, "%s: is silent, so it has no level for mixing", speech == 0 ? clean_path : path);
    } else {
        float gain = (float)sqrt(speech / noise * pow(10, -snr_db / 10));
        for (size_t i = 0; i < n; i++)
            y[i] += gain * v.samples[(*begin + i) % v.n];
    }
    sound_done(&v);
    return code;
}

struct pair {
    const char *clean, *noise, *room;
    char name[512];
    double snr_db;
};

static int write_sound(const struct sound *s, const char *folder, const char *pair, const char *which,
                       struct err *err) {
    char name[512 + 16], path[4096];
    snprintf(name, sizeof name, "%s_%s.flac", pair, which);
    return path_join(path, sizeof path, folder, name) < 0
               ? err_set(err, -ENAMETOOLONG, "%s: the name is too long", folder)
               : sound_write(s, path, err);
}

/* Writes both files of a pair and its line in the table. */
static int mix_pair(const struct arguments *a, const struct pair *p, const struct sound *speech, uint64_t *random,
                    FILE *table, struct err *err) {
    struct sound clean = {0}, noisy = {0};
    size_t begin = 0;
    int code = sound_resample(&clean, speech, speech->rate, p->clean, err); /* a copy */
    if (code == 0)
        code = sound_resample(&noisy, speech, speech->rate, p->clean, err);
    if (code == 0 && p->room)
        code = add_room(noisy.samples, &clean, p->room, err);
    if (code == 0)
        code = add_noise(noisy.samples, noisy.n, noisy.rate, p->clean, p->noise, p->snr_db, random, &begin, err);
    if (code == 0) {
        float peak = 0;
        for (size_t i = 0; i < noisy.n; i++)
            peak = fmaxf(peak, fmaxf(fabsf(noisy.samples[i]), fabsf(clean.samples[i])));
        float gain = peak > .99f ? .99f / peak : 1; /* the same for both, to avoid clipping */
        for (size_t i = 0; i < noisy.n; i++) {
            clean.samples[i] *= gain;
            noisy.samples[i] *= gain;
        }
        code = write_sound(&clean, a->out, p->name, "clean", err);
        if (code == 0)
            code = write_sound(&noisy, a->out, p->name, "noisy", err);
        fprintf(table, "%s\t%u\t%g\t%s\t%s\t%.3f\t%s\t%.2f\n", p->name, noisy.rate, p->snr_db, p->clean, p->noise,
                (double)begin / noisy.rate, p->room ? p->room : "", 20 * log10(gain));
    }
    sound_done(&clean);
    sound_done(&noisy);
    return code;
}

/* How many earlier files in the list have the same name without folders and extension. */
static unsigned namesakes(const struct list *l, size_t i) {
    char stem[256], other[256];
    unsigned n = 0;
    sound_stem(stem, sizeof stem, l->paths[i]);
    for (size_t j = 0; j < i; j++) {
        sound_stem(other, sizeof other, l->paths[j]);
        n += strcmp(stem, other) == 0;
    }
    return n;
}

static int mix_all(const struct arguments *a, FILE *table, struct err *err) {
    const struct list *clean = &a->clean, *noise = &a->noise, *room = &a->room;
    uint64_t random = a->seed;
    int code = 0;
    fputs("name\trate\tsnr_db\tspeech\tnoise\tnoise_from_s\troom\tgain_db\n", table);
    for (size_t i = 0; code == 0 && i < clean->n; i++) {
        struct sound speech;
        char stem[256];
        unsigned before = namesakes(clean, i);
        if ((code = read_whole(&speech, clean->paths[i], err)) < 0)
            return code;
        sound_stem(stem, sizeof stem, clean->paths[i]);
        for (unsigned k = 0; code == 0 && k < a->n_levels; k++) {
            struct pair p = {
                .clean = clean->paths[i], .noise = noise->paths[draw(&random, noise->n)], .snr_db = a->snr_db[k]};
            p.room = room->n ? room->paths[draw(&random, room->n)] : NULL;
            if (before)
                snprintf(p.name, sizeof p.name, "%s-%u_%gdB", stem, before + 1, p.snr_db);
            else
                snprintf(p.name, sizeof p.name, "%s_%gdB", stem, p.snr_db);
            code = mix_pair(a, &p, &speech, &random, table, err);
        }
        sound_done(&speech);
    }
    return code;
}

/* Replaces the table only once all files in it are complete. */
static int write_all(const struct arguments *a, struct err *err) {
    struct replace r;
    char path[4096];
    if (path_join(path, sizeof path, a->out, "pairs.tsv") < 0)
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", a->out);
    int code = replace_begin(&r, path, 0666, err);
    if (code < 0)
        return code;
    const int fd = fcntl(r.fd, F_DUPFD_CLOEXEC, 0);
    FILE *table = fd < 0 ? NULL : fdopen(fd, "w");
    if (!table && fd >= 0)
        close(fd);
    code = table ? mix_all(a, table, err) : err_set(err, -ENOMEM, "%s: out of memory", path);
    const bool whole = table && !ferror(table);
    if (table && (fclose(table) != 0 || !whole) && code == 0)
        code = err_set(err, -EIO, "%s: cannot be written", path);
    if (code == 0)
        code = replace_finish(&r, err);
    replace_drop(&r);
    const size_t n = a->clean.n * a->n_levels;
    if (code == 0)
        printf("%zu pair%s in %s\n", n, n == 1 ? "" : "s", path);
    return code;
}

static bool parse_levels(struct arguments *a, const char *text) {
    char *rest = strdupa(text);
    for (char *item; (item = strsep(&rest, ",")); a->n_levels++)
        if (a->n_levels == max_levels || !text_number(item, "dB", &a->snr_db[a->n_levels]) ||
            fabs(a->snr_db[a->n_levels]) > 100) {
            cli_fail("--snr: '%s' is not a number from -100 to 100, or there are more than %d", item, max_levels);
            return false;
        }
    return true;
}

static int run_mix(const struct cli_call *call) {
    const char *out = cli_option(call, 'o'), *seed_text = cli_option(call, 'n');
    struct arguments a = {.out = out ? out : "."};
    double seed = 0;
    if (!parse_levels(&a, cli_option(call, 's')))
        return cli_misused;
    if (seed_text && (!text_number(seed_text, "", &seed) || seed < 0 || seed > 1e15 || seed != floor(seed)))
        return cli_misuse(call->command, "--seed: '%s' is not a whole number", seed_text);
    a.seed = (uint64_t)seed;
    struct err err;
    int code = list_of(&a.clean, call->words[0], &err);
    if (code == 0)
        code = list_of(&a.noise, call->words[1], &err);
    if (code == 0 && call->words[2])
        code = list_of(&a.room, call->words[2], &err);
    if (code == 0)
        code = write_all(&a, &err);
    list_done(&a.clean);
    list_done(&a.noise);
    list_done(&a.room);
    return code < 0 ? cli_fail("%s", err.text) : cli_done;
}

const struct cli_command mix_command = {
    .name = "mix",
    .summary = "make noisy test material from speech, noise and rooms",
    .run = run_mix,
    .arguments = {{"CLEAN", .kind = CLI_FILE},
                  {"NOISE", .kind = CLI_FILE},
                  {"ROOM", .kind = CLI_FILE, .optional = true}},
    .options = {{'s', "snr", "DB[,DB...]", .required = true, .help = "speech level over noise level, in dB"},
                {'o', "out", "DIR", .kind = CLI_FILE, .help = "an existing folder; default: the current one"},
                {'n', "seed", "N", .help = "seed of the random choices; default: 0"}},
    .about = "Makes test material: for each clean file and level two FLAC files, NAME_clean and NAME_noisy, and a\n"
             "table of them, pairs.tsv. CLEAN, NOISE and ROOM (an impulse response) are each a sound file, a folder,\n"
             "or a list: a .txt or .lst file with one name per line. Noise, its start and room are random.\n",
};
