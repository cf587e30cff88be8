/* cuda.h - what the parts of the CUDA module share, and what the program looks up in it.
 *
 * The module runs the network in two ways, each an engine type: hop.c replays a captured graph hop by hop (live sound),
 * chunk.c processes many frames at once (files). module.c picks the device and one of the two. The module has copies of
 * base/err.c and model/access.c and uses no symbol of the program or library that loads it. */
#ifndef PRIMEKNET_CUDA_H
#define PRIMEKNET_CUDA_H

#include "engine/engine_type.h"

#define CUDA_MODULE "primeknet-cuda.so"

/* The module exports this as `primeknet_cuda`. Read the version first: if it differs from the program's, the rest may
 * have another layout. */
struct cuda_module {
    const char *version;
    int (*open)(struct engine **ret, const struct engine *common, const struct engine_options *options,
                struct err *err);
    void (*rest)(void); /* releases the context of every GPU that no engine is open on */
};

/* The first member of both engines' own structs. module.c fills it in, and makes the engine's GPU the current one for
 * each of its functions. */
struct cuda_engine {
    struct engine common;
    const struct engine_type *part; /* cuda_hop or cuda_chunk */
    int device;
};

extern const struct engine_type cuda_hop, cuda_chunk;

/* Describes a failed CUDA runtime call as "engine cuda: WHAT: reason"; code is a cudaError_t. Returns -ENOMEM (out of
 * memory) or -EBUSY if it may succeed later, -ENODEV or -ENOTSUP if it cannot, and -EIO if this process may no longer
 * be able to use the GPU. */
int cuda_failed(struct err *err, int code, const char *what);

#endif
