/* shape.cuh - the layout of a hop's kernels: threads and positions per block, the shapes that kernels are built for,
 * and the shared memory per block. */
#ifndef PRIMEKNET_HOP_SHAPE_CUH
#define PRIMEKNET_HOP_SHAPE_CUH

#include "hop_cuda.h"
#include <cuda_runtime.h>

/* Threads per block, and positions per block of `up`. A block reads its weights once for all its positions. Blocks of
 * two kernels must fit side by side, because one waits for the other. */
enum { THREADS = 512, UP_ROWS = 2 };

/* Blocks compute one position (`up`: UP_ROWS), or up to this many times as many where the GPU then needs fewer rounds
 * of blocks. */
enum { MOST_TURNS = 4 };

/* Depth of the dense blocks, and the most positions that a block computes through all their layers. */
enum { DEPTH = 4, MOST_DEEP_ROWS = 8 };

/* Positions in the middle part, a channel's states in the scan, taps of the convolution before it but the latest, prime
 * kernels. */
enum { N_HALF = 56, N_STATES = 16, N_PAST = 3, N_KERNELS = 4 };
static_assert(N_HALF % MOST_TURNS == 0);

/* Segments in the longest prime kernel. */
enum { MOST_SEGMENTS = 3 };

/* Samples of the longest synthesis window. */
enum { MOST_SYNTHESIS = 1024 };

/* Kernels are built for each of these numbers of channels. Prefetch the first operands into registers before waiting
 * for the previous kernel, and the others one step before their use. */
template <unsigned C> struct widths {
    /* Few channels have few weights: smaller blocks read them more often, but halve a multiprocessor's work. */
    static constexpr unsigned share = C <= 32 ? 2 : 1;
    static constexpr unsigned threads = THREADS / share, warps = threads / 32;
    /* Functions, since constants make other machine code than the one that was measured. */
    static __device__ unsigned channels() {
        return C;
    }
    static __device__ unsigned inner() {
        return 2 * C;
    }
};

static inline unsigned threads_for(unsigned channels) {
    return channels <= 32 ? widths<32>::threads : widths<64>::threads;
}

/* ---- shared memory ---- */

static __host__ __device__ constexpr unsigned rounded(unsigned n) {
    return (n + 3) / 4 * 4;
}

/* Bytes of the middle part's kernels and of `up`, of which `prime` with a time stage needs the most. */
static inline size_t shared_bytes(const hop_shape &s, unsigned rows) {
    const unsigned c = s.channels, time = 3 * c + 2 * s.d_inner + rounded(2 * s.d_state + s.step_rank);
    return sizeof(float) * rows * (c + time + c * (2 * s.n_segments + s.n_kernels));
}

static __device__ inline float *carve(float *&room, unsigned n) {
    float *a = room;
    room += n;
    return a;
}

/* The size of the groups into which a block's threads are divided. A group computes a few neighbouring outputs; each of
 * its threads takes four inputs at a time, and the sums pass from lane to lane. */
static __host__ __device__ constexpr unsigned lanes_for(unsigned channels) {
    return channels / 4;
}

/* Floats of shared memory for all maps but the last, and all layers' products. */
static inline unsigned dense_floats(const hop_shape &s, unsigned n_inner) {
    unsigned n = 0;
    for (unsigned l = 0; l < DEPTH; l++)
        n += n_inner + 2 * (DEPTH - l) + (n_inner + 2 * (DEPTH - 1 - l)) * (l + 1);
    return n * s.channels;
}

/* Floats of shared memory for two arrays of points and the roots. */
static __host__ __device__ inline unsigned fft_floats(const hop_shape &s) {
    return 4 * s.n_bins + 2 * s.window;
}

static inline size_t fft_bytes(const hop_shape &s) {
    return fft_floats(s) * sizeof(float);
}

/* Bytes of shared memory of the largest block. */
static inline size_t most_bytes(const hop_shape &s) {
    return max(max(shared_bytes(s, MOST_TURNS), fft_bytes(s)), dense_floats(s, MOST_DEEP_ROWS) * sizeof(float));
}

#endif
