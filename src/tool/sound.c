#include "tool/sound.h"

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
        s->samples[s->n++] = sum / (float)channels;
    }
    return 0;
}

static int read_all(struct sound *s, struct sound_in *f, struct err *err) {
    const unsigned channels = (unsigned)f->info.channels;
    float *block = malloc(sizeof *block * block_frames * channels);
    size_t room = 0;
    int code = block ? 0 : out_of_memory(f->name, err), n;
    while (code == 0 && (n = sound_in_read(f, block, block_frames, err)) != 0)
        code = n < 0 ? n : append(s, &room, block, (size_t)n, channels, f->name, err);
    free(block);
    return code;
}

int sound_read(struct sound *ret, const char *path, struct err *err) {
    struct sound_in f;
    int code = sound_in_open(&f, path, NULL, err);
    struct sound s = {.rate = (unsigned)f.info.samplerate};
    if (code == 0)
        code = read_all(&s, &f, err);
    s.fault = code == 0 ? sound_in_fault(&f) : NULL;
    sound_in_close(&f);
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
    struct sound_out o;
    const SF_INFO like = {.samplerate = (int)s->rate, .channels = 1, .format = SF_FORMAT_FLAC | SF_FORMAT_PCM_24};
    int code = sound_out_open(&o, path, &like, (sf_count_t)s->n, err);
    if (code == 0)
        code = sound_out_write(&o, s->samples, s->n, err);
    if (code == 0)
        code = sound_out_close(&o, err);
    if (code == 0)
        code = sound_out_finish(&o, err);
    sound_out_drop(&o);
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
