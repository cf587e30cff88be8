/* fake_cuda.c - replaces the CUDA module on machines without a GPU: the CPU engine under another name, which fails on
 * demand. It reads the one line of the file $FAKE_CUDA at every open and every hop:
 *
 *   (empty)         works
 *   fail ERRNO      does not open
 *   slow            opens once this line is gone
 *   late            every hop takes 16 ms
 *   lost            every hop fails */
#include "config.h"

#include "engine/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION PACKAGE_VERSION
#endif

static void fault(char line[32]) {
    const char *file = getenv("FAKE_CUDA");
    FILE *f = file ? fopen(file, "re") : NULL;
    *line = '\0';
    if (!f)
        return;
    if (fgets(line, 32, f))
        line[strcspn(line, "\n")] = '\0';
    fclose(f);
}

static void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int fake_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    char line[32];
    fault(line);
    if (!strcmp(line, "lost"))
        return -EIO;
    if (!strcmp(line, "late"))
        pause_ms(16);
    return engine_cpu.process(e, jobs, n_jobs);
}

static struct engine_type type = {.name = "cuda", .process = fake_process};

/* Runs before any thread uses the type. */
__attribute__((constructor)) static void complete_type(void) {
    type.close = engine_cpu.close;
    type.reset = engine_cpu.reset;
    type.tail = engine_cpu.tail;
}

static int fake_open(struct engine **ret, const struct engine *head, const struct engine_options *options,
                     struct err *err) {
    struct engine with_type = *head;
    char line[32];
    int number;
    fault(line);
    if (sscanf(line, "fail %d", &number) == 1)
        return err_set(err, -number, "engine cuda: this one is a fake: %s", strerror(number));
    for (; !strcmp(line, "slow"); fault(line))
        pause_ms(10);
    with_type.type = &type;
    struct engine *e;
    int code = engine_cpu.open(&e, &with_type, options, err);
    if (code)
        return code;
    e->name = "cuda (fake)";
    *ret = e;
    return 0;
}

static void fake_rest(void) {
}

extern const struct cuda_module primeknet_cuda;
const struct cuda_module primeknet_cuda = {FAKE_VERSION, fake_open, fake_rest};
