/* enhance.c - enhances one sound file.
 *
 * Each channel is a stream of one handle of the library. The network hears the beginning of the file twice: when it
 * starts over, it knows the voice and the noise. Blocks are read, resampled to the model's rate, enhanced, resampled
 * back, limited and written. The delay of library and limiter is dropped at the start, and compensated with silence at
 * the end. */
#include "tool/enhance.h"

#include "tool/limiter.h"
#include "tool/sound.h"
#include "tool/sound_file.h"
#include "tool/tags.h"

#include <errno.h>
#include <math.h>
#include <soxr.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Hops of all channels per call of the library: many for a GPU, which computes them together; few for a processor,
 * which then starts sooner and keeps them in its cache. */
enum { hops_on_gpu = 1536, hops_on_cpu = 64, most_channels = 64 };
/* The beginning, in seconds, and how many samples of all channels it has at most. */
enum { beginning_s = 10, most_of_beginning = 16 << 20 };

/* Interleaved frames waiting for the next step. */
struct frames {
    float *data;
    size_t n, room;
};

/* One file in progress. */
struct job {
    struct enhancer *by;
    const char *in_name, *out_name;
    struct err *err;
    struct sound_in in;
    struct sound_out out;
    bool in_place; /* `out` would replace `in` */
    struct limiter *limiter;
    soxr_t to_model, to_file;     /* NULL if the rates are equal */
    size_t block;                 /* frames read and given to the library at once: whole hops */
    float *samples;               /* [channels][block] ... */
    float *planes[most_channels]; /* ... and where each channel begins; NULL for streams without one */
    struct frames beginning, at_model, enhanced, at_file;
    size_t n_again;               /* frames of the beginning that were read again */
    size_t drop_model, drop_file; /* frames still to be dropped for the delays of library and limiter */
    uint64_t n_written;
    float steps; /* quantisation steps of `out`, see steps_per_unit */
};

static int out_of_memory(const struct job *j) {
    return err_set(j->err, -ENOMEM, "%s: out of memory", j->in_name);
}

/* Makes room for n more frames and returns where they go, or NULL if memory runs out. */
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
    if (n == 0) /* the frames may have no memory yet */
        return;
    f->n -= n;
    memmove(f->data, f->data + n * channels, f->n * channels * sizeof *f->data);
}

/* Appends n frames of `data`, resampled unless resampler is NULL. */
static int append(struct job *j, struct frames *to, soxr_t resampler, double ratio, const float *data, size_t n) {
    const unsigned channels = (unsigned)j->in.info.channels;
    while (n) {
        size_t most = resampler ? (size_t)(n * ratio) + 64 : n, taken = n, given = n;
        float *room = frames_grow(to, most, channels);
        if (!room)
            return out_of_memory(j);
        soxr_error_t error = NULL;
        if (resampler)
            error = soxr_process(resampler, data, n, &taken, room, most, &given);
        else
            memcpy(room, data, n * channels * sizeof *data);
        if (error)
            return err_set(j->err, -EINVAL, "%s: resampling failed: %s", j->in_name, error);
        to->n += given;
        data += taken * channels;
        n -= taken;
    }
    return 0;
}

/* Appends what the resampler holds back; until it is cleared, it takes no more. */
static int drain(struct job *j, struct frames *to, soxr_t resampler) {
    size_t given = 1;
    while (given) {
        float *room = frames_grow(to, j->block, j->in.info.channels);
        if (!room)
            return out_of_memory(j);
        soxr_error_t error = soxr_process(resampler, NULL, 0, NULL, room, j->block, &given);
        if (error)
            return err_set(j->err, -EINVAL, "%s: resampling failed: %s", j->in_name, error);
        to->n += given;
    }
    return 0;
}

static double file_per_model(const struct job *j) {
    return (double)j->in.info.samplerate / primeknet_get_rate(j->by->like);
}

/* How many quantisation steps an integer format has per unit of amplitude; 0 for other formats. */
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
    unsigned channels = j->in.info.channels;
    size_t drop = j->at_file.n < j->drop_file ? j->at_file.n : j->drop_file;
    frames_drop(&j->at_file, drop, channels);
    j->drop_file -= drop;
    size_t n = j->at_file.n;
    if (n > j->in.n_read - j->n_written)
        n = j->in.n_read - j->n_written;
    /* When libsndfile clips, it rounds some formats towards negative infinity. */
    for (size_t i = 0; j->steps > 0 && i < n * channels; i++)
        j->at_file.data[i] = rintf(j->at_file.data[i] * j->steps) / j->steps;
    const int code = sound_out_write(&j->out, j->at_file.data, n, j->err);
    if (code < 0)
        return code;
    j->n_written += n;
    frames_drop(&j->at_file, n, channels);
    return 0;
}

/* Closes a lost engine, so that the next file opens another. */
static int engine_failed(struct job *j, int code) {
    err_set(j->err, code, "%s: the engine failed: %s", j->in_name, primeknet_get_description(j->by->opened));
    enhancer_done(j->by);
    return code;
}

/* Enhances the next complete hops, at most a block, in j->planes. Returns their frames, or a negative errno. */
static int enhance_block(struct job *j) {
    const unsigned channels = j->in.info.channels, hop = primeknet_get_hop(j->by->opened);
    const size_t ready = j->at_model.n / hop * hop, n = ready < j->block ? ready : j->block;
    for (unsigned c = 0; c < channels; c++)
        for (size_t i = 0; i < n; i++)
            j->planes[c][i] = j->at_model.data[i * channels + c];
    frames_drop(&j->at_model, n, channels);
    const int code = n ? primeknet_process(j->by->opened, (const float *const *)j->planes, j->planes, n) : 0;
    return code < 0 ? engine_failed(j, code) : (int)n;
}

/* Enhances, resamples, limits and writes all complete hops. */
static int run_hops(struct job *j) {
    const unsigned channels = j->in.info.channels;
    int code;
    while ((code = enhance_block(j)) > 0) {
        const size_t n = (size_t)code;
        float *room = frames_grow(&j->enhanced, n, channels);
        if (!room)
            return out_of_memory(j);
        for (unsigned c = 0; c < channels; c++)
            for (size_t i = 0; i < n; i++)
                room[i * channels + c] = j->planes[c][i];
        j->enhanced.n += n;
        size_t drop = n < j->drop_model ? n : j->drop_model;
        frames_drop(&j->enhanced, drop, channels);
        j->drop_model -= drop;
        if (!j->enhanced.n) /* all of it was delay */
            continue;

        size_t before = j->at_file.n;
        if ((code = append(j, &j->at_file, j->to_file, file_per_model(j), j->enhanced.data, j->enhanced.n)) < 0)
            return code;
        j->enhanced.n = 0;
        limiter_run(j->limiter, j->at_file.data + before * channels, j->at_file.n - before);
        if ((code = write_ready(j)) < 0)
            return code;
    }
    return code;
}

/* Processes n frames of the file, or of the silence appended to it. */
static int take(struct job *j, const float *data, size_t n) {
    const int code = append(j, &j->at_model, j->to_model, 1 / file_per_model(j), data, n);
    return code < 0 ? code : run_hops(j);
}

/* Reads the beginning of the file into j->beginning, and lets the network hear it. `data` has room for a block. */
static int hear_beginning(struct job *j, float *data) {
    const unsigned channels = (unsigned)j->in.info.channels;
    size_t most = (size_t)beginning_s * (size_t)j->in.info.samplerate;
    if (most > most_of_beginning / channels)
        most = most_of_beginning / channels;
    int code = 0, n = 1;
    while (code == 0 && n > 0) {
        const size_t left = most - j->beginning.n;
        n = left ? sound_in_read(&j->in, data, (int)(left < j->block ? left : j->block), j->err) : 0;
        if (n > 0 && (code = append(j, &j->beginning, NULL, 1, data, (size_t)n)) == 0)
            code = append(j, &j->at_model, j->to_model, 1 / file_per_model(j), data, (size_t)n);
        if (n == 0 && j->to_model) /* or it would depend on the size of blocks how much is heard */
            code = drain(j, &j->at_model, j->to_model);
        while (code == 0 && (code = enhance_block(j)) > 0)
            code = 0;
        if (*j->by->stop)
            code = -EINTR;
    }
    if (j->to_model)
        soxr_clear(j->to_model);
    j->at_model.n = 0;
    for (unsigned c = 0; c < channels; c++)
        primeknet_pause(j->by->opened, c);
    return n < 0 ? n : code;
}

/* Reads the next block, from the beginning while it lasts. Returns as sound_in_read does. */
static int read_block(struct job *j, float *data) {
    const size_t channels = (size_t)j->in.info.channels, left = j->beginning.n - j->n_again;
    const size_t n = left < j->block ? left : j->block;
    if (!left)
        return sound_in_read(&j->in, data, (int)j->block, j->err);
    memcpy(data, j->beginning.data + j->n_again * channels, n * channels * sizeof *data);
    j->n_again += n;
    return (int)n;
}

static int run(struct job *j, _Atomic float *share) {
    const unsigned channels = (unsigned)j->in.info.channels, hop = primeknet_get_hop(j->by->opened);
    float *data = malloc(j->block * channels * sizeof *data);
    int code = data ? 0 : out_of_memory(j), n;
    if (code == 0 && !j->by->cold)
        code = hear_beginning(j, data);
    while (code == 0 && (n = read_block(j, data)) != 0) {
        code = n < 0 ? n : take(j, data, (size_t)n);
        *share = sound_in_share(&j->in);
        if (*j->by->stop)
            code = -EINTR;
    }
    if (code == 0)
        memset(data, 0, hop * channels * sizeof *data);
    while (code == 0 && j->n_written < j->in.n_read)
        code = take(j, data, hop);
    free(data);
    return code;
}

/* ---- start and end --------------------------------------------------------------------------------------------- */

static int open_handle(struct enhancer *e, unsigned channels, size_t block, struct err *err) {
    if (e->opened && e->n_streams < channels)
        enhancer_done(e);
    if (!e->opened) {
        const struct primeknet_options options = {.size = sizeof options, .block = block, .n_channels = channels};
        const int code = primeknet_open_like(&e->opened, e->like, &options, err->text);
        if (code < 0)
            return code;
        e->n_streams = channels;
    }
    for (unsigned c = 0; c < channels; c++) {
        primeknet_reset(e->opened, c);
        primeknet_set_controls(e->opened, c, &e->controls);
    }
    return 0;
}

static int open_resamplers(struct job *j) {
    const soxr_quality_spec_t best = soxr_quality_spec(SOUND_RESAMPLING, 0);
    const unsigned rate = (unsigned)j->in.info.samplerate, channels = (unsigned)j->in.info.channels;
    const unsigned models = primeknet_get_rate(j->by->like);
    soxr_error_t error;
    if (rate == models)
        return 0;
    if (!sound_resamples(rate, models))
        return err_set(j->err, -EINVAL, "%s: its rate of %u Hz cannot be resampled to the model's %u Hz", j->in_name,
                       rate, models);
    j->to_model = soxr_create(rate, models, channels, &error, NULL, &best, NULL);
    if (!error)
        j->to_file = soxr_create(models, rate, channels, &error, NULL, &best, NULL);
    return error ? err_set(j->err, -ENOMEM, "%s: cannot be resampled: %s", j->in_name, error) : 0;
}

static int open_output(struct job *j) {
    const int code = sound_out_open(&j->out, j->out_name, &j->in.info, j->in.frames, j->err);
    if (code < 0)
        return code;
    j->steps = steps_per_unit(j->out.format);
    tags_copy(j->in.file, j->out.file);
    return 0;
}

/* Keeps an input that could not be read completely. */
static int keep(const struct job *j) {
    err_set(j->err, 0, "%s: %s, so it is left as it was; another name for OUT gets what can be read", j->in_name,
            sound_in_fault(&j->in));
    return 1;
}

static int open_all(struct job *j) {
    struct stat out;
    int code = sound_in_open(&j->in, j->in_name, j->by->stop, j->err);
    if (code < 0)
        return code;
    j->in_name = j->in.name;
    j->in_place = stat(j->out_name, &out) == 0 && out.st_dev == j->in.st.st_dev && out.st_ino == j->in.st.st_ino;
    if (j->in_place && sound_in_fault(&j->in))
        return keep(j);
    const unsigned channels = (unsigned)j->in.info.channels;
    if (channels > most_channels)
        return err_set(j->err, -EINVAL, "%s: has %u channels; at most %d are supported", j->in_name, channels,
                       most_channels);
    const unsigned hops = strcmp(primeknet_get_engine(j->by->like), "cuda") == 0 ? hops_on_gpu : hops_on_cpu;
    j->block = hops / (channels > 1 ? channels : 2) * primeknet_get_hop(j->by->like);
    if ((code = open_handle(j->by, channels, j->block, j->err)) < 0)
        return code;
    j->drop_model = primeknet_get_delay(j->by->opened);
    j->samples = malloc(channels * j->block * sizeof *j->samples);
    if (!j->samples || limiter_new(&j->limiter, (unsigned)j->in.info.samplerate, channels) < 0)
        return out_of_memory(j);
    for (unsigned c = 0; c < channels; c++)
        j->planes[c] = j->samples + c * j->block;
    j->drop_file = limiter_delay(j->limiter);
    code = open_resamplers(j);
    return code < 0 ? code : open_output(j);
}

static int finish(struct job *j) {
    const char *fault = sound_in_fault(&j->in);
    if (fault && j->in_place)
        return keep(j);
    int code = sound_out_close(&j->out, j->err);
    if (code == 0 && (j->in.info.format & SF_FORMAT_TYPEMASK) == (j->out.format & SF_FORMAT_TYPEMASK))
        code = tags_complete(&j->in, &j->out, j->err);
    if (code == 0)
        code = sound_out_finish(&j->out, j->err);
    if (code < 0 || !fault)
        return code;
    err_set(j->err, 0, "%s: %s; enhanced the %.2f s that can be read", j->in_name, fault,
            (double)j->in.n_read / j->in.info.samplerate);
    return 1;
}

static void close_all(struct job *j) {
    sound_in_close(&j->in);
    sound_out_drop(&j->out);
    soxr_delete(j->to_model);
    soxr_delete(j->to_file);
    limiter_free(j->limiter);
    free(j->samples);
    free(j->beginning.data);
    free(j->at_model.data);
    free(j->enhanced.data);
    free(j->at_file.data);
}

int enhance_file(struct enhancer *e, const char *in, const char *out, _Atomic float *share, struct err *err) {
    struct job j = {.by = e, .in_name = in, .out_name = out, .err = err};
    int code = open_all(&j);
    if (code == 0)
        code = run(&j, share);
    if (code == 0)
        code = finish(&j);
    close_all(&j);
    *share = 1;
    return code;
}

void enhancer_done(struct enhancer *e) {
    primeknet_close(e->opened);
    e->opened = NULL;
}
