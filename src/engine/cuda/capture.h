/* capture.h - makes a CUDA graph of what a thread launches on a stream between capture_begin and capture_end. In
 * between, it must neither allocate nor wait for the GPU. Both return a cudaError_t. */
#ifndef PRIMEKNET_CAPTURE_H
#define PRIMEKNET_CAPTURE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

static inline int capture_begin(cudaStream_t stream) {
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

/* launched: the launches' cudaError_t. */
static inline int capture_end(cudaStream_t stream, int launched, cudaGraphExec_t *ret) {
    cudaGraph_t graph = NULL;
    const int ended = cudaStreamEndCapture(stream, &graph);
    int code = launched ? launched : ended;
    if (!code)
        code = cudaGraphInstantiate(ret, graph, 0);
    if (!code)
        code = cudaGraphUpload(*ret, stream);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

#endif
