/* hop_cuda.h - computes one hop of up to HOP_MAX_SLOTS streams on the GPU, from samples to samples
 * (docs/model-format.md), with a chain of kernels that can be captured in a CUDA graph. Only for the shipped models'
 * shapes: hop_fits.
 *
 * A slot is a place in the batch; for each hop, the host assigns streams to slots. Pointers are device pointers unless
 * marked as mapped (page-locked host memory) or as host memory. Maps are [positions][channels]. Sums are computed in a
 * fixed order, so equal input gives bit-equal output. */
#ifndef PRIMEKNET_HOP_CUDA_H
#define PRIMEKNET_HOP_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Prime kernels are cut into segments of HOP_TAPS taps. */
enum {
    HOP_MAX_SLOTS = 64,
    HOP_MAX_TIME = 4,
    HOP_MAX_DEPTH = 5,
    HOP_MAX_KERNELS = 8,
    HOP_TAPS = 12,
    HOP_MAX_SEGMENTS = HOP_MAX_KERNELS * 6,
    HOP_LOUDEST = 1000 /* louder samples are clipped */
};

/* weight: in hop_pack's order. prelu may be NULL. */
struct hop_linear {
    const float *weight, *bias, *prelu;
};

/* taps[i]: [3][3][(i + 1) channels] */
struct hop_dense {
    const float *taps[HOP_MAX_DEPTH];
    struct hop_linear mix[HOP_MAX_DEPTH];
};

struct hop_time {
    struct hop_linear gate, proj, in, select, unused, out; /* gate: its halves interleaved */
    struct {
        const float *weight, *bias; /* [step_rank][d_inner] */
    } step;
    const float *conv_taps, *conv_bias, *pass;
    const float *decay; /* times log2 e; [d_state][d_inner] */
    unsigned index;     /* index among all time layers */
};

struct hop_freq {
    struct hop_linear gate, attention, proj, up, down; /* gate: outputs of its halves interleaved */
    struct hop_linear mix;                             /* of all prime kernels, n_kernels * channels outputs */
    const float *gate_taps;                            /* [3][channels][2], interleaved likewise */
    const float *taps; /* [n_segments][HOP_TAPS][channels][2], with and without mixing layer; 0 beyond a kernel */
};

struct hop_block {
    struct hop_time *time; /* [n_time], in host memory */
    struct hop_freq *freq; /* [n_freq], in host memory */
    const float *time_skip, *freq_skip;
};

struct hop_up {
    struct hop_linear even, odd;
    const float *head_weight, *head_bias; /* [1 or 2][channels] */
};

/* What a slot needs for one hop. `now` counts the stream's frames modulo the lengths of all rings. */
struct hop_slot {
    unsigned stream, now, ticket;
    float strength, floor, low_cut;
};

/* Sizes, and pointers that all kernels need. `unused` keeps the offsets behind it, with which the kernels' machine code
 * was measured. */
struct hop_shape {
    unsigned window, synthesis, hop, n_bins, n_linear, n_bands, n_positions, n_half;
    unsigned channels, depth, n_kernels, unused_1;
    unsigned d_inner, d_state, d_conv, step_rank, unused_2, n_ring, unused_3;
    unsigned n_segments, first_segment[HOP_MAX_KERNELS + 1]; /* first_segment: of each kernel */
    struct {
        unsigned kernel;
        int offset; /* of its first tap, relative to the position */
    } segments[HOP_MAX_SEGMENTS];
    float scale, compression, mask_ceiling, mask_minimum, band_gain_maximum, rotation_epsilon, magnitude_minimum,
        power_minimum, norm_epsilon;
    /* Offsets into a stream's state, in floats: input samples, overlap sums, rings of the dense blocks' maps
     * [depth][n_ring][rows], past of the convolutions [layer][d_conv - 1][n_half][d_inner], recurrent states
     * [layer][n_half][d_state][d_inner]. */
    size_t past, overlap, encoder, mask, phase, conv, scan, unused_4, n_state;
    float *state;           /* [n_streams][n_state] */
    struct hop_slot *slots; /* [n_slots], the device's copy */
};

/* Scratch, each array once per slot: */
struct hop_scratch {
    float *spectrum; /* [n_bins][2] */
    float *features; /* [n_positions][3] */
    float *encoded;  /* [n_positions][channels] */
    float *x, *skip; /* [n_half][channels]; skip is the input of the frequency stage */
    float *gates;    /* [n_half][2 * channels] */
    float *chunks;   /* [n_half][n_kernels * channels] */
    float *decoded;  /* [2][n_half][channels] */
    float *gain;     /* [n_positions] */
    float *rotation; /* [n_positions][2] */
};

struct hop_net {
    struct hop_shape shape;
    struct hop_scratch scratch;
    unsigned n_blocks, n_time, n_freq;
    const float *embed_weight, *embed_bias, *embed_prelu; /* weight: [3][channels] */
    struct hop_linear down;
    struct hop_dense encoder, decoders[2]; /* mask, phase */
    struct hop_up ups[2];
    struct hop_block *blocks; /* [n_blocks], in host memory */
    const float *slope;       /* [n_positions] */
    const float *roots;       /* see kernels/fft/fft_cuda.h */
    const float *analysis_window, *synthesis_window;
    const unsigned *band_edges;       /* [n_bands + 1] */
    const unsigned *bin_bands;        /* [n_bins - n_linear]: the lower of the two bands around a bin */
    const float *bin_shares;          /* [n_bins - n_linear]: weight of the upper band */
    struct hop_slot *asked;           /* mapped, [n_slots] */
    float *in;                        /* mapped, [n_slots][hop] */
    volatile unsigned long long *out; /* mapped, likewise: a sample's bits, with the ticket above them */
    volatile unsigned *done;          /* mapped, [n_slots]: tickets of hops whose tails are complete too */
    float *tail;                      /* mapped, [n_streams][synthesis - hop] */
};

/* Whether there are kernels for the shape of a network with Mamba. */
bool hop_fits(const struct hop_shape *s);

/* Weights [n_out][n_in] are stored in the order in which a block's threads read them, in hop_packed floats that start
 * as zeros. hop_pack stores the row of output o, less `mean`. */
size_t hop_packed(unsigned channels, unsigned n_in, unsigned n_out);
void hop_pack(float *to, unsigned channels, unsigned n_in, unsigned n_out, unsigned o, const float *row, double mean);

/* Prepares the kernels for a shape. Returns a cudaError_t. */
int hop_prepare(const struct hop_net *n);

/* Launches one hop of the first n_slots slots. Returns a cudaError_t. */
int hop_launch(const struct hop_net *n, unsigned n_slots, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
