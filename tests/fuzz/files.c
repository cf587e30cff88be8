/* Sound files: any bytes give either an enhanced file, as long as the sound that our reader finds, or a one-line error
 * without leftovers. Our reader finds at least as much as libsndfile unless the file is faulty. In place, a faulty file
 * is not changed.
 *
 * 16 bits: the allocation that fails. A byte: the extension of OUT. The rest is IN. The engine is a pure delay. */
#include "config.h"

#include "fuzz.h"

#include "tool/cli.h"
#include "tool/sound_file.h"
#include "model/model.h"

#include <sndfile.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *__lsan_default_suppressions(void);

/* Leaks that are not ours: in libsndfile's decoder after a broken header, and in its encoder with six channels. */
const char *__lsan_default_suppressions(void) {
    return "leak:libvorbis";
}

static unsigned n_told;

/* Replaces src/tool/cli.c, which has a main. */
int cli_fail(const char *format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fuzz_check(n > 0 && (size_t)n < sizeof text);
    n_told++;
    return cli_failed;
}

int cli_misuse(const struct cli_command *command, const char *format, ...) {
    (void)command, (void)format;
    abort();
}

/* Only the engine has a value. */
const char *cli_option(const struct cli_call *call, char letter) {
    (void)call;
    return letter == 'e' ? "null" : NULL;
}

/* All calls get the same model, which is not under test here. */
int __real_model_load(struct model **ret, const char *name, struct err *err);
int __wrap_model_load(struct model **ret, const char *name, struct err *err);
void __real_model_free(struct model *m);
void __wrap_model_free(struct model *m);

static struct model *model;

static void free_model(void) {
    __real_model_free(model);
}

int __wrap_model_load(struct model **ret, const char *name, struct err *err) {
    (void)name, (void)err;
    *ret = model;
    return 0;
}

void __wrap_model_free(struct model *m) {
    (void)m;
}

/* Returns the number of frames that our reader finds. */
static sf_count_t found(const char *path) {
    static float data[4096];
    struct sound_in f;
    struct err err;
    fuzz_check(sound_in_open(&f, path, NULL, &err) == 0);
    while (sound_in_read(&f, data, 4096 / f.info.channels, &err) > 0)
        ;
    sound_in_close(&f);
    return (sf_count_t)f.n_read;
}

static void put(const char *path, const uint8_t *data, size_t n) {
    FILE *f = fopen(path, "w");
    fuzz_check(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static bool holds(const char *path, const uint8_t *data, size_t n) {
    uint8_t *now = malloc(n + 1);
    FILE *f = fopen(path, "r");
    fuzz_check(f && now);
    const bool same = fread(now, 1, n + 1, f) == n && memcmp(now, data, n) == 0;
    fclose(f);
    free(now);
    return same;
}

/* Returns the number of frames that libsndfile reads from a file, at most `most`; -1: it does not open the file. */
static sf_count_t length(const char *path, SF_INFO *info, sf_count_t most) {
    static float data[4096];
    *info = (SF_INFO){0};
    SNDFILE *f = sf_open(path, SFM_READ, info);
    sf_count_t n = 0;
    if (!f)
        return -1;
    for (sf_count_t got; n < most && (got = sf_readf_float(f, data, 4096 / info->channels)) > 0;)
        n += got;
    sf_close(f);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const ends[] = {".wav", ".flac", ".aiff", ".ogg", ".au", ".caf", ".w64", ".none"};
    struct fuzz_input in = {data, size};
    const unsigned fail = fuzz_short(&in);
    const char *end = ends[fuzz_byte(&in) % 8];
    struct err err = {0};
    if (!model) {
        fuzz_check(__real_model_load(&model, FIXTURES "/narrow.safetensors", &err) == 0);
        atexit(free_model);
    }
    const char *path = fuzz_file(in.data, in.size);
    SF_INFO before, after;
    if (length(path, &before, 1 << 16) >= 1 << 16 ||
        (before.samplerate && before.samplerate < 1000)) /* too long to try */
        return 0;

    char out[512], given[64];
    snprintf(out, sizeof out, "%s/out%s", fuzz_directory(), end);
    snprintf(given, sizeof given, "%s", path);
    char *words[] = {given, out, NULL};
    n_told = 0;
    fuzz_fail_allocation(fail);
    const int status = enhance_command.run(
        &(struct cli_call){.command = &enhance_command, .words = words, .n_words = 2});
    fuzz_fail_allocation(0);

    fuzz_check(status == cli_done || status == cli_failed || status == cli_cut_short);
    fuzz_check(n_told == (status != cli_done));
    fuzz_check(fuzz_n_files() == (status != cli_failed));
    if (status != cli_failed) {
        const sf_count_t n = found(path), n_out = length(out, &after, INT64_MAX);
        fuzz_check(n >= length(path, &before, INT64_MAX) || status == cli_cut_short);
        fuzz_check(before.samplerate == 0 ||
                   (after.samplerate == before.samplerate && after.channels == before.channels));
        /* Some formats fill the last block up, and AIFF of 8 bits an odd byte. */
        fuzz_check((after.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16 ? n_out == n : n_out >= n);
        unlink(out);
    }
    if (status == cli_cut_short) {
        char same[512];
        snprintf(same, sizeof same, "%s/same.wav", fuzz_directory());
        put(same, in.data, in.size);
        char *in_place[] = {same, same, NULL};
        fuzz_check(enhance_command.run(
                       &(struct cli_call){.command = &enhance_command, .words = in_place, .n_words = 2}) != cli_done);
        fuzz_check(holds(same, in.data, in.size) && fuzz_n_files() == 1);
        unlink(same);
    }
    return 0;
}
