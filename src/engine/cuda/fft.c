#include "engine/cuda/fft.h"

#include "kernels/fft/fft_cuda.h"

#include <cuda_runtime_api.h>
#include <cufft.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* The cuFFT functions used here. */
static struct {
    __typeof__(cufftPlan1d) *plan;
    __typeof__(cufftSetStream) *set_stream;
    __typeof__(cufftExecR2C) *forward;
    __typeof__(cufftExecC2R) *inverse;
    __typeof__(cufftDestroy) *destroy;
} cufft;

struct fft {
    bool cufft;
    cufftHandle forward, inverse; /* valid if cufft is true */
    struct fft_cuda own;
    float *roots; /* on the device */
};

#ifdef CUFFT_STATIC
static void find_cufft(void) {
    cufft.plan = cufftPlan1d;
    cufft.set_stream = cufftSetStream;
    cufft.forward = cufftExecR2C;
    cufft.inverse = cufftExecC2R;
    cufft.destroy = cufftDestroy;
}
#else
static void find_cufft(void) {
    static const char *const names[] = {"libcufft.so.12", "libcufft.so.11"}; /* of CUDA 13 and 12 */
    void *library = NULL;
    for (unsigned i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&cufft.set_stream = dlsym(library, "cufftSetStream");
    *(void **)&cufft.forward = dlsym(library, "cufftExecR2C");
    *(void **)&cufft.inverse = dlsym(library, "cufftExecC2R");
    *(void **)&cufft.destroy = dlsym(library, "cufftDestroy");
    if (cufft.set_stream && cufft.forward && cufft.inverse && cufft.destroy)
        *(void **)&cufft.plan = dlsym(library, "cufftPlan1d");
}
#endif

static bool plan_cufft(struct fft *f, unsigned n_points, unsigned n_frames) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_cufft);
    if (!cufft.plan || cufft.plan(&f->forward, (int)n_points, CUFFT_R2C, (int)n_frames))
        return false;
    if (cufft.plan(&f->inverse, (int)n_points, CUFFT_C2R, (int)n_frames)) {
        cufft.destroy(f->forward);
        return false;
    }
    return f->cufft = true;
}

static int plan_own(struct fft *f, unsigned n_points, unsigned n_frames) {
    const size_t size = 2 * sizeof *f->roots * n_points;
    float *roots = malloc(size);
    if (!roots)
        return cudaErrorMemoryAllocation;
    fft_roots(roots, n_points);
    cudaError_t code = cudaMalloc((void **)&f->roots, size);
    if (!code)
        code = cudaMemcpy(f->roots, roots, size, cudaMemcpyHostToDevice);
    free(roots);
    f->own = (struct fft_cuda){.n_points = n_points, .n_frames = n_frames, .roots = f->roots};
    return code;
}

int fft_open(struct fft **ret, unsigned n_points, unsigned n_frames, bool own) {
    struct fft *f = calloc(1, sizeof *f);
    int code = f ? 0 : cudaErrorMemoryAllocation;
    if (!code && (own || !plan_cufft(f, n_points, n_frames)))
        code = plan_own(f, n_points, n_frames);
    if (code)
        fft_close(f);
    else
        *ret = f;
    return code;
}

void fft_close(struct fft *f) {
    if (!f)
        return;
    if (f->cufft) {
        cufft.destroy(f->forward);
        cufft.destroy(f->inverse);
    }
    cudaFree(f->roots);
    free(f);
}

const char *fft_name(const struct fft *f) {
    return f->cufft ? "cuFFT" : "own FFT";
}

/* Converts cuFFT's own error codes. */
static int of_cufft(cufftResult code) {
    return code ? cudaErrorUnknown : cudaSuccess;
}

int fft_forward(struct fft *f, float *x, float *X, struct CUstream_st *stream) {
    if (!f->cufft) {
        f->own.x = x;
        f->own.X = X;
        return fft_forward_cuda(&f->own, stream);
    }
    cufftResult code = cufft.set_stream(f->forward, stream);
    return of_cufft(code ? code : cufft.forward(f->forward, x, (cufftComplex *)X));
}

int fft_inverse(struct fft *f, float *X, float *x, struct CUstream_st *stream) {
    if (!f->cufft) {
        f->own.x = x;
        f->own.X = X;
        return fft_inverse_cuda(&f->own, stream);
    }
    cufftResult code = cufft.set_stream(f->inverse, stream);
    return of_cufft(code ? code : cufft.inverse(f->inverse, (cufftComplex *)X, x));
}
