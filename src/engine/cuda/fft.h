/* fft.h - real Fourier transforms of a fixed number of frames on the GPU, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k /
 * n), and the inverse times n.
 *
 * Uses cuFFT if it is available (opened at run time, or linked statically from a toolkit), else kernels/fft/, which
 * needs only the driver. fft_open allocates everything, on the current device. The transforms may be captured in a CUDA
 * graph. One CUDA stream at a time. */
#ifndef PRIMEKNET_FFT_H
#define PRIMEKNET_FFT_H

#include <stdbool.h>

struct CUstream_st;
struct fft;

/* n_points as in fft_cuda.h. `own` forces kernels/fft/, for few frames or comparisons. Returns a cudaError_t. */
int fft_open(struct fft **ret, unsigned n_points, unsigned n_frames, bool own);
void fft_close(struct fft *f); /* f may be NULL */

const char *fft_name(const struct fft *f); /* "cuFFT" or "own FFT", for display */

/* Forward: x [n_frames][n_points] -> X [n_frames][n_points / 2 + 1][2]. Inverse: X -> x; overwrites X, and takes the
 * imaginary parts of the first and last bin as 0. Both return a cudaError_t. */
int fft_forward(struct fft *f, float *x, float *X, struct CUstream_st *stream);
int fft_inverse(struct fft *f, float *X, float *x, struct CUstream_st *stream);

#endif
