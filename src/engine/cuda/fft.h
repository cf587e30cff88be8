/* fft.h - real Fourier transforms of a fixed number of frames on the GPU, unscaled: X[k] = sum_j x[j] exp(-2 pi i j k / n),
 * and back n x.
 *
 * cuFFT where the machine has it (the module opens it at run time, or contains it where the toolkit has the static
 * library); kernels/fft/ where it does not, since a machine with nothing but a driver should run the network too.
 * Everything is allocated in open, on the current device. The two transforms may be captured in a graph and run on one stream at a time. */
#ifndef PRIMEKNET_FFT_H
#define PRIMEKNET_FFT_H

#include <stdbool.h>

struct CUstream_st;
struct fft;

/* n_points as in fft_cuda.h. own: kernels/fft/ even where cuFFT is there, to compare them. Returns
 * a cudaError_t. */
int fft_open(struct fft **ret, unsigned n_points, unsigned n_frames, bool own);
void fft_close(struct fft *f); /* NULL is fine */

const char *fft_name(const struct fft *f); /* "cuFFT" or "own FFT", for people */

/* x [n_frames][n_points] to X [n_frames][n_points / 2 + 1][2], and back; X is then undefined. The imaginary parts of the first
 * and the last bin count as 0 on the way back. They return a cudaError_t. */
int fft_forward(struct fft *f, float *x, float *X, struct CUstream_st *stream);
int fft_inverse(struct fft *f, float *X, float *x, struct CUstream_st *stream);

#endif
