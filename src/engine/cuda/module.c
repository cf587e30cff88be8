/* module.c - picks the GPU, or says why none can be used, then opens one of the module's two engines on it. */
#include "config.h"

#include "engine/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
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

static atomic_int device_used = -1;
static atomic_uint n_resets; /* of the device's context */
static _Thread_local struct {
    int device;
    unsigned n_resets;
} here = {.device = -1};

int cuda_use(int device) {
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

/* The runtime found no GPU that it can use: say why. */
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
    return err_set(err, -ENODEV, "engine cuda: no usable GPU with driver %s: %s", version,
                   cudaGetErrorString(code));
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
    case cudaErrorInitializationError:
        return no_gpu(err, code);
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
    default:
        return err_set(err, -EIO, "engine cuda: %s: %s", what, words);
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
    for (int i = 0; i < n; i++) {
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

static int open_engine(struct engine **ret, const struct engine *common, const struct engine_options *options,
                       struct err *err) {
    struct engine with_type = *common;
    int device, code = find_device(&device, options->gpu ? options->gpu : "0", err);
    if (code || (code = check_capability(device, err)))
        return code;
    device_used = device;
    if ((code = cuda_use(device)))
        return cuda_failed(err, code, "cannot start the GPU");
    with_type.type = options->max_hops > 1 ? &cuda_chunk : &cuda_hop;
    return with_type.type->open(ret, &with_type, options, err);
}

static void rest(void) {
    int device = atomic_exchange(&device_used, -1);
    if (device >= 0 && !cuda_use(device)) {
        cudaDeviceReset();
        atomic_fetch_add(&n_resets, 1);
    }
}

__attribute__((visibility("default"))) extern const struct cuda_module primeknet_cuda;
const struct cuda_module primeknet_cuda = {PACKAGE_VERSION, open_engine, rest};
