/* overlap.cuh - kernels that start before the previous one on the stream ends, where the device can (compute capability
 * 9.0): their first blocks load weights while its last ones run. */
#ifndef PRIMEKNET_OVERLAP_CUH
#define PRIMEKNET_OVERLAP_CUH

#include <cuda_runtime.h>

/* Waits for the previous kernel. If the device supports it (compute capability 9.0), a kernel is launched while the
 * previous one runs. Until this wait it may not write, and may read only what the previous kernel does not write; all
 * earlier kernels have ended, since each lets the next one start only after its own wait. */
static __device__ inline void await(void) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Whether kernels may start before the previous one ends; their code then waits for it. Remembers the answer for the
 * last device: all kernels have the same machine code's version. */
static inline bool may_overlap(const void *kernel) {
    static thread_local int last = -1;
    static thread_local bool may;
    cudaFuncAttributes attributes;
    int device, major;
    if (cudaGetDevice(&device))
        return false;
    if (device != last) {
        may = !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) && major >= 9 &&
              !cudaFuncGetAttributes(&attributes, kernel) && attributes.ptxVersion >= 90;
        last = device;
    }
    return may;
}

/* Launches a kernel that calls await. An error is sticky and is reported later. */
template <class... Args>
static void start(void (*kernel)(Args...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                  const Args &...args) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = may_overlap((const void *)kernel);
    cudaLaunchKernelEx(&config, kernel, args...);
}

#endif
