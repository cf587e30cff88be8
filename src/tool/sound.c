#include "tool/sound.h"

#include "base/file.h"
#include "tool/sound_file.h"

#include <errno.h>
#include <math.h>
#include <soxr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { block_frames = 16384 };

static int out_of_memory(const char *path, struct err *err) {
    return err_set(err, -ENOMEM, "%s: out of memory", path);
}

/* Appends the mean of the channels. */
static int append(struct sound *s, size_t *room, const float *block, size_t n, unsigned channels, const char *path,
                  struct err *err) {
    if (s->n + n > *room) {
        *room = 2 * (s->n + n);
        float *samples = realloc(s->samples, *room * sizeof *samples);
        if (!samples)
            return out_of_memory(path, err);
        s->samples = samples;
    }
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (unsigned c = 0; c < channels; c++)
            sum += block[i * channels + c];
        if (!isfinite(sum))
            return err_set(err, -EINVAL, "%s: frame %zu is not a number", path, s->n);
        s->samples[s->n++] = sum / (float)channels;
    }
    return 0;
}

int sound_read(struct sound *ret, const char *path, struct err *err) {
    SF_INFO info;
    SNDFILE *f;
    int code = sound_file_open(&f, &info, path, err);
    if (code < 0)
        return code;
    struct sound s = {.rate = (unsigned)info.samplerate};
    size_t room = 0;
    unsigned channels = (unsigned)info.channels;
    float *block = malloc(sizeof *block * block_frames * channels);
    code = block ? 0 : out_of_memory(path, err);
    for (sf_count_t n; code == 0 && (n = sf_readf_float(f, block, block_frames)) > 0;)
        code = append(&s, &room, block, (size_t)n, channels, path, err);
    if (code == 0 && sf_error(f))
        code = sound_file_failed(f, path, "read", err);
    if (code == 0 && s.n == 0)
        code = err_set(err, -EINVAL, "%s: contains no sound", path);
    free(block);
    sf_close(f);
    if (code < 0)
        sound_done(&s);
    else
        *ret = s;
    return code;
}

int sound_resample(struct sound *ret, const struct sound *s, unsigned rate, const char *path, struct err *err) {
    if (!sound_resamples(s->rate, rate))
        return err_set(err, -EINVAL, "%s: %u Hz cannot be resampled to %u Hz: more than 256 times", path, s->rate,
                       rate);
    size_t most = s->rate == rate ? s->n : (size_t)ceil((double)s->n * rate / s->rate) + 64;
    struct sound copy = {.samples = malloc(most * sizeof(float)), .n = most, .rate = rate};
    if (!copy.samples)
        return out_of_memory(path, err);
    if (s->rate == rate) {
        memcpy(copy.samples, s->samples, s->n * sizeof *s->samples);
    } else {
        const soxr_quality_spec_t best = soxr_quality_spec(SOUND_RESAMPLING, 0);
        soxr_error_t error = soxr_oneshot(s->rate, rate, 1, s->samples, s->n, NULL, copy.samples, most, &copy.n, NULL,
                                          &best, NULL);
        if (error || copy.n == 0) {
            sound_done(&copy);
            return err_set(err, -EINVAL, "%s: %u Hz cannot be resampled to %u Hz: %s", path, s->rate, rate,
                           error ? error : "too short");
        }
    }
    *ret = copy;
    return 0;
}

int sound_write(const struct sound *s, const char *path, struct err *err) {
    struct replace r;
    SF_INFO info = {.samplerate = (int)s->rate, .channels = 1, .format = SF_FORMAT_FLAC | SF_FORMAT_PCM_24};
    if (!sf_format_check(&info))
        return err_set(err, -EINVAL, "%s: FLAC cannot hold a rate of %u Hz", path, s->rate);
    int code = replace_begin(&r, path, 0666, err);
    if (code < 0)
        return code;
    SNDFILE *f = sf_open_fd(code, SFM_WRITE, &info, SF_TRUE);
    if (!f) {
        replace_drop(&r);
        return out_of_memory(path, err);
    }
    sf_command(f, SFC_SET_CLIPPING, NULL, SF_TRUE);
    code = sf_writef_float(f, s->samples, (sf_count_t)s->n) == (sf_count_t)s->n
               ? 0
               : sound_file_failed(f, path, "written", err);
    if (sf_close(f) && code == 0)
        code = err_set(err, -EIO, "%s: cannot be written", path);
    if (code == 0)
        code = replace_finish(&r, err);
    replace_drop(&r);
    return code;
}

void sound_done(struct sound *s) {
    free(s->samples);
    *s = (struct sound){0};
}

void sound_stem(char *ret, size_t size, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    snprintf(ret, size, "%.*s", dot && dot != name ? (int)(dot - name) : (int)strlen(name), name);
}
