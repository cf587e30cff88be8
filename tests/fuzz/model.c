/* Model files, also those of voice prints: any bytes give a model that runs, or a one-line error.
 *
 * 16 bits: the allocation that fails. A byte: if 0, the rest is the file. Otherwise the rest is its JSON header; the
 * data part holds one valid value throughout and is as long as the header asks for, plus this byte less one. */
#include "config.h"

#include "fuzz.h"

#include "engine/engine.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "print/print.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DATA = 1 << 18 };

/* The largest end of data_offsets: the number before a ']', after a ','. */
static size_t asked_for(const uint8_t *header, size_t n) {
    size_t most = 0;
    for (size_t i = 0, value = 0; i < n; i++) {
        if (isdigit(header[i]))
            value = value < MAX_DATA ? value * 10 + (header[i] - '0') : value;
        else if (header[i] == ']' && value <= MAX_DATA && value > most)
            most = value;
        else if (header[i] != ' ')
            value = 0;
    }
    return most;
}

static const char *compose(struct fuzz_input in, unsigned more) {
    static uint8_t file[8 + (1 << 16) + MAX_DATA + 256];
    const size_t n = in.size < 1 << 16 ? in.size : 1 << 16, n_data = asked_for(in.data, n) + more;
    /* Windows of it undo each other over two hops, and no decay is above 0; for a voice print, no band is below 0. */
    const float value = memmem(in.data, n, "primeknet-voice", 15) ? 0.70710678f : -0.70710678f;
    for (unsigned i = 0; i < 8; i++)
        file[i] = (uint8_t)(n >> 8 * i);
    memcpy(file + 8, in.data, n);
    for (size_t i = 0; i < n_data; i += sizeof value)
        memcpy(file + 8 + n + i, &value, sizeof value);
    return fuzz_file(file, 8 + n + n_data);
}

/* An accepted model works: its metadata are consistent, and the network runs. */
static void run(const struct model *m, unsigned fail) {
    static const char *const names[] = {"cpu", "null"};
    const struct model_config *c = model_config(m);
    fuzz_check(*model_name(m) && model_rate(m) >= 8000 && model_hop(m) >= 16);
    fuzz_check(model_delay(m) == c->synthesis - c->hop && c->synthesis <= c->window);
    fuzz_check(c->n_positions == c->n_linear + c->n_bands && c->n_positions % 2);
    if ((size_t)c->n_positions * c->channels * c->d_inner * c->d_state > 1 << 24) /* seconds a hop */
        return;
    for (unsigned i = 0; i < 2; i++) {
        struct engine *e = NULL;
        struct err err = {0};
        fuzz_fail_allocation(fail);
        const int code = engine_open(&e, &(struct engine_options){.name = names[i], .n_streams = 2, .max_hops = 1}, m,
                                     &err);
        fuzz_fail_allocation(0);
        if (code) {
            fuzz_check(fail && code == -ENOMEM && !e && *err.text);
            continue;
        }
        float hop[4096];
        for (unsigned h = 0; h < 3; h++) {
            for (unsigned s = 0; s < engine_hop(e); s++)
                hop[s] = sinf((float)(s * s % 1000));
            fuzz_check(
                engine_process(e, &(struct engine_job){.stream = h % 2, .n_hops = 1, .in = hop, .out = hop}, 1) == 0);
        }
        float *tail = malloc((engine_delay(e) + 1) * sizeof *tail);
        engine_tail(e, 1, tail);
        engine_reset(e, 0);
        free(tail);
        engine_close(e);
    }
}

static void check_line(const char *path, int code, const void *opened, const struct err *err) {
    fuzz_check(code < 0 && !opened && strncmp(err->text, path, strlen(path)) == 0);
    for (const char *c = err->text; *c; c++)
        fuzz_check(isprint((unsigned char)*c));
}

/* Opens the file as an encoder of voice prints, whose prints are numbers. */
static void run_print(const char *path, unsigned fail) {
    enum { N = 6000 };
    static float sound[N], print[1024];
    struct voice_print *p = NULL;
    struct err err = {0};
    fuzz_fail_allocation(fail);
    const int code = voice_print_open(&p, path, kernels_nth(0), &err);
    fuzz_fail_allocation(0);
    if (code) {
        check_line(path, code, p, &err);
        return;
    }
    for (unsigned i = 0; i < N; i++)
        sound[i] = sinf((float)(i * i % 1000));
    const int computed = voice_print_compute(p, sound, N, print);
    fuzz_check(*voice_print_name(p) && voice_print_rate(p) >= 8000 && voice_print_size(p) <= 1024);
    fuzz_check(computed == 0 || computed == -ENODATA || computed == -ENOMSG);
    for (unsigned i = 0; i < voice_print_size(p); i++)
        fuzz_check(isfinite(print[i]));
    voice_print_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    const unsigned fail = fuzz_short(&in), more = fuzz_byte(&in);
    const char *path = more ? compose(in, more - 1) : fuzz_file(in.data, in.size);
    struct model *m = NULL;
    struct err err = {0};
    fuzz_fail_allocation(fail);
    const int code = model_load(&m, path, &err);
    fuzz_fail_allocation(0);
    if (code) {
        check_line(path, code, m, &err);
        run_print(path, fail);
        return 0;
    }
    run(m, fail);
    model_free(m);
    return 0;
}
