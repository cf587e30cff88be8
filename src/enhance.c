/* primeknet enhance: a sound file in, the same file with its speech cleaned out.
 *
 * Every channel is a stream of one engine. Blocks flow through: read, resample to the model's rate, hops, resample back,
 * limit, write; what the engine and the limiter delay is dropped at the start and made up with silence at the end. */
#include "cli.h"

#include "engine.h"
#include "limiter.h"
#include "model.h"
#include "sound.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sndfile.h>
#include <soxr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Hops of a channel that go to the engine together, and of all channels. */
enum { most_hops = 768, most_hops_in_all = 1536, most_channels = 64, bar_width = 40 };

static volatile sig_atomic_t interrupted; /* by this signal */

struct arguments {
    const char *in, *out, *model, *engine;
    double strength, floor, low_cut_hz;
};

/* Interleaved frames waiting for the next step. */
struct frames {
    float *data;
    size_t n, room;
};

struct job {
    const struct arguments *args;
    SNDFILE *in, *out;
    SF_INFO info;
    char part[4096]; /* written first, renamed when whole; empty: nothing to remove */
    struct model *model;
    struct engine *engine;
    struct limiter *limiter;
    soxr_t to_model, to_file; /* NULL where the rates are the same */
    struct engine_job *streams;
    unsigned block_hops; /* read and given to the engine at once */
    float *planes;       /* [channels][block_hops * hop] */
    struct frames at_model, enhanced, at_file;
    size_t drop_model, drop_file; /* frames still to drop: the engine's delay, the limiter's */
    uint64_t n_read, n_written;
    float steps; /* of the samples of `out`: steps_per_unit() */
    bool bar;
};

static int out_of_memory(void) {
    return cli_fail("out of memory");
}

/* Makes room for n more frames; returns where they go, NULL when out of memory. */
static float *frames_grow(struct frames *f, size_t n, unsigned channels) {
    if (f->n + n > f->room) {
        size_t room = 2 * (f->n + n);
        float *data = realloc(f->data, room * channels * sizeof *data);
        if (!data)
            return NULL;
        f->data = data;
        f->room = room;
    }
    return f->data + f->n * channels;
}

static void frames_drop(struct frames *f, size_t n, unsigned channels) {
    f->n -= n;
    memmove(f->data, f->data + n * channels, f->n * channels * sizeof *f->data);
}

static int append(struct frames *to, soxr_t resampler, double ratio, const float *data, size_t n, unsigned channels) {
    if (!resampler) {
        float *room = frames_grow(to, n, channels);
        if (!room)
            return out_of_memory();
        memcpy(room, data, n * channels * sizeof *data);
        to->n += n;
        return cli_done;
    }
    while (n) {
        size_t most = n * ratio + 64;
        float *room = frames_grow(to, most, channels);
        if (!room)
            return out_of_memory();
        size_t taken, given;
        soxr_error_t error = soxr_process(resampler, data, n, &taken, room, most, &given);
        if (error)
            return cli_fail("resampling failed: %s", error);
        to->n += given;
        data += taken * channels;
        n -= taken;
    }
    return cli_done;
}

static double file_per_model(const struct job *j) {
    return (double)j->info.samplerate / model_rate(j->model);
}

/* Steps of a file's integers per unit, 0 for samples of other kinds. */
static float steps_per_unit(int format) {
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8: return 0x1p7f;
    case SF_FORMAT_PCM_16: return 0x1p15f;
    case SF_FORMAT_PCM_24: return 0x1p23f;
    default: return 0;
    }
}

static int write_ready(struct job *j) {
    unsigned channels = j->info.channels;
    size_t drop = j->at_file.n < j->drop_file ? j->at_file.n : j->drop_file;
    frames_drop(&j->at_file, drop, channels);
    j->drop_file -= drop;
    size_t n = j->at_file.n;
    if (n > j->n_read - j->n_written)
        n = j->n_read - j->n_written;
    for (size_t i = 0; j->steps > 0 && i < n * channels; i++) /* where libsndfile clips it rounds some kinds of files down */
        j->at_file.data[i] = rintf(j->at_file.data[i] * j->steps) / j->steps;
    if (sf_writef_float(j->out, j->at_file.data, n) != (sf_count_t)n)
        return cli_fail("%s: cannot write: %s", j->args->out, sf_strerror(j->out));
    j->n_written += n;
    frames_drop(&j->at_file, n, channels);
    return cli_done;
}

/* All whole hops that wait: network, resample, limit, write. */
static int run_hops(struct job *j) {
    unsigned channels = j->info.channels, hop = engine_hop(j->engine);
    for (size_t n_hops; (n_hops = j->at_model.n / hop) > 0;) {
        if (n_hops > j->block_hops)
            n_hops = j->block_hops;
        size_t n = n_hops * hop;
        for (unsigned c = 0; c < channels; c++) {
            float *plane = j->planes + c * j->block_hops * hop;
            for (size_t i = 0; i < n; i++)
                plane[i] = j->at_model.data[i * channels + c];
            j->streams[c] = (struct engine_job){.stream = c, .n_hops = n_hops, .in = plane, .out = plane};
        }
        frames_drop(&j->at_model, n, channels);
        if (engine_process(j->engine, j->streams, channels) < 0)
            return cli_fail("%s: the engine failed", engine_name(j->engine));
        float *room = frames_grow(&j->enhanced, n, channels);
        if (!room)
            return out_of_memory();
        for (unsigned c = 0; c < channels; c++)
            for (size_t i = 0; i < n; i++)
                room[i * channels + c] = j->planes[c * j->block_hops * hop + i];
        j->enhanced.n += n;
        size_t drop = n < j->drop_model ? n : j->drop_model;
        frames_drop(&j->enhanced, drop, channels);
        j->drop_model -= drop;
        if (!j->enhanced.n) /* the delay still */
            continue;

        size_t before = j->at_file.n;
        if (append(&j->at_file, j->to_file, file_per_model(j), j->enhanced.data, j->enhanced.n, channels))
            return cli_failed;
        j->enhanced.n = 0;
        limiter_run(j->limiter, j->at_file.data + before * channels, j->at_file.n - before);
        if (write_ready(j))
            return cli_failed;
    }
    return cli_done;
}

static void progress(const struct job *j) {
    if (!j->bar || j->info.frames <= 0)
        return;
    double share = fmin(1, (double)j->n_written / j->info.frames);
    int full = share * bar_width;
    fprintf(stderr, "\r%3.0f %% [%.*s%*s] %.0f s", 100 * share, full, "########################################", bar_width - full,
            "", (double)j->n_written / j->info.samplerate);
}

static int check_finite(const struct job *j, const float *data, size_t n) {
    unsigned channels = j->info.channels;
    for (size_t i = 0; i < n * channels; i++)
        if (!isfinite(data[i]))
            return cli_fail("%s: frame %llu, channel %u is not a number", j->args->in, (unsigned long long)(j->n_read + i / channels),
                            (unsigned)(i % channels + 1));
    return cli_done;
}

static int run(struct job *j) {
    unsigned channels = j->info.channels, hop = engine_hop(j->engine);
    size_t block = j->block_hops * hop;
    float *data = malloc(block * channels * sizeof *data);
    if (!data)
        return out_of_memory();
    int status = cli_failed;
    for (sf_count_t n; (n = sf_readf_float(j->in, data, block)) > 0;) {
        if (check_finite(j, data, n))
            goto end;
        j->n_read += n;
        if (append(&j->at_model, j->to_model, 1 / file_per_model(j), data, n, channels) || run_hops(j))
            goto end;
        progress(j);
        if (interrupted)
            goto end;
    }
    if (sf_error(j->in)) {
        cli_fail("%s: cannot read: %s", j->args->in, sf_strerror(j->in));
        goto end;
    }
    if (!j->n_read) {
        cli_fail("%s: holds no sound", j->args->in);
        goto end;
    }
    memset(data, 0, hop * channels * sizeof *data);
    while (j->n_written < j->n_read)
        if (append(&j->at_model, j->to_model, 1 / file_per_model(j), data, hop, channels) || run_hops(j))
            goto end;
    progress(j);
    status = cli_done;
end:
    if (j->bar)
        fputs("\r\033[K", stderr);
    free(data);
    return status;
}

/* The container that a name's ending asks for, with a sample format where the ending says that too. 0: no such container. */
static int container(const char *ending) {
    static const struct {
        const char *ending;
        int format;
    } others[] = {
        {"ogg", SF_FORMAT_OGG},
        {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
        {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
    };
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(ending, others[i].ending))
            return others[i].format;
    int n_major = 0;
    sf_command(NULL, SFC_GET_FORMAT_MAJOR_COUNT, &n_major, sizeof n_major);
    for (int i = 0; i < n_major; i++) {
        SF_FORMAT_INFO f = {.format = i};
        if (!sf_command(NULL, SFC_GET_FORMAT_MAJOR, &f, sizeof f) && f.extension && !strcasecmp(ending, f.extension))
            return f.format & SF_FORMAT_TYPEMASK;
    }
    return 0;
}

/* The kind of file that OUT's name asks for, in IN's sample format where that kind has it. 0: no such kind. */
static int output_format(const char *name, const SF_INFO *in) {
    const char *dot = strrchr(name, '.');
    int format = dot && !strchr(dot, '/') ? container(dot + 1) : 0, kept = in->format & SF_FORMAT_SUBMASK;
    if (kept >= SF_FORMAT_MPEG_LAYER_I && kept <= SF_FORMAT_MPEG_LAYER_III)
        kept = 0; /* libsndfile says that WAV can hold it and then does not write it */
    const int subtypes[] = {kept, SF_FORMAT_PCM_16, SF_FORMAT_VORBIS, SF_FORMAT_MPEG_LAYER_III};
    for (unsigned s = 0; format && s < sizeof subtypes / sizeof *subtypes; s++) {
        SF_INFO try = {.samplerate = in->samplerate, .channels = in->channels, .format = format};
        if (!(format & SF_FORMAT_SUBMASK))
            try.format |= subtypes[s];
        if (sf_format_check(&try))
            return try.format;
    }
    return 0;
}

static int open_output(struct job *j) {
    const char *name = j->args->out;
    struct stat old;
    bool exists = !stat(name, &old);
    if (exists && !S_ISREG(old.st_mode))
        return cli_fail("%s: is no regular file", name);
    SF_INFO info = {.samplerate = j->info.samplerate, .channels = j->info.channels, .format = output_format(name, &j->info)};
    if (!info.format)
        return cli_fail("%s: no kind of sound file with this ending holds %d channels at %d Hz (.wav and .flac do for most)", name,
                        info.channels, info.samplerate);
    if (snprintf(j->part, sizeof j->part, "%s.XXXXXX", name) >= (int)sizeof j->part) {
        j->part[0] = 0;
        return cli_fail("%s: the name is too long", name);
    }
    int fd = mkstemp(j->part);
    if (fd < 0) {
        j->part[0] = 0;
        return cli_fail("%s: %s", name, strerror(errno));
    }
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, exists ? old.st_mode & 0777 : 0666 & ~mask)) {
        close(fd);
        return cli_fail("%s: %s", name, strerror(errno));
    }
    j->out = sf_open_fd(fd, SFM_WRITE, &info, SF_TRUE);
    if (!j->out)
        return cli_fail("%s: %s", name, sf_strerror(NULL));
    sf_command(j->out, SFC_SET_CLIPPING, NULL, SF_TRUE);
    j->steps = steps_per_unit(info.format);
    return cli_done;
}

static int open_all(struct job *j) {
    const struct arguments *a = j->args;
    struct err err;
    j->in = sf_open(a->in, SFM_READ, &j->info);
    if (!j->in)
        return cli_fail("%s: %s", a->in, sf_strerror(NULL));
    unsigned channels = j->info.channels;
    if (channels > most_channels)
        return cli_fail("%s: has %u channels, at most %d are handled", a->in, channels, most_channels);
    j->block_hops = channels * most_hops > most_hops_in_all ? most_hops_in_all / channels : most_hops;
    struct engine_options options = {.name = a->engine, .n_streams = channels, .max_hops = j->block_hops};
    if (model_load(&j->model, a->model, &err) < 0 || engine_open(&j->engine, &options, j->model, &err) < 0)
        return cli_fail("%s", err.text);
    const struct engine_controls controls = {.strength = a->strength, .floor = a->floor, .low_cut_hz = a->low_cut_hz};
    for (unsigned c = 0; c < channels; c++)
        engine_control(j->engine, c, controls);
    unsigned hop = engine_hop(j->engine);
    j->drop_model = engine_delay(j->engine);
    j->streams = calloc(channels, sizeof *j->streams);
    j->planes = calloc((size_t)channels * j->block_hops * hop, sizeof *j->planes);
    if (!j->streams || !j->planes || limiter_new(&j->limiter, j->info.samplerate, channels) < 0)
        return out_of_memory();
    j->drop_file = limiter_delay(j->limiter);
    if ((unsigned)j->info.samplerate != model_rate(j->model)) {
        if (!sound_resamples(j->info.samplerate, model_rate(j->model)))
            return cli_fail("%s: its rate of %d Hz cannot be resampled to the model's %u Hz", a->in, j->info.samplerate,
                            model_rate(j->model));
        const soxr_quality_spec_t best = soxr_quality_spec(SOUND_RESAMPLING, 0);
        soxr_error_t error;
        j->to_model = soxr_create(j->info.samplerate, model_rate(j->model), channels, &error, NULL, &best, NULL);
        if (!error)
            j->to_file = soxr_create(model_rate(j->model), j->info.samplerate, channels, &error, NULL, &best, NULL);
        if (error)
            return cli_fail("cannot resample: %s", error);
    }
    j->bar = isatty(STDERR_FILENO);
    return open_output(j);
}

static int finish_output(struct job *j) {
    sf_write_sync(j->out);
    int error = sf_close(j->out);
    j->out = NULL;
    if (error)
        return cli_fail("%s: cannot write: %s", j->args->out, sf_error_number(error));
    if (rename(j->part, j->args->out))
        return cli_fail("%s: %s", j->args->out, strerror(errno));
    j->part[0] = 0;
    return cli_done;
}

static void close_all(struct job *j) {
    if (j->in)
        sf_close(j->in);
    if (j->out)
        sf_close(j->out);
    if (j->part[0])
        unlink(j->part);
    soxr_delete(j->to_model);
    soxr_delete(j->to_file);
    limiter_free(j->limiter);
    engine_close(j->engine);
    model_free(j->model);
    free(j->streams);
    free(j->planes);
    free(j->at_model.data);
    free(j->enhanced.data);
    free(j->at_file.data);
}

static int parse(struct arguments *a, const struct cli_call *call) {
    const char *strength = cli_option(call, 's'), *floor_text = cli_option(call, 'f'), *low_cut = cli_option(call, 'l');
    double floor_db = -INFINITY;
    *a = (struct arguments){.in = call->words[0], .out = call->words[1], .model = cli_option(call, 'm'),
                            .engine = cli_option(call, 'e'), .strength = 1, .low_cut_hz = 70};
    if (!a->model)
        a->model = "base";
    if (!a->engine)
        a->engine = "auto";
    if (strength && !cli_number(strength, 0, 1, &a->strength))
        return cli_misuse(call->command, "--strength: '%s' is not a number from 0 to 1", strength);
    if (floor_text && !cli_number(floor_text, -60, 0, &floor_db))
        return cli_misuse(call->command, "--floor-db: '%s' is not a number from -60 to 0", floor_text);
    if (low_cut && !cli_number(low_cut, 0, 300, &a->low_cut_hz))
        return cli_misuse(call->command, "--low-cut-hz: '%s' is not a number from 0 to 300", low_cut);
    a->floor = pow(10, floor_db / 20);
    return cli_done;
}

static void on_interrupt(int signal) {
    interrupted = signal;
}

static int run_enhance(const struct cli_call *call) {
    struct arguments a;
    int status = parse(&a, call);
    if (status)
        return status;
    struct job j = {.args = &a};
    const struct sigaction ends = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};
    sigaction(SIGINT, &ends, NULL);
    sigaction(SIGTERM, &ends, NULL);
    status = open_all(&j);
    if (!status)
        status = run(&j);
    if (!status)
        status = finish_output(&j);
    close_all(&j);
    if (interrupted)
        raise(interrupted); /* once nothing is left lying about */
    return status;
}

const struct cli_command enhance_command = {
    .name = "enhance",
    .summary = "clean the speech in a sound file",
    .run = run_enhance,
    .arguments = {{"IN", .kind = CLI_FILE}, {"OUT", .kind = CLI_FILE}},
    .options = {CLI_MODEL_OPTION, CLI_ENGINE_OPTION,
                {'s', "strength", "S", .help = "0 (the input) to 1 (default, all that the network does)"},
                {'f', "floor-db", "D", .help = "leave at least this much of everything, -60 to 0; default: no floor"},
                {'l', "low-cut-hz", "F", .help = "remove what lies below, 0 (off) to 300; default: 70"}},
    .about = "Cleans the speech in IN, any file that libsndfile reads, and writes OUT: same rate, channels and\n"
             "length, no delay; the kind of file is what OUT's name ends in.\n",
};
