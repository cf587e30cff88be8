/* module.c - picks the device, then one of the module's two engines. */
#include "config.h"

#include "cuda.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>

int cuda_failed(struct err *err, int code, const char *what) {
    return err_set(err, code == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "engine cuda: %s: %s", what,
                   cudaGetErrorString((cudaError_t)code));
}

static int open_engine(struct engine **ret, const struct engine *head, const struct engine_options *options,
                       struct err *err) {
    const struct engine_type *type = options->max_hops > 1 ? &cuda_chunk : &cuda_hop;
    struct engine with_type = *head;
    int device = options->gpu ? atoi(options->gpu) : 0;
    cudaError_t code = cudaSetDevice(device);
    if (code)
        return cuda_failed(err, code, "cannot use the GPU");
    with_type.type = type;
    return type->open(ret, &with_type, options, err);
}

static void rest(void) {
    cudaDeviceReset();
}

__attribute__((visibility("default"))) extern const struct cuda_module primeknet_cuda;
const struct cuda_module primeknet_cuda = {PACKAGE_VERSION, open_engine, rest};
