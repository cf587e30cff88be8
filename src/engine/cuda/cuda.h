/* cuda.h - what the parts of the CUDA module share, and how the program finds them.
 *
 * The module has two ways to run the network, each an engine type of its own: hop.c, one captured graph that is replayed
 * hop by hop (live sound), and chunk.c, many frames at once (files). module.c picks the device and one of them. Symbols
 * of the program (model.h, err.h) are resolved when it is loaded: programs are linked with -rdynamic. */
#ifndef PRIMEKNET_CUDA_H
#define PRIMEKNET_CUDA_H

#include "engine/engine_type.h"

#define CUDA_MODULE "primeknet-cuda.so"

/* What the module exports, as `primeknet_cuda`. The version comes first: where it is not the program's, nothing else is
 * to be read. */
struct cuda_module {
    const char *version;
    int (*open)(struct engine **ret, const struct engine *head, const struct engine_options *options, struct err *err);
    void (*rest)(void); /* gives the context back; no engine is open */
};

extern const struct engine_type cuda_hop, cuda_chunk;

/* Text for a failed call of CUDA's runtime, "engine cuda: WHAT: what is wrong"; code is a cudaError_t. Returns what may
 * pass by itself as -ENOMEM (memory ran out) or -EBUSY, what will not as -ENODEV or -ENOTSUP, and -EIO where this
 * process may not be able to use the GPU any more. */
int cuda_failed(struct err *err, int code, const char *what);

/* Makes this thread use the device. It knows what it did before: the driver takes microseconds to find that out where its
 * caches are cold. Returns a cudaError_t. */
int cuda_use(int device);

#endif
