/* fft_cuda.h - real Fourier transforms of frames on the GPU, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k / n), and back
 * n x. One block a frame, all in shared memory: no library of hundreds of megabytes is needed for a kilobyte of work.
 *
 * n_points is an even product of 2, 3 and 5, at most 4096. All arrays are the device's; X may not be x. The imaginary
 * parts of the first and the last bin are taken for 0 on the way back. */
#ifndef PRIMEKNET_FFT_CUDA_H
#define PRIMEKNET_FFT_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct fft_cuda {
    unsigned n_points, n_frames;
    const float *roots; /* [n_points][2], by fft_roots */
    float *x;           /* [n_frames][n_points] */
    float *X;           /* [n_frames][n_points / 2 + 1][2] */
};

/* In host memory: exp(-2 pi i j / n_points), real and imaginary part. */
void fft_roots(float *roots, unsigned n_points);

/* x to X, X to x. They return a cudaError_t. */
int fft_forward_cuda(const struct fft_cuda *a, struct CUstream_st *stream);
int fft_inverse_cuda(const struct fft_cuda *a, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
