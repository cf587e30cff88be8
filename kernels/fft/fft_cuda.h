/* fft_cuda.h - real Fourier transforms of frames on the GPU, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k / n), and the
 * inverse, which returns n x. One block per frame, in shared memory. Does not need a library such as cuFFT.
 *
 * n_points is an even product of 2, 3 and 5, at most 4096. All pointers are device pointers; X may not be x. The
 * inverse takes the imaginary parts of the first and last bin as 0. */
#ifndef PRIMEKNET_FFT_CUDA_H
#define PRIMEKNET_FFT_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct fft_cuda {
    unsigned n_points, n_frames;
    const float *roots; /* [n_points][2], from fft_roots */
    float *x;           /* [n_frames][n_points] */
    float *X;           /* [n_frames][n_points / 2 + 1][2] */
};

/* Fills host memory with exp(-2 pi i j / n_points), real and imaginary parts. */
void fft_roots(float *roots, unsigned n_points);

/* Forward: x -> X; inverse: X -> x. Both return a cudaError_t. */
int fft_forward_cuda(const struct fft_cuda *a, struct CUstream_st *stream);
int fft_inverse_cuda(const struct fft_cuda *a, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
