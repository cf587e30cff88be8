/* dense.cuh - the dense block of dilated depthwise-separable convolutions (DS_DDB): encoder and both decoders.
 *
 * The plain reference (net.c's dense); maps[0] is the block's input:
 *
 *     for each layer i, position p, channel o:
 *         for each j <= i, channel k: v[j][k] = sum over t, f < 3 of
 *             taps[i][t][f][j][k] * maps[i - j][(2 - t) 2^i frames ago][p + f - 1][k]
 *         maps[i + 1][now][p][o] = prelu(bias + sum over j, k of weight[o][j][k] * v[j][k])
 *
 * Here one kernel computes all layers. Instead of waiting for its neighbours, a block recomputes the positions around
 * its own that its later layers need. */
#ifndef PRIMEKNET_HOP_DENSE_CUH
#define PRIMEKNET_HOP_DENSE_CUH

#include "layer.cuh"

/* Produces the encoder's first map; elsewhere features is NULL. */
struct embedding {
    const float *features, *weight, *bias, *prelu; /* weight: [3][channels] */
};

/* Channel o of that map at a position. */
static __device__ inline float embedded(const embedding &e, unsigned n, unsigned at, unsigned c, unsigned o) {
    const float *f = e.features + ((size_t)blockIdx.y * n + at) * 3;
    float v = e.bias[o];
#pragma unroll
    for (unsigned j = 0; j < 3; j++)
        v = fmaf(__ldcg(f + j), e.weight[j * c + o], v);
    return v < 0 ? v * e.prelu[o] : v;
}

struct dense_args {
    hop_shape s;
    unsigned n_rows;
    const hop_slot *asked; /* for the encoder, else NULL */
    embedding embed;
    const float *x; /* for a decoder: [n_rows][channels] */
    struct {
        const float *taps[DEPTH];
        hop_linear mix[DEPTH];
        size_t ring;
        float *y;
    } blocks[2]; /* [gridDim.z] */
};

/* The layers of a dense block from L on, at N positions. All but the last layer also compute the neighbouring positions
 * that the next layers need, so a block depends on no other block. */
template <unsigned C, unsigned N, unsigned L = 0> struct dense_layers {
    static constexpr unsigned n_threads = widths<C>::threads, halo = DEPTH - 1 - L, n_rows = N + 2 * halo,
                              width = (L + 1) * C, n_items = n_rows * width,
                              n_own = (n_items + n_threads - 1) / n_threads;
    /* As many rows at a time as a group's lanes allow. */
    static constexpr unsigned most = layer<C, L + 1, C, 1>::most,
                              fitting = n_rows <= 2   ? 2
                                        : n_rows <= 4 ? 4
                                                      : 8,
                              at_once = fitting < most ? fitting : most;
    layer<C, L + 1, C, at_once, true> mix;
    float late[n_own][3]; /* taps of the present frame */
    float *products;      /* [n_rows][width] */
    dense_layers<C, N, L + 1> next;

    /* Prefetches everything except the current frame's rows; `products` holds the partial sums until then. */
    template <class Block>
    __device__ void fetch(const Block &block, const float *ring, float *&room, int first, int n, unsigned n_ring,
                          unsigned now) {
        const size_t map = (size_t)n * C;
        products = carve(room, n_items);
        mix.fetch(block.mix[L]);
#pragma unroll
        for (unsigned j = 0; j < n_own; j++) {
            const unsigned i = threadIdx.x + j * n_threads, k = i % width;
            const int p = first - (int)halo + (int)(i / width);
            if (i >= n_items)
                break;
            /* Maps are concatenated latest first. */
            const float *maps = ring + (size_t)(L - k / C) * n_ring * map + k % C;
            float rows[6], taps[6], sum = 0;
#pragma unroll
            for (unsigned t = 0; t < 2; t++) {
                const float *frame = maps + (now + n_ring - ((2 - t) << L)) % n_ring * map;
#pragma unroll
                for (int d = -1; d <= 1; d++) {
                    rows[3 * t + d + 1] = p + d >= 0 && p + d < n ? __ldcg(frame + (p + d) * (int)C) : 0;
                    taps[3 * t + d + 1] = weight1(block.taps[L] + k + (3 * t + d + 1) * width);
                }
            }
#pragma unroll
            for (unsigned t = 0; t < 3; t++)
                late[j][t] = weight1(block.taps[L] + k + (6 + t) * width);
#pragma unroll
            for (unsigned t = 0; t < 6; t++)
                sum = fmaf(rows[t], taps[t], sum);
            products[i] = sum;
        }
        next.fetch(block, ring, room, first, n, n_ring, now);
    }

    /* `maps` has the first map's rows, [N + 2 DEPTH][C], then room for the other maps, each two rows shorter. Each map
     * is visible to all threads when its layer needs it. */
    __device__ void run(float *maps, float *present, float *y, int first, int n, unsigned n_ring) const {
        const size_t map = (size_t)n * C;
#pragma unroll
        for (unsigned j = 0; j < n_own; j++) {
            const unsigned i = threadIdx.x + j * n_threads, k = i % width, m = L - k / C;
            if (i >= n_items)
                break;
            /* A row of map m, whose halo has DEPTH - m rows. */
            const float *rows = maps + (m * (N + 2 * DEPTH + 1 - m) + i / width + L - m) * C + k % C;
            float sum = products[i];
#pragma unroll
            for (unsigned t = 0; t < 3; t++)
                sum = fmaf(rows[t * C], late[j][t], sum);
            products[i] = sum;
        }
        __syncthreads();
        float *to = maps + (L + 1) * (N + 2 * DEPTH - L) * C;
#pragma unroll
        for (unsigned row = 0; row < n_rows; row += at_once)
            mix.run(
                [&](unsigned r, unsigned i, unsigned) { return four(products + min(row + r, n_rows - 1) * width + i); },
                [&](unsigned r, unsigned o, float sum, bool mine) {
                    const int j = (int)(row + r), p = first - (int)halo + j;
                    const bool is_there = p >= 0 && p < n;
                    if (!mine || j >= (int)n_rows)
                        return;
                    if (L + 1 < DEPTH)
                        to[j * C + o] = is_there ? sum : 0;
                    if (is_there && j >= (int)halo && j < (int)(halo + N))
                        (L + 1 < DEPTH ? present + (size_t)(L + 1) * n_ring * map : y)[(size_t)p * C + o] = sum;
                });
        if constexpr (L + 1 < DEPTH)
            __syncthreads();
        next.run(maps, present, y, first, n, n_ring);
    }
};

template <unsigned C, unsigned N> struct dense_layers<C, N, DEPTH> {
    template <class Block> __device__ void fetch(const Block &, const float *, float *&, int, int, unsigned, unsigned) {
    }
    __device__ void run(float *, float *, float *, int, int, unsigned) const {
    }
};

/* One dense block, or two side by side. */
template <unsigned C, unsigned N>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    dense(const __grid_constant__ dense_args a) {
    extern __shared__ float4 shared[];
    __shared__ hop_slot slot;
    constexpr unsigned n_first = (N + 2 * DEPTH) * C, n_maps = n_first + (DEPTH - 1) * (N + DEPTH) * C;
    const hop_shape &s = a.s;
    const auto &block = a.blocks[blockIdx.z];
    const int n = (int)a.n_rows, first = (int)(blockIdx.x * N);
    const size_t map = (size_t)n * C;
    float *maps = (float *)shared, *room = maps + n_maps;
    /* The encoder's kernel comes before the one that writes the slots. */
    if (threadIdx.x == 0)
        slot = a.asked ? a.asked[blockIdx.y] : hop_slot{__ldcg(&s.slots[blockIdx.y].stream), slot_now(s), 0, 0, 0, 0};
    __syncthreads();
    float *ring = s.state + slot.stream * s.n_state + block.ring, *present = ring + slot.now % s.n_ring * map;
    dense_layers<C, N> layers;
    layers.fetch(block, ring, room, first, n, s.n_ring, slot.now);
    await_with(a, 0);
    for (unsigned i = threadIdx.x; i < n_first; i += widths<C>::threads) {
        const unsigned o = i % C;
        const int row = (int)(i / C), p = first - DEPTH + row;
        float v = 0;
        if (p >= 0 && p < n)
            v = a.embed.features ? embedded(a.embed, a.n_rows, (unsigned)p, C, o)
                                 : __ldcg(a.x + blockIdx.y * map + (size_t)p * C + o);
        maps[i] = v;
        if (row >= DEPTH && row < (int)(DEPTH + N) && p < n)
            present[(size_t)p * C + o] = v;
    }
    __syncthreads();
    layers.run(maps, present, block.y + blockIdx.y * gridDim.z * map, first, n, s.n_ring);
}

#endif
