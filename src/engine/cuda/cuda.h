/* cuda.h - declarations shared by the parts of the CUDA module, and the symbol that the program looks up in it.
 *
 * The module contains two engine types: hop.c replays a captured CUDA graph hop by hop, for live sound; chunk.c
 * processes many frames at once, for files, and single frames, for live sound with networks that hop.c has no kernels
 * for. module.c selects the device and one of the two. The module contains copies of base/err.c, model/access.c and
 * net/plan.c, and uses no symbol of the program or library that loads it. */
#ifndef PRIMEKNET_CUDA_H
#define PRIMEKNET_CUDA_H

#include "engine/engine_type.h"

#define CUDA_MODULE "primeknet-cuda.so"

/* The module exports this structure as `primeknet_cuda`. Check the version first: if it differs from the program's, the
 * layout may differ. */
struct cuda_module {
    const char *version;
    int (*open)(struct engine **ret, const struct engine *common, const struct engine_options *options,
                struct err *err);
    void (*rest)(void); /* releases the context of every GPU without an open engine */
};

/* The first member of both engines' structs. module.c fills it in, and makes the engine's GPU current before it calls
 * one of the engine's functions. */
struct cuda_engine {
    struct engine common;
    const struct engine_type *part; /* cuda_hop or cuda_chunk */
    int device;
};

extern const struct engine_type cuda_hop, cuda_chunk;

bool cuda_hop_fits(const struct model *m); /* whether cuda_hop runs networks of this shape */

/* Describes a failed CUDA runtime call as "engine cuda: WHAT: reason"; code is a cudaError_t. Returns -ENOMEM or -EBUSY
 * if it may succeed later, -ENODEV or -ENOTSUP if it cannot succeed, and -EIO if this process may no longer be able to
 * use the GPU. */
int cuda_failed(struct err *err, int code, const char *what);

#endif
