/* module.c - selects the GPU, or reports why none can be used, then opens one of the module's two engines on it. Keeps
 * a GPU's context for the next engine, unless another GPU has come into use. */
#include "config.h"

#include "engine/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_VERSION "/proc/driver/nvidia/version"
/* The oldest driver that runs what this toolkit builds. */
#if CUDART_VERSION >= 13000
#define LEAST_DRIVER "580"
#else
#define LEAST_DRIVER "525.60.13 (570 where this module has no machine code for the GPU)"
#endif

enum { NONE = -1, MOST_DEVICES = 64 }; /* the driver shows no more */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct {
    bool has_context;
    unsigned n_engines; /* open, or being opened */
} devices[MOST_DEVICES];
static unsigned n_engines; /* on all of them together */

static atomic_uint n_resets; /* of contexts */
static _Thread_local struct {
    int device;
    unsigned n_resets;
} here = {.device = -1};

/* Makes the device current on this thread. It remembers the last one, because asking the driver takes microseconds when
 * caches are cold. */
static int use(int device) {
    const unsigned resets = atomic_load(&n_resets);
    if (here.device == device && here.n_resets == resets)
        return 0;
    const int code = cudaSetDevice(device);
    if (!code) {
        here.device = device;
        here.n_resets = resets;
    }
    return code;
}

/* The kernel driver's version as it reports itself ("535.183.01"), or "". */
static void driver_version(char *text, size_t size) {
    char line[256] = "", *word = NULL;
    *text = '\0';
    FILE *f = fopen(DRIVER_VERSION, "re");
    if (!f)
        return;
    if (fgets(line, sizeof line, f))
        for (char *rest, *w = strtok_r(line, " \t\n", &rest); w && !word; w = strtok_r(NULL, " \t\n", &rest))
            if (isdigit((unsigned char)*w) && strchr(w, '.'))
                word = w;
    fclose(f);
    if (word)
        snprintf(text, size, "%s", word);
}

/* Reports why the runtime found no usable GPU. */
static int no_gpu(struct err *err, cudaError_t code) {
    char version[64];
    int cuda = 0;
    driver_version(version, sizeof version);
    cudaDriverGetVersion(&cuda);
    if (!*version)
        return err_set(err, -ENODEV, "engine cuda: no NVIDIA driver is loaded (there is no " DRIVER_VERSION ")");
    if (!cuda)
        return err_set(err, -ENODEV,
                       "engine cuda: the NVIDIA driver's library libcuda.so.1 is not installed (driver %s)", version);
    if (code == cudaErrorInsufficientDriver)
        return err_set(err, -ENODEV,
                       "engine cuda: the NVIDIA driver %s (CUDA %d.%d) is too old: at least " LEAST_DRIVER " is needed",
                       version, cuda / 1000, cuda / 10 % 100);
    if (code == cudaErrorSystemDriverMismatch)
        return err_set(
            err, -ENODEV,
            "engine cuda: the NVIDIA driver was updated: %s is loaded, libcuda.so.1 differs; restart the machine",
            version);
    if (access("/dev/nvidiactl", R_OK | W_OK))
        return err_set(err, -ENODEV, "engine cuda: /dev/nvidiactl: %s; `nvidia-modprobe` makes the GPU's device files",
                       strerror(errno));
    if (access("/dev/nvidia-uvm", R_OK | W_OK))
        return err_set(err, -ENODEV,
                       "engine cuda: /dev/nvidia-uvm: %s; `nvidia-modprobe -u` or `modprobe nvidia-uvm` loads it",
                       strerror(errno));
    return err_set(err, -ENODEV, "engine cuda: no usable GPU with driver %s: %s", version, cudaGetErrorString(code));
}

int cuda_failed(struct err *err, int code, const char *what) {
    const char *words = cudaGetErrorString((cudaError_t)code);
    switch (code) {
    case cudaErrorMemoryAllocation: {
        size_t free = 0, total = 0;
        cudaGetLastError(); /* this error does not persist */
        if (cudaMemGetInfo(&free, &total))
            return err_set(err, -ENOMEM, "engine cuda: %s: %s", what, words);
        return err_set(err, -ENOMEM, "engine cuda: %s: the GPU's memory is full (%zu of %zu MiB are free)", what,
                       free >> 20, total >> 20);
    }
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorInitializationError: return no_gpu(err, code);
    case cudaErrorNoKernelImageForDevice:
        return err_set(err, -ENOTSUP, "engine cuda: %s: this module was built for %s and has no code for this GPU",
                       what, CUDA_ARCHS);
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
        return err_set(
            err, -ENOTSUP,
            "engine cuda: %s: this module was built for %s and the driver cannot translate it for this GPU: %s", what,
            CUDA_ARCHS, words);
    case cudaErrorDevicesUnavailable:
        return err_set(err, -EBUSY, "engine cuda: %s: another program uses the GPU exclusively, or it is locked (%s)",
                       what, words);
    default: return err_set(err, -EIO, "engine cuda: %s: %s", what, words);
    }
}

static void uuid_text(char text[48], const cudaUUID_t *uuid) {
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    char *to = text + sprintf(text, "GPU");
    for (int i = 0; i < 16; i++)
        to += sprintf(to, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* Finds the GPU by number or UUID; if there is none, the message lists those present. */
static int find_device(int *ret, const char *wanted, struct err *err) {
    struct cudaDeviceProp p;
    char list[384] = "", uuid[48], *end;
    int n, code = cudaGetDeviceCount(&n);
    if (code)
        return code == cudaErrorMemoryAllocation ? cuda_failed(err, code, "cannot count the GPUs") : no_gpu(err, code);
    long number = strtol(wanted, &end, 10);
    if (*end || end == wanted)
        number = -1;
    for (int i = 0; i < n && i < MOST_DEVICES; i++) {
        if ((code = cudaGetDeviceProperties(&p, i)))
            return cuda_failed(err, code, "cannot query the GPU");
        uuid_text(uuid, &p.uuid);
        if (number == i || strcasecmp(wanted, uuid) == 0) {
            *ret = i;
            return 0;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%d: %s, %s", i ? "; " : "", i, p.name, uuid);
    }
    return err_set(err, -ENODEV, "engine cuda: there is no GPU %s; there are %s", wanted, list);
}

/* Rejects a GPU older than the oldest compute capability that the module was built for, written as 75 for 7.5. */
static int check_capability(int device, struct err *err) {
    struct cudaDeviceProp p;
    int least = INT_MAX, code = cudaGetDeviceProperties(&p, device);
    if (code)
        return cuda_failed(err, code, "cannot query the GPU");
    for (char *end, *s = (char *)CUDA_ARCHS; *s; s = end) {
        int arch = (int)strtol(s, &end, 10);
        least = arch < least ? arch : least;
        end += strspn(end, " af"); /* 90a, 120f */
    }
    if (p.major * 10 + p.minor < least)
        return err_set(err, -ENOTSUP, "engine cuda: %s has compute capability %d.%d; at least %d.%d is needed", p.name,
                       p.major, p.minor, least / 10, least % 10);
    return 0;
}

/* ---- engines on devices ------------------------------------------------------------------------------------------ */

/* Releases the contexts of devices without an engine, except one. With the lock held. */
static void release_idle(int but) {
    for (int device = 0; device < MOST_DEVICES; device++) {
        if (device == but || !devices[device].has_context || devices[device].n_engines)
            continue;
        devices[device].has_context = false;
        if (use(device))
            continue;
        cudaDeviceReset();
        atomic_fetch_add(&n_resets, 1);
    }
}

static void enter(int device) {
    pthread_mutex_lock(&lock);
    devices[device].has_context = true;
    devices[device].n_engines++;
    n_engines++;
    pthread_mutex_unlock(&lock);
}

static void leave(int device) {
    pthread_mutex_lock(&lock);
    devices[device].n_engines--;
    n_engines--;
    release_idle(n_engines ? NONE : device); /* kept for the next engine */
    pthread_mutex_unlock(&lock);
}

static void close_engine(struct engine *e) {
    const struct cuda_engine *const c = (const struct cuda_engine *)e;
    const int device = c->device;
    use(device);
    c->part->close(e);
    leave(device);
}

static int process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    const struct cuda_engine *const c = (const struct cuda_engine *)e;
    return use(c->device) ? -EIO : c->part->process(e, jobs, n_jobs);
}

static void reset(struct engine *e, unsigned stream, bool forgets) {
    const struct cuda_engine *const c = (const struct cuda_engine *)e;
    use(c->device);
    c->part->reset(e, stream, forgets);
}

static void tail(const struct engine *e, unsigned stream, float *tail_of_stream) {
    const struct cuda_engine *const c = (const struct cuda_engine *)e;
    use(c->device);
    c->part->tail(e, stream, tail_of_stream);
}

#define ON_DEVICE .name = "cuda", .close = close_engine, .process = process, .reset = reset, .tail = tail
static const struct engine_type hop_on_device = {ON_DEVICE, .together = true}, chunk_on_device = {ON_DEVICE};

static void rest(void) {
    pthread_mutex_lock(&lock);
    release_idle(NONE);
    pthread_mutex_unlock(&lock);
}

static int open_engine(struct engine **ret, const struct engine *common, const struct engine_options *options,
                       struct err *err) {
    const bool is_chunk = options->max_hops > 1 || !cuda_hop_fits(common->model);
    struct cuda_engine c = {.common = *common, .part = is_chunk ? &cuda_chunk : &cuda_hop};
    int code = find_device(&c.device, options->gpu ? options->gpu : "0", err);
    if (code || (code = check_capability(c.device, err)))
        return code;
    c.common.type = is_chunk ? &chunk_on_device : &hop_on_device;
    enter(c.device);
    code = use(c.device);
    code = code ? cuda_failed(err, code, "cannot start the GPU") : c.part->open(ret, &c.common, options, err);
    if (code) {
        leave(c.device);
        return code;
    }
    rest(); /* where other devices were in use before */
    return 0;
}

__attribute__((visibility("default"))) extern const struct cuda_module primeknet_cuda;
const struct cuda_module primeknet_cuda = {PACKAGE_VERSION, open_engine, rest};
