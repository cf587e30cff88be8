/* shape.cuh - the layout of a hop's kernels: threads and positions per block, the shapes that kernels are built for,
 * and the shared memory per block. */
#ifndef PRIMEKNET_HOP_SHAPE_CUH
#define PRIMEKNET_HOP_SHAPE_CUH

#include "hop_cuda.h"
#include <cuda_runtime.h>

/* Threads per block, and positions where shapes are not the shipped models'; `dense` and `up` have twice as many
 * positions. A block reads its weights once for all its positions. Blocks of two kernels must fit side by side, because
 * one waits for the other. */
enum { THREADS = 512, ROWS = 2 };

/* Blocks of the shipped models' kernels compute one position, or up to this many where the GPU then needs fewer rounds
 * of blocks. */
enum { MOST_TURNS = 4 };

/* Depth of the shipped models' dense blocks, and the most positions that a block computes through all their layers. */
enum { DEPTH = 4, MOST_DEEP_ROWS = 8 };

/* Positions in the shipped models' middle part. */
enum { N_HALF = 56 };
static_assert(N_HALF % MOST_TURNS == 0);

/* Segments in the shipped models' longest prime kernel. */
enum { MOST_SEGMENTS = 3 };

/* Kernels are built for each of these numbers of channels, with the other sizes of the shipped models; 0 means any
 * sizes. Prefetch the first operands into registers before waiting for the previous kernel, and the others one step
 * before their use. */
template <unsigned C> struct widths {
    /* Few channels have few weights: smaller blocks read them more often, but halve a multiprocessor's work. */
    static constexpr unsigned share = C && C <= 32 ? 2 : 1;
    static constexpr unsigned threads = THREADS / share, warps = threads / 32, rows = C ? 1 : ROWS,
                              dense_rows = 2 * rows;
    static __device__ unsigned channels(const hop_shape &s) {
        return C ? C : s.channels;
    }
    static __device__ unsigned inner(const hop_shape &s) {
        return C ? 2 * C : s.d_inner;
    }
    static __device__ unsigned states(const hop_shape &s) {
        return C ? 16 : s.d_state;
    }
    static __device__ unsigned rank(const hop_shape &s) {
        return C ? C / 16 : s.step_rank;
    }
    static __device__ unsigned past(const hop_shape &s) {
        return C ? 3 : s.d_conv - 1;
    }
    static __device__ unsigned chunks(const hop_shape &s) {
        return C ? 4 : s.n_kernels;
    }
    static __device__ unsigned half(const hop_shape &s) {
        return C ? N_HALF : s.n_half;
    }
    /* Whether the middle part has position p. */
    static __device__ bool has(const hop_shape &s, unsigned p) {
        return C || p < s.n_half;
    }
};

static inline bool is_usual(const hop_shape &s) {
    for (unsigned k = 0; k < s.n_kernels; k++)
        if (s.first_segment[k + 1] - s.first_segment[k] > MOST_SEGMENTS)
            return false;
    return s.n_half == N_HALF && s.mixer == HOP_MAMBA && s.d_inner == 2 * s.channels && s.d_state == 16 &&
           s.step_rank == s.channels / 16 && s.d_conv == 4 && s.n_kernels == 4 && s.depth == DEPTH &&
           s.n_segments * s.channels <= (s.channels <= 32 ? widths<32>::threads : widths<64>::threads);
}

static inline unsigned share_of(const hop_shape &s) {
    return is_usual(s) && s.channels <= 32 ? widths<32>::share : 1;
}

/* ---- shared memory ---- */

static __host__ __device__ inline unsigned rounded(unsigned n) {
    return (n + 3) / 4 * 4;
}

/* Floats per position. */
static inline unsigned time_floats(const hop_shape &s) {
    const unsigned mixing = s.mixer == HOP_MAMBA    ? 2 * s.d_inner + rounded(2 * s.d_state + s.step_rank)
                            : s.mixer == HOP_MAMBA2 ? s.d_seen + s.d_inner + rounded(s.d_inner / s.head_dim)
                                                    : 9 * s.channels;
    return 3 * s.channels + mixing;
}

static inline size_t shared_bytes(const hop_shape &s, unsigned turns) {
    const unsigned c = s.channels, rows = turns * (is_usual(s) ? 1 : ROWS), dense = 2 * rows * s.depth * c,
                   down = rows * (c + time_floats(s)), prime = down + rows * c * (2 * s.n_segments + s.n_kernels),
                   up = 4 * rows * c;
    return sizeof(float) * max(dense, max(prime, up));
}

static __device__ inline float *carve(float *&room, unsigned n) {
    float *a = room;
    room += n;
    return a;
}

/* The size of the groups into which a block's threads are divided. A group computes a few neighbouring outputs; each of
 * its threads takes four inputs at a time, and the sums pass from lane to lane. */
static __host__ __device__ constexpr unsigned lanes_for(unsigned channels) {
    unsigned lanes = 16;
    while (channels % (4 * lanes))
        lanes /= 2;
    return lanes;
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
static inline size_t needed_bytes(const hop_shape &s) {
    const size_t all = max(shared_bytes(s, is_usual(s) ? MOST_TURNS : 1), fft_bytes(s));
    return is_usual(s) ? max(all, dense_floats(s, MOST_DEEP_ROWS) * sizeof(float)) : all;
}

/* Prepares and launches a hop's kernels, for one number of channels or for any. */
struct hop_chain {
    int (*prepare)(const hop_shape &s);
    int (*launch)(const hop_net &n, unsigned n_slots, cudaStream_t stream);
};
extern const hop_chain hop_chain_16, hop_chain_32, hop_chain_64, hop_chain_any;

#endif
