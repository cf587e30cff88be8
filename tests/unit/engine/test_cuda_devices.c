/* Several GPUs: which contexts the CUDA module keeps, for any order of calls, and that each function of an engine runs
 * with its own GPU as the current one. The test fakes CUDA's runtime and the module's engines. */
#include "engine/cuda/module.c"

#include "tests/support/draw.h"
#include "tests/support/run.h"
#include "tests/support/seed.h"

#include <check.h>

enum { N_DEVICES = 3, MOST_ENGINES = 8 };

/* ---- CUDA's runtime ---------------------------------------------------------------------------------------------- */

static _Thread_local int current;
static bool context[N_DEVICES];
static unsigned n_open[N_DEVICES]; /* engines, as the engines count them */

cudaError_t cudaGetDeviceCount(int *n) {
    *n = N_DEVICES;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    *p = (struct cudaDeviceProp){.major = 99, .uuid.bytes = {(char)device}};
    snprintf(p->name, sizeof p->name, "number %d", device);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    ck_assert(device >= 0 && device < N_DEVICES);
    current = device;
    context[device] = true;
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void) {
    ck_assert_msg(n_open[current] == 0, "device %d is reset under an engine", current);
    context[current] = false;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    *left = *total = 0;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error ? "an error" : "none";
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 0;
    return cudaSuccess;
}

/* ---- the module's engines ---------------------------------------------------------------------------------------- */

static bool refuses, fits = true;
static unsigned n_calls;

static void called(const struct engine *e) {
    const struct cuda_engine *const c = (const struct cuda_engine *)e;
    ck_assert_int_eq(current, c->device);
    ck_assert(context[c->device]);
    n_calls++;
}

static int part_open(struct engine **ret, const struct engine *common, const struct engine_options *options,
                     struct err *err) {
    (void)options;
    called(common);
    if (refuses)
        return err_set(err, -ENOMEM, "no room");
    struct cuda_engine *const c = get(1, sizeof *c);
    *c = *(const struct cuda_engine *)common;
    n_open[c->device]++;
    *ret = &c->common;
    return 0;
}

static void part_close(struct engine *e) {
    called(e);
    n_open[((struct cuda_engine *)e)->device]--;
    free(e);
}

static int part_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    (void)jobs, (void)n_jobs;
    called(e);
    return 0;
}

static void part_reset(struct engine *e, unsigned stream, bool forgets) {
    (void)stream, (void)forgets;
    called(e);
}

static void part_tail(const struct engine *e, unsigned stream, float *to) {
    (void)stream, (void)to;
    called(e);
}

#define PART .open = part_open, .close = part_close, .process = part_process, .reset = part_reset, .tail = part_tail
const struct engine_type cuda_hop = {PART}, cuda_chunk = {PART};

bool cuda_hop_fits(const struct model *m) {
    (void)m;
    return fits;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static struct engine *open_on(const char *gpu, unsigned max_hops) {
    const struct engine common = {.n_streams = 1};
    struct engine *e = NULL;
    struct err err;
    const int code = open_engine(&e, &common,
                                 &(struct engine_options){.gpu = gpu, .n_streams = 1, .max_hops = max_hops}, &err);
    ck_assert_int_eq(code, refuses ? -ENOMEM : 0);
    ck_assert(refuses || ((struct cuda_engine *)e)->part == (max_hops == 1 && fits ? &cuda_hop : &cuda_chunk));
    ck_assert(refuses || e->type->together == (max_hops == 1 && fits));
    return e;
}

static void assert_contexts(bool first, bool second, bool third) {
    ck_assert(context[0] == first && context[1] == second && context[2] == third);
}

START_TEST(a_gpu_replaced_by_another_is_released) {
    struct engine *const before = open_on("0", 1), *const after = open_on("1", 1);
    assert_contexts(true, true, false); /* while the sound goes over */
    before->type->close(before);
    assert_contexts(false, true, false);
    after->type->close(after);
    assert_contexts(false, true, false); /* for the next engine */
    struct engine *const next = open_on("GPU-02000000-0000-0000-0000-000000000000", 100);
    assert_contexts(false, false, true);
    refuses = true;
    open_on("1", 1);
    assert_contexts(false, false, true);
    next->type->close(next);
    open_on("1", 1);
    primeknet_cuda.rest();
    assert_contexts(false, false, false);
}
END_TEST

START_TEST(any_order) {
    struct engine *engines[MOST_ENGINES];
    unsigned n = 0;
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned what = draw(6), at = n ? draw(n) : 0;
        struct engine *const e = n ? engines[at] : NULL;
        refuses = draw(4) == 0;
        fits = draw(2) == 0;
        if (what == 0 && n < MOST_ENGINES) {
            const char gpu[] = {(char)('0' + draw(N_DEVICES)), '\0'};
            struct engine *const opened = open_on(gpu, 1 + draw(2));
            if (opened)
                engines[n++] = opened;
        } else if (what == 1 && e) {
            e->type->close(e);
            engines[at] = engines[--n];
        } else if (what == 2 && e) {
            ck_assert_int_eq(e->type->process(e, NULL, 0), 0);
        } else if (what == 3 && e) {
            e->type->reset(e, 0, true);
        } else if (what == 4 && e) {
            e->type->tail(e, 0, NULL);
        } else if (what == 5) {
            primeknet_cuda.rest();
        }
        unsigned n_contexts = 0;
        for (unsigned k = 0; k < N_DEVICES; k++) {
            ck_assert(context[k] || !n_open[k]);
            ck_assert_msg(!n || n_open[k] || !context[k], "device %u is kept, though others are in use", k);
            n_contexts += context[k];
        }
        ck_assert(what != 5 || n || !n_contexts);
        ck_assert(n || n_contexts <= 1);
    }
    ck_assert_uint_gt(n_calls, 5000);
    while (n)
        engines[n - 1]->type->close(engines[n - 1]), n--;
}
END_TEST

int main(void) {
    draw_seed = seed_of_run(20261128);
    Suite *suite = suite_create("cuda_devices");
    TCase *t = tcase_create("cuda_devices");
    tcase_add_test(t, a_gpu_replaced_by_another_is_released);
    tcase_add_test(t, any_order);
    suite_add_tcase(suite, t);
    return run_suite(suite, CK_FORK);
}
