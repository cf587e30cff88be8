#include "hop_cuda.h"

#include "kernels/fft/fft.cuh"

#include <cuda_runtime.h>
#include <initializer_list>

/* Threads of a block, and positions that it works on: twice as many in `dense` and `up`. It reads its weights once for
 * all of them, and the blocks of two kernels, one of which waits, shall find room side by side. */
enum { THREADS = 512, ROWS = 2 };

/* Where the blocks of a batch would be more than the GPU can have at once, they work on so many times as many
 * positions. */
enum { MOST_TURNS = 2 };

/* Layers of the shipped models' dense blocks, and positions at most that a block works on in all of them together. */
enum { DEPTH = 4, MOST_DEEP_ROWS = 8 };

/* Positions of the shipped models' middle part, and segments of their longest kernel. */
enum { HALF = 100, MOST_SEGMENTS = 3 };

/* 60 dB over full scale: louder samples are cut, so that no power overflows. */
static constexpr float loudest = 1000;

/* A kernel is built for each of these numbers of channels, with the other widths of the shipped models; 0 is any. What
 * it needs first it then fetches into registers before it waits for the kernel ahead of it, and the rest a step before
 * its turn. */
template <unsigned C> struct widths {
    /* Few channels have few weights: smaller blocks read them more often, but a multiprocessor has half the work. */
    static constexpr unsigned share = C && C <= 32 ? 2 : 1;
    static constexpr unsigned threads = THREADS / share, warps = threads / 32, rows = ROWS / share,
                              dense_rows = 2 * rows;
    static_assert(HALF % (MOST_TURNS * rows) == 0);
    static __device__ unsigned channels(const hop_shape &s) { return C ? C : s.channels; }
    static __device__ unsigned inner(const hop_shape &s) { return C ? 2 * C : s.d_inner; }
    static __device__ unsigned states(const hop_shape &s) { return C ? 16 : s.d_state; }
    static __device__ unsigned rank(const hop_shape &s) { return C ? C / 16 : s.step_rank; }
    static __device__ unsigned past(const hop_shape &s) { return C ? 3 : s.d_conv - 1; }
    static __device__ unsigned chunks(const hop_shape &s) { return C ? 4 : s.n_kernels; }
    static __device__ unsigned half(const hop_shape &s) { return C ? HALF : s.n_half; }
    /* Whether a block of the middle part has position p. */
    static __device__ bool has(const hop_shape &s, unsigned p) { return C || p < s.n_half; }
};

static bool is_usual(const hop_shape &s) {
    for (unsigned k = 0; k < s.n_kernels; k++)
        if (s.first_segment[k + 1] - s.first_segment[k] > MOST_SEGMENTS)
            return false;
    return s.n_half == HALF && s.mixer == HOP_MAMBA && s.d_inner == 2 * s.channels && s.d_state == 16 &&
           s.step_rank == s.channels / 16 && s.d_conv == 4 && s.n_kernels == 4 && s.depth == DEPTH &&
           s.n_segments * s.channels <= (s.channels <= 32 ? widths<32>::threads : widths<64>::threads);
}

static unsigned share_of(const hop_shape &s) {
    return is_usual(s) && s.channels <= 32 ? widths<32>::share : 1;
}

/* ---- shared memory ---- */

static __host__ __device__ inline unsigned rounded(unsigned n) {
    return (n + 3) / 4 * 4;
}

/* Of a position. */
static unsigned time_floats(const hop_shape &s) {
    const unsigned mixing = s.mixer == HOP_MAMBA    ? 2 * s.d_inner + rounded(2 * s.d_state + s.step_rank)
                            : s.mixer == HOP_MAMBA2 ? s.d_seen + s.d_inner + rounded(s.d_inner / s.head)
                                                      : 9 * s.channels;
    return 3 * s.channels + mixing;
}

static size_t shared_bytes(const hop_shape &s, unsigned turns) {
    const unsigned c = s.channels, rows = turns * ROWS / share_of(s), dense = 2 * rows * s.depth * c,
                   down = rows * (c + time_floats(s)), prime = down + rows * c * (2 * s.n_segments + s.n_kernels),
                   up = 4 * rows * c;
    return sizeof(float) * max(dense, max(prime, up));
}

static __device__ inline float *carve(float *&room, unsigned n) {
    float *a = room;
    room += n;
    return a;
}

/* ---- chaining ---- */

/* A kernel is launched while the one before it still runs, where the device can (compute capability 9.0). Until this it
 * may not write, and may read only what that one does not write: all others have ended, since a kernel lets the next
 * one be launched only after its own wait. What changes from hop to hop is read past the first-level cache (__ldcg),
 * which may hold what another kernel has replaced. */
static __device__ inline void await(void) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Bits of what has been fetched, so that it is seen to be there before the wait: the assembler moves the wait up to the
 * kernel's beginning, before any load that it does not depend on, but not before a barrier and what is stored ahead of
 * that. */
static __device__ inline unsigned bits(float v) {
    return __float_as_uint(v);
}

/* Likewise its arguments, a word of every 64 bytes: they lie in a cache that is filled when they are first read. */
template <class Args> static __device__ inline void await_with(const Args &a, unsigned fetched) {
#if __CUDA_ARCH__ >= 900
    const unsigned *words = (const unsigned *)&a;
#pragma unroll
    for (unsigned i = 0; i < sizeof a / 4; i += 16)
        fetched |= words[i];
    __shared__ volatile unsigned seen[THREADS];
    seen[threadIdx.x] = fetched;
    __syncthreads();
#endif
    await();
}

/* Of the block's slot; not before `analyse` has ended. */
static __device__ inline unsigned slot_now(const hop_shape &s) {
    return __ldcg(&s.slots[blockIdx.y].now);
}

static __device__ inline float *slot_state(const hop_shape &s) {
    return s.state + __ldcg(&s.slots[blockIdx.y].stream) * s.n_state;
}

/* ---- linear layers, at R positions ---- */

/* The threads of a block are groups of so many. A group has a few neighbouring outputs; each of its threads has four
 * inputs at a time, and the sums go from lane to lane. */
static __host__ __device__ constexpr unsigned lanes_for(unsigned channels) {
    unsigned lanes = 16;
    while (channels % (4 * lanes))
        lanes /= 2;
    return lanes;
}

/* A weight is fetched when nothing but the program says so: the compiler must not move it to where it is used. */
static __device__ inline float4 weight4(const float *p) {
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}

static __device__ inline float weight1(const float *p) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

static __device__ inline float2 weight2(const float *p) {
    float2 v;
    asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p));
    return v;
}

static __device__ inline void add_product(float &sum, const float4 &a, const float4 &b) {
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    sum = fmaf(a.w, b.w, sum);
}

/* Mean of some numbers, and the sum of their squared differences from it. */
struct moments {
    float mean, squares;
};

template <unsigned N> static __device__ inline moments moments_of(const float4 (&v)[N], unsigned n_steps) {
    moments m = {};
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        if (k < n_steps)
            m.mean += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    m.mean /= 4 * (float)n_steps;
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        if (k < n_steps) {
            const float4 d = make_float4(v[k].x - m.mean, v[k].y - m.mean, v[k].z - m.mean, v[k].w - m.mean);
            add_product(m.squares, d, d);
        }
    return m;
}

/* 1 / deviation of one of N rows, of each of which a lane has n numbers: of row lane / n_copies % N. So a step halves
 * the rows that a lane has to join, as long as it has more than one. Halves are joined as equals (Chan, Golub and
 * LeVeque): nothing cancels, and all lanes with a row have the same bits, whatever N is. */
template <unsigned N>
static __device__ inline float inverse_deviation(moments (&of)[N], unsigned lanes, unsigned n_copies, float n,
                                                 float epsilon) {
    unsigned n_left = N;
#pragma unroll
    for (unsigned bit = 1; bit < lanes; bit *= 2) {
        const bool halves = n_left > 1 && bit >= n_copies, upper = halves && threadIdx.x & bit;
        n_left = halves ? n_left / 2 : n_left;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            if (i < n_left) {
                const moments a = of[halves ? 2 * i : i], b = of[halves ? 2 * i + 1 : i],
                              kept = upper ? b : a, given = upper ? a : b;
                const float other = __shfl_xor_sync(~0u, given.mean, bit), difference = other - kept.mean;
                of[i].squares = fmaf(difference * difference, .5f * n,
                                     kept.squares + __shfl_xor_sync(~0u, given.squares, bit));
                of[i].mean = .5f * (kept.mean + other);
            }
        n *= 2;
    }
    return rsqrtf(of[0].squares / n + epsilon);
}

/* Adds N values over 2 BIT lanes, of which each ends with the sum of one in v[0]: a step halves what a lane has to add
 * up, as long as it has more than one. */
template <unsigned N, unsigned BIT, unsigned SIZE> static __device__ inline void add_lanes(float (&v)[SIZE]) {
    if constexpr (BIT && N == 1) {
        v[0] += __shfl_xor_sync(~0u, v[0], BIT);
        add_lanes<1, BIT / 2>(v);
    } else if constexpr (BIT) {
        const bool upper = threadIdx.x & BIT;
#pragma unroll
        for (unsigned i = 0; i < N / 2; i++) {
            const float kept = upper ? v[N / 2 + i] : v[i], given = upper ? v[i] : v[N / 2 + i];
            v[i] = kept + __shfl_xor_sync(~0u, given, BIT);
        }
        add_lanes<N / 2, BIT / 2>(v);
    }
}

/* A position of a layer, and in which turn of the layer it is. */
struct row {
    unsigned turn, at;
    __device__ operator unsigned() const { return at; }
};

/* K C inputs, N_OUT outputs. `fetch` begins to read the weights; `run` calls input(r, i, o) for the inputs i..i+3 of
 * output o at position r, and output(r, o, sum, mine) in all threads together, where only those with `mine` have a sum
 * that is theirs. It takes as many positions at once as a group's lanes allow, the others in further turns. Where
 * outputs are pairs (hop_cuda.h), an output's partner is in the lane `pair` away. Before a norm, weights whose sum is 0
 * have taken the mean away already, and the sums are divided by the deviation, which is found beside them. */
template <unsigned C, unsigned K, unsigned N_OUT, unsigned R, bool PRELU = false> struct layer {
    static constexpr unsigned lanes = lanes_for(C), n_threads = widths<C>::threads, n_groups = n_threads / lanes;
    static constexpr unsigned n_each = (N_OUT + n_groups - 1) / n_groups, most = lanes / n_each;
    static constexpr unsigned at_once = R < most ? R : most, n_turns = R / at_once, n_values = n_each * at_once;
    static constexpr unsigned n_copies = lanes / n_values, pair = n_each > 1 ? n_copies * at_once : lanes;
    static constexpr bool is_even = n_groups * n_each == N_OUT; /* no thread is without outputs */
    static_assert(4 * lanes == C && n_copies * n_values == lanes && (n_values & (n_values - 1)) == 0 &&
                  n_turns * at_once == R);
    float4 w[n_each][K];
    float bias, slope;
    unsigned n_steps;

    static __device__ unsigned first() { return threadIdx.x / lanes * n_each; }
    static __device__ unsigned own() { return first() + threadIdx.x % lanes / n_copies / at_once; }
    static __device__ bool owns() { return is_even || own() < N_OUT; }
    static __device__ row own_row(unsigned turn) { return {turn, turn * at_once + threadIdx.x / n_copies % at_once}; }

    __device__ void fetch(const hop_linear &l, unsigned n_in = K * C, unsigned = N_OUT, unsigned = C) {
        n_steps = n_in / C;
#pragma unroll
        for (unsigned m = 0; m < n_each; m++)
#pragma unroll
            for (unsigned k = 0; k < K; k++)
                w[m][k] = first() + m < N_OUT && k < n_steps
                              ? weight4(l.weight + 4 * ((m * n_steps + k) * n_threads + threadIdx.x))
                              : make_float4(0, 0, 0, 0);
        bias = l.bias && owns() ? weight1(l.bias + own()) : 0;
        slope = PRELU && owns() ? weight1(l.prelu + own()) : 1;
    }

    __device__ unsigned fetched() const {
        unsigned all = bits(bias) | bits(slope);
#pragma unroll
        for (unsigned m = 0; m < n_each; m++)
#pragma unroll
            for (unsigned k = 0; k < K; k++)
                all |= bits(w[m][k].x);
        return all;
    }

    template <bool NORM = false, class Input, class Output>
    __device__ void run(Input input, Output output, float epsilon = 0) const {
        const unsigned lane = threadIdx.x % lanes;
#pragma unroll
        for (unsigned turn = 0; turn < n_turns; turn++) {
            float v[n_values] = {}, scale = 1; /* of the row whose sum this thread has */
            moments of[at_once];
#pragma unroll
            for (unsigned r = 0; r < at_once; r++) {
                float4 a[K];
#pragma unroll
                for (unsigned k = 0; k < K; k++)
                    if (k < n_steps)
                        a[k] = input(turn * at_once + r, k * C + 4 * lane, is_even ? first() : min(first(), N_OUT - 1));
                if constexpr (NORM)
                    of[r] = moments_of(a, K);
#pragma unroll
                for (unsigned k = 0; k < K; k++)
                    if (k < n_steps)
#pragma unroll
                        for (unsigned m = 0; m < n_each; m++)
                            add_product(v[m * at_once + r], a[k], w[m][k]);
            }
            if constexpr (NORM)
                scale = inverse_deviation(of, lanes, n_copies, 4 * K, epsilon);
            add_lanes<n_values, lanes / 2>(v);
            const float sum = fmaf(v[0], scale, bias);
            output(own_row(turn), own(), PRELU && sum < 0 ? sum * slope : sum, threadIdx.x % n_copies == 0 && owns());
        }
    }
};

/* Any sizes; weights are read when they are used. */
template <unsigned K, unsigned N_OUT, unsigned R, bool PRELU> struct layer<0, K, N_OUT, R, PRELU> {
    static constexpr unsigned n_turns = 1;
    hop_linear l;
    unsigned n_in, n_out, lanes, pair;

    __device__ void fetch(const hop_linear &from, unsigned inputs, unsigned outputs, unsigned c) {
        l = from;
        n_in = inputs;
        n_out = outputs;
        pair = lanes = lanes_for(c);
    }

    __device__ unsigned fetched() const { return 0; }

    template <bool NORM = false, class Input, class Output>
    __device__ void run(Input input, Output output, float epsilon = 0) const {
        const unsigned n_groups = THREADS / lanes, n_steps = n_in / (4 * lanes), at = 4 * (threadIdx.x % lanes);
        float scale[R];
        for (unsigned r = 0; r < R; r++) {
            scale[r] = 1;
            if constexpr (NORM) {
                float4 v[16]; /* 256 channels have four */
#pragma unroll
                for (unsigned k = 0; k < 16; k++)
                    if (k < n_steps)
                        v[k] = input(r, 4 * lanes * k + at, 0);
                moments of[1] = {moments_of(v, n_steps)};
                scale[r] = inverse_deviation(of, lanes, lanes, 4 * (float)n_steps, epsilon);
            }
        }
        for (unsigned j = 0; j * n_groups < n_out; j++) {
            const unsigned o = j * n_groups + threadIdx.x / lanes;
            float v[R] = {};
            for (unsigned k = 0; k < n_steps; k++) {
                const float4 w = weight4(l.weight + 4 * ((j * n_steps + k) * THREADS + threadIdx.x));
                for (unsigned r = 0; r < R; r++)
                    add_product(v[r], input(r, 4 * lanes * k + at, min(o, n_out - 1)), w);
            }
            for (unsigned r = 0; r < R; r++) {
                for (unsigned bit = lanes / 2; bit; bit /= 2)
                    v[r] += __shfl_xor_sync(~0u, v[r], bit);
                const float sum = fmaf(v[r], scale[r], l.bias && o < n_out ? l.bias[o] : 0);
                output(row{0, r}, o, PRELU && sum < 0 ? sum * l.prelu[min(o, n_out - 1)] : sum, at == 0 && o < n_out);
            }
        }
    }
};

static __device__ inline float warp_sum(float v) {
    for (unsigned i = 16; i; i /= 2)
        v += __shfl_xor_sync(~0u, v, i);
    return v;
}

static __device__ inline float sigmoid(float v) {
    return 1 / (1 + __expf(-v));
}

static __device__ inline float silu(float v) {
    return __fdividef(v, 1 + __expf(-v));
}

static __device__ inline float4 four(const float *p) {
    return *(const float4 *)p;
}

/* Four numbers of row p of a map [n][c] that other kernels write, zeros beyond its edges. */
static __device__ inline float4 row4(const float *map, int p, unsigned n, unsigned c, unsigned i) {
    return p >= 0 && p < (int)n ? __ldcg((const float4 *)(map + (size_t)p * c + i)) : make_float4(0, 0, 0, 0);
}

/* Of a positive number; shorter than powf, and as exact as the rest. */
static __device__ inline float power(float v, float exponent) {
    return exp2f(exponent * log2f(v));
}

/* ---- analysis ---- */

struct analyse_args {
    hop_shape s;
    const hop_slot *asked;
    const float *in, *window, *roots;
    const unsigned *band_edges;
    float *spectrum, *features;
};

/* Floats of shared memory: two arrays of points, and the roots. */
static __host__ __device__ inline unsigned fft_floats(const hop_shape &s) {
    return 4 * s.n_bins + 2 * s.window;
}

static __device__ inline float2 *copy_roots(const hop_shape &s, const float *roots, float2 *to) {
    for (unsigned i = threadIdx.x; i < s.window; i += THREADS)
        to[i] = weight2(roots + 2 * i);
    return to;
}

/* N is the shipped models' window / 2, or 0: any. */
template <unsigned N>
static __global__ void __launch_bounds__(THREADS, 1) analyse(const __grid_constant__ analyse_args a) {
    extern __shared__ float4 shared[];
    __shared__ hop_slot slot;
    const hop_shape &s = a.s;
    const unsigned n = N ? N : s.window / 2, n_past = s.window - s.hop, me = threadIdx.x;
    float2 *points = (float2 *)shared, *other = points + n + 1;
    float *frame = (float *)other;
    const float2 own_window = N ? weight2(a.window + 2 * me) : make_float2(0, 0);
    const bool has_band = me < s.n_bands;
    const unsigned first_bin = has_band ? a.band_edges[me] : 0, end_bin = has_band ? a.band_edges[me + 1] : 0;
    await();
    /* Samples before these, most likely: of the stream that was here last. Which one it is now the host's memory says,
     * and that is far. */
    const unsigned last = __ldcg(&s.slots[blockIdx.y].stream);
    constexpr unsigned n_own = N ? 2 * N / THREADS : 1;
    float kept[n_own];
#pragma unroll
    for (unsigned k = 0; N && k < n_own; k++)
        if (me + k * THREADS < n_past)
            kept[k] = __ldcg(s.state + last * s.n_state + s.past + me + k * THREADS);
    if (me == 0)
        slot = a.asked[blockIdx.y];
    const float *in = a.in + blockIdx.y * s.hop;
    for (unsigned i = me; i < s.hop; i += THREADS) {
        const float v = in[i];
        frame[n_past + i] = isfinite(v) ? fmaxf(-loudest, fminf(v, loudest)) : 0;
    }
    const float2 *roots = copy_roots(s, a.roots, other + n + 1);
    __syncthreads();
    if (me == 0)
        s.slots[blockIdx.y] = slot;
    float *past = s.state + slot.stream * s.n_state + s.past;
    if (N && slot.stream == last) {
#pragma unroll
        for (unsigned k = 0; k < n_own; k++)
            if (me + k * THREADS < n_past)
                frame[me + k * THREADS] = kept[k];
    } else
        for (unsigned i = me; i < n_past; i += THREADS)
            frame[i] = __ldcg(past + i);
    __syncthreads();
    for (unsigned i = me; i < n_past; i += THREADS)
        past[i] = frame[s.hop + i];
    for (unsigned i = me; i < n; i += THREADS) {
        const float2 w = N ? own_window : weight2(a.window + 2 * i);
        points[i] = make_float2(frame[2 * i] * w.x, frame[2 * i + 1] * w.y);
    }
    const float2 *z = fft_complex<false, N>(points, other, n, roots);

    float2 *bins = z == points ? other : points, *spectrum = (float2 *)a.spectrum + blockIdx.y * s.n_bins;
    const float scale = 1 / s.scale;
    float *features = a.features + blockIdx.y * 3 * s.n_positions;
    for (unsigned i = me; i < s.n_bins; i += THREADS) {
        const float2 x = spectrum[i] = bins[i] = fft_bin(z, n, i, roots);
        if (i < s.n_linear) {
            const float magnitude = fmaxf(sqrtf(fmaf(x.x, x.x, x.y * x.y)) * scale, s.magnitude_minimum);
            const float compressed = power(magnitude, s.compression), unit = compressed * scale / magnitude;
            features[3 * i] = compressed;
            features[3 * i + 1] = x.x * unit;
            features[3 * i + 2] = x.y * unit;
        }
    }
    __syncthreads();
    if (has_band) {
        float energy = 0, *f = features + 3 * (s.n_linear + me);
        for (unsigned i = first_bin; i < end_bin; i++)
            energy += fmaf(bins[i].x, bins[i].x, bins[i].y * bins[i].y);
        f[0] = power(fmaxf(energy * scale * scale / (float)(end_bin - first_bin), s.power_minimum), s.compression / 2);
        f[1] = f[2] = 0;
    }
}

/* ---- dense blocks ---- */

/* The first map of the encoder; features is NULL elsewhere. */
struct embedding {
    const float *features, *weight, *bias, *prelu; /* weight: [3][channels] */
};

/* Channel o of it at a position. */
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
    const hop_slot *asked; /* of the encoder, else NULL */
    embedding embed;
    const float *x; /* of a decoder: [n_rows][channels] */
    struct {
        const float *taps[DEPTH];
        hop_linear mix[DEPTH];
        size_t ring;
        float *y;
    } blocks[2]; /* [gridDim.z] */
};

/* The layers of a dense block from L on, at N positions; those before the last also at the positions beside them that
 * the next ones look at. A block so needs no other's results. */
template <unsigned C, unsigned N, unsigned L = 0> struct dense_layers {
    static constexpr unsigned n_threads = widths<C>::threads, halo = DEPTH - 1 - L, n_rows = N + 2 * halo,
                              width = (L + 1) * C, n_items = n_rows * width,
                              n_own = (n_items + n_threads - 1) / n_threads;
    /* As many rows at a time as a group's lanes allow. */
    static constexpr unsigned most = layer<C, L + 1, C, 1>::most, fitting = n_rows <= 2 ? 2 : n_rows <= 4 ? 4 : 8,
                              at_once = fitting < most ? fitting : most;
    layer<C, L + 1, C, at_once, true> mix;
    float late[n_own][3]; /* taps of the present rows */
    float *products;      /* [n_rows][width] */
    dense_layers<C, N, L + 1> next;

    /* All but the present rows: what goes before them in the sums stands in `products` until then. */
    template <class Block>
    __device__ void fetch(const Block &block, const float *ring, float *&room, int first, int n, unsigned n_ring,
                          unsigned now) {
        const size_t map = (size_t)n * C;
        products = carve(room, n_items);
        mix.fetch(block.mix[L], width, C, C);
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

    /* `maps`: the first map's rows, [N + 2 DEPTH][C], and behind them room for the others', each two rows shorter. Each
     * is known to all threads when its layer's turn comes. */
    __device__ void run(float *maps, float *present, float *y, int first, int n, unsigned n_ring) const {
        const size_t map = (size_t)n * C;
#pragma unroll
        for (unsigned j = 0; j < n_own; j++) {
            const unsigned i = threadIdx.x + j * n_threads, k = i % width, m = L - k / C;
            if (i >= n_items)
                break;
            /* Of map m, whose halo is DEPTH - m rows. */
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
            mix.run([&](unsigned r, unsigned i, unsigned) {
                        return four(products + min(row + r, n_rows - 1) * width + i);
                    },
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
    template <class Block>
    __device__ void fetch(const Block &, const float *, float *&, int, int, unsigned, unsigned) {}
    __device__ void run(float *, float *, float *, int, int, unsigned) const {}
};

/* Floats of shared memory: the maps but the last, and all layers' products. */
static unsigned dense_floats(const hop_shape &s, unsigned n_inner) {
    unsigned n = 0;
    for (unsigned l = 0; l < DEPTH; l++)
        n += n_inner + 2 * (DEPTH - l) + (n_inner + 2 * (DEPTH - 1 - l)) * (l + 1);
    return n * s.channels;
}

/* A whole dense block, or two side by side. */
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
    /* The encoder's kernel is ahead of the one that writes the slots. */
    if (threadIdx.x == 0)
        slot = a.asked ? a.asked[blockIdx.y] : hop_slot{__ldcg(&s.slots[blockIdx.y].stream), slot_now(s), 0, 0, 0};
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

/* A layer of a dense block of any sizes. */
struct layer_args {
    hop_shape s;
    unsigned layer, n_rows;
    embedding embed; /* of the first layer where it is the encoder's */
    const float *x; /* of the first layer where it is a decoder's: [n_rows][channels] */
    struct {
        const float *taps;
        hop_linear mix;
        size_t ring;
        float *y; /* of the last layer, NULL of the others: they write to the ring */
    } blocks[2]; /* [gridDim.z] */
};

/* A channel of the maps at a position: its nine taps, and the rows under them. */
struct tapped {
    float taps[9], rows[9];

    __device__ float sum() const {
        float all = 0;
#pragma unroll
        for (unsigned t = 0; t < 9; t++)
            all = fmaf(rows[t], taps[t], all);
        return all;
    }
};

static __global__ void __launch_bounds__(THREADS, 1) dense_layer(const __grid_constant__ layer_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const auto &block = a.blocks[blockIdx.z];
    const unsigned c = s.channels, n = a.n_rows, first = blockIdx.x * widths<0>::dense_rows, width = (a.layer + 1) * c;
    const size_t map = (size_t)n * c;
    float *products = (float *)shared;
    layer<0, 0, 0, widths<0>::dense_rows, true> mix;
    mix.fetch(block.mix, width, c, c);
    const bool after_analysis = a.embed.features;
    if (after_analysis)
        await();
    const unsigned now = slot_now(s);
    float *ring = slot_state(s) + block.ring, *present = ring + now % s.n_ring * map;

    /* Maps are concatenated latest first. The present rows of the latest come from the kernel ahead, and it is that of
     * the first layer which keeps the first map. */
    const auto is_late = [&](unsigned k) { return k < c || a.layer == 1; };
    const auto fetch = [&](unsigned i, tapped &to) {
        const unsigned k = i % width, o = k % c;
        const float *maps = ring + (size_t)(a.layer - k / c) * s.n_ring * map + o;
        const int p = (int)(first + i / width);
#pragma unroll
        for (unsigned t = 0; t < 9; t++)
            to.taps[t] = weight1(block.taps + k + t * width);
#pragma unroll
        for (unsigned t = 0; t < 3; t++) {
            const float *frame = maps + (now + s.n_ring - ((2 - t) << a.layer)) % s.n_ring * map;
#pragma unroll
            for (int d = -1; d <= 1; d++)
                if (t < 2 || !is_late(k))
                    to.rows[3 * t + d + 1] = p + d >= 0 && p + d < (int)n ? __ldcg(frame + (p + d) * (int)c) : 0;
        }
    };
    const auto finish = [&](unsigned i, tapped &to) {
        const unsigned k = i % width, o = k % c;
        const int p = (int)(first + i / width);
        if (is_late(k)) {
            const float *late = a.layer ? present + (size_t)(a.layer - k / c) * s.n_ring * map : a.x + blockIdx.y * map;
#pragma unroll
            for (int d = -1; d <= 1; d++) {
                float v = 0;
                const int at = p + d;
                if (at < 0 || at >= (int)n)
                    ;
                else if (a.embed.features)
                    v = embedded(a.embed, n, (unsigned)at, c, o);
                else
                    v = __ldcg(late + (size_t)at * c + o);
                to.rows[6 + d + 1] = v;
            }
            if (a.layer == 0 && p < (int)n)
                present[(size_t)p * c + o] = to.rows[7];
        }
        products[i] = to.sum();
    };
    const unsigned n_items = widths<0>::dense_rows * width;
    if (!after_analysis)
        await();
    for (unsigned i = threadIdx.x; i < n_items; i += THREADS) {
        tapped one;
        fetch(i, one);
        finish(i, one);
    }
    __syncthreads();

    float *y = block.y ? block.y + blockIdx.y * gridDim.z * map : present + (size_t)(a.layer + 1) * s.n_ring * map;
    mix.run([&](unsigned r, unsigned i, unsigned) { return four(products + r * width + i); },
            [&](unsigned r, unsigned o, float sum, bool mine) {
                if (mine && first + r < n)
                    y[(size_t)(first + r) * c + o] = sum;
            });
}

/* ---- blocks ---- */

/* What follows a kernel of the middle part at the same positions: perhaps a time stage, then perhaps the first layer of
 * a frequency layer. */
struct follow_args {
    unsigned n_time;
    hop_time time[HOP_MAX_TIME];
    const float *time_skip;
    hop_linear gate; /* weight NULL: nothing */
    float *x, *skip, *gates;
};

/* A channel's causal convolution over up to N past inputs and the present one, whose tap is `latest`; T positions. */
template <unsigned N, unsigned T = 1> struct conv {
    float taps[N], past[T][N], latest, bias;
    float *at[T]; /* the oldest, which the present input replaces */

    __device__ void fetch_taps(const hop_time &t, unsigned n_past, unsigned o, unsigned d) {
        bias = weight1(t.conv_bias + o);
        latest = weight1(t.conv_taps + n_past * d + o);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (k < n_past)
                taps[k] = weight1(t.conv_taps + k * d + o);
    }

    __device__ void fetch(unsigned turn, unsigned n_past, float *pasts, unsigned now, size_t stride) {
        at[turn] = pasts + now % n_past * stride;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (k < n_past)
                past[turn][k] = __ldcg(pasts + (now + k) % n_past * stride);
    }

    __device__ float next(unsigned turn, unsigned n_past, float v) const {
        float sum = fmaf(latest, v, bias);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            if (k < n_past)
                sum = fmaf(taps[k], past[turn][k], sum);
        *at[turn] = v;
        return sum;
    }
};

/* N of a channel's numbers, which lie d apart. */
template <unsigned N> static __device__ inline void fetch_decay(float (&to)[N], const float *from, unsigned d) {
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        to[k] = weight1(from + k * d);
}

/* N states of a channel at a position. */
template <unsigned N> struct states {
    float h[N];

    __device__ void fetch(const float *from, unsigned d) {
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            h[k] = __ldcg(from + k * d);
    }

    /* Returns their part of the output. */
    __device__ float next(float *to, unsigned d, const float (&decay)[N], float dt, float v, const float *b,
                          const float *c) {
        float y = 0;
#pragma unroll
        for (unsigned k = 0; k < N; k++) {
            h[k] = fmaf(exp2f(dt * decay[k]), h[k], dt * v * b[k]);
            to[k * d] = h[k];
            y = fmaf(c[k], h[k], y);
        }
        return y;
    }
};

/* What a time stage needs of its weights and state, as far as it is fetched ahead. */
template <unsigned C, unsigned P> struct time_stage {
    /* A thread of the scan has one of n_parts of a channel's states, n_states at a time, at P positions. */
    static constexpr unsigned rows = P * widths<C>::rows, n_parts = C ? 128 / C : 2, n_states = C ? 16 / n_parts : 8;
    static_assert(!C || n_parts * widths<C>::rows * 2 * C == widths<C>::threads);
    layer<C, 1, 2 * C, rows> gate;
    layer<C, 1, C, rows> proj;
    layer<C, 1, 4 * C, rows> in;
    conv<C ? 3 : 7, layer<C, 1, 4 * C, rows>::n_turns> past;
    float *state;
    unsigned now;

    /* Where a thread of the scan stands: `part` of the states of channel o at row r. */
    struct place {
        unsigned r, o, part;
    };

    static __device__ place scan_place(unsigned j, unsigned d) {
        constexpr unsigned n = 32 / n_parts;
        const unsigned i = j / 32 * n + j % n;
        return {i / d, i % d, j % 32 / n};
    }

    __device__ float *conv_past(const hop_shape &s, const hop_time &t, unsigned p, unsigned o) const {
        const unsigned d = widths<C>::inner(s);
        return state + s.conv + ((size_t)t.index * widths<C>::past(s) * widths<C>::half(s) + p) * d + o;
    }

    __device__ float *scan_states(const hop_shape &s, const hop_time &t, unsigned p, unsigned o) const {
        const unsigned d = widths<C>::inner(s);
        return state + s.scan + ((size_t)t.index * widths<C>::half(s) + p) * widths<C>::states(s) * d + o;
    }

    __device__ void fetch_slot(const hop_shape &s) {
        now = slot_now(s);
        state = slot_state(s);
    }

    __device__ void fetch_mixing(const hop_shape &s, const hop_time &t) {
        const unsigned c = widths<C>::channels(s);
        gate.fetch(t.gate, c, 2 * c, c);
        proj.fetch(t.proj, c, c, c);
    }

    __device__ void fetch_in(const hop_shape &s, const hop_time &t, unsigned first) {
        const unsigned c = widths<C>::channels(s), d = widths<C>::inner(s);
        in.fetch(t.in, c, 2 * d, c);
        if constexpr (C)
            if (in.own() < d) {
                past.fetch_taps(t, 3, in.own(), d);
#pragma unroll
                for (unsigned turn = 0; turn < in.n_turns; turn++)
                    past.fetch(turn, 3, conv_past(s, t, first + in.own_row(turn), in.own()), now, HALF * d);
            }
    }

    /* Mamba-2 (ssd.h) of the normed x to rows of d_inner in `room`, which is not yet visible to all threads. */
    __device__ const float *mamba2(const hop_shape &s, const hop_time &t, unsigned first, const float *x, float *room) {
        const unsigned c = s.channels, d = s.d_inner, n = s.d_state, seen = s.d_seen, half = s.n_half,
                       heads = d / s.head, stride = rounded(heads), n_past = s.d_conv - 1;
        float *u = carve(room, ROWS * seen), *z = carve(room, ROWS * d), *steps = carve(room, ROWS * stride);
        in.fetch(t.in, c, seen + d + heads, c);
        in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                              [&](unsigned r, unsigned o, float sum, bool mine) {
                                  if (!mine)
                                      return;
                                  if (o >= seen + d) {
                                      steps[r * stride + o - seen - d] = fmaxf(sum, 0) + log1pf(__expf(-fabsf(sum)));
                                      return;
                                  }
                                  if (o >= seen) {
                                      z[r * d + o - seen] = silu(sum);
                                      return;
                                  }
                                  if (first + r < half) {
                                      past.fetch_taps(t, n_past, o, seen);
                                      past.fetch(0, n_past,
                                                 state + s.conv + o +
                                                     ((size_t)t.index * n_past * half + first + r) * seen,
                                                 now, (size_t)half * seen);
                                  }
                                  u[r * seen + o] = first + r < half ? silu(past.next(0, n_past, sum)) : 0;
                              },
                              s.norm_epsilon);
        __syncthreads();
        for (unsigned j = threadIdx.x; j < ROWS * d; j += THREADS) {
            const unsigned r = j / d, o = j % d, head = o / s.head;
            const float *b = u + r * seen + d, *cs = b + n, v = u[r * seen + o], dt = steps[r * stride + head];
            const float keep = exp2f(dt * t.decay[head]);
            float y = t.pass[head] * v, *h = state + s.scan + ((size_t)t.index * half + first + r) * n * d + o;
            for (unsigned k = 0; first + r < half && k < n; k++) {
                const float next = fmaf(keep, __ldcg(h + k * d), dt * v * b[k]);
                h[k * d] = next;
                y = fmaf(cs[k], next, y);
            }
            z[j] *= y;
        }
        __syncthreads();
        const unsigned r = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (r < ROWS) {
            float squares = 0;
            for (unsigned o = lane; o < d; o += 32)
                squares = fmaf(z[r * d + o], z[r * d + o], squares);
            const float scale = 1 / sqrtf(warp_sum(squares) / d + s.norm_epsilon);
            for (unsigned o = lane; o < d; o += 32)
                z[r * d + o] *= scale;
        }
        return z;
    }

    /* A GRU or an LSTM (gru.h, lstm.h), likewise. */
    __device__ const float *recurrent(const hop_shape &s, const hop_time &t, unsigned first, const float *x,
                                      float *room) {
        const unsigned c = s.channels, half = s.n_half, n_gates = s.mixer == HOP_GRU ? 3 : 4, width = n_gates * c;
        const size_t at = ((size_t)t.index * half + first) * c;
        float *h = carve(room, ROWS * c), *a = carve(room, ROWS * width), *b = carve(room, ROWS * width);
        for (unsigned j = threadIdx.x; j < ROWS * c; j += THREADS)
            h[j] = first + j / c < half ? __ldcg(state + s.scan + at + j) : 0;
        in.fetch(t.in, c, width, c);
        in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                              [&](unsigned r, unsigned o, float sum, bool mine) {
                                  if (mine)
                                      a[r * width + o] = sum;
                              },
                              s.norm_epsilon);
        __syncthreads();
        in.fetch(t.state, c, width, c);
        in.run([&](unsigned r, unsigned i, unsigned) { return four(h + r * c + i); },
               [&](unsigned r, unsigned o, float sum, bool mine) {
                   if (mine)
                       b[r * width + o] = sum;
               });
        __syncthreads();
        for (unsigned j = threadIdx.x; j < ROWS * c && first + j / c < half; j += THREADS) {
            const float *in0 = a + j / c * width + j % c, *state0 = b + j / c * width + j % c;
            if (n_gates == 3) {
                const float keep = sigmoid(in0[c] + state0[c]);
                h[j] = fmaf(keep, h[j],
                            (1 - keep) * tanhf(fmaf(sigmoid(in0[0] + state0[0]), state0[2 * c], in0[2 * c])));
            } else {
                float *to = state + s.cell + at + j;
                const float cell = fmaf(sigmoid(in0[c] + state0[c]), __ldcg(to),
                                        sigmoid(in0[0] + state0[0]) * tanhf(in0[2 * c] + state0[2 * c]));
                *to = cell;
                h[j] = sigmoid(in0[3 * c] + state0[3 * c]) * tanhf(cell);
            }
            state[s.scan + at + j] = h[j];
        }
        return h;
    }

    /* x: [rows][channels] in shared memory, at positions from `first` on. `after` is the time layer that comes next. */
    __device__ void run(const hop_shape &s, const hop_time &t, unsigned first, float *x, float *room,
                        const hop_time *after, const hop_linear &after_gate, const float *skip, const float *before) {
        const unsigned c = widths<C>::channels(s), d = widths<C>::inner(s), n = widths<C>::states(s),
                       rank = widths<C>::rank(s), n_past = widths<C>::past(s);
        const unsigned n_select = 2 * n + rank, stride = rounded(n_select);
        float *product = carve(room, rows * c), *u = carve(room, rows * d), *z = carve(room, rows * d);
        float *selected = carve(room, rows * stride);

        gate.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                                [&](unsigned r, unsigned o, float sum, bool mine) {
                                    const float v = sum * __shfl_xor_sync(~0u, sum, gate.pair);
                                    if (mine && o % 2 == 0)
                                        product[r * c + o / 2] = v;
                                },
                                s.norm_epsilon);
        __syncthreads();

        proj.run([&](unsigned r, unsigned i, unsigned) { return four(product + r * c + i); },
                 [&](unsigned r, unsigned o, float sum, bool mine) {
                     if (mine)
                         x[r * c + o] += sum;
                 });
        if constexpr (!C)
            if (s.mixer != HOP_MAMBA) {
                __syncthreads();
                const float *y = s.mixer == HOP_MAMBA2 ? mamba2(s, t, first, x, u) : recurrent(s, t, first, x, u);
                __syncthreads();
                in.fetch(t.out, d, c, c);
                in.run([&](unsigned r, unsigned i, unsigned) { return four(y + r * d + i); },
                       [&](unsigned r, unsigned o, float sum, bool mine) {
                           if (mine)
                               x[r * c + o] += skip ? fmaf(skip[o], before[r * c + o], sum) : sum;
                       });
                if (after)
                    fetch_mixing(s, *after);
                else if (after_gate.weight)
                    gate.fetch(after_gate, c, 2 * c, c);
                __syncthreads();
                return;
            }
        layer<C, 2, 32 + C / 16, rows> select;
        select.fetch(t.select, d, n_select, c);
        __syncthreads();

        in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                              [&](row r, unsigned o, float sum, bool mine) {
                                  if (!mine)
                                      return;
                                  if (o >= d) {
                                      z[r * d + o - d] = silu(sum);
                                      return;
                                  }
                                  const bool has = widths<C>::has(s, first + r);
                                  if constexpr (!C)
                                      if (has) {
                                          past.fetch_taps(t, n_past, o, d);
                                          past.fetch(0, n_past, conv_past(s, t, first + r, o), now, s.n_half * d);
                                      }
                                  u[r * d + o] = has ? silu(past.next(r.turn, n_past, sum)) : 0;
                              },
                              s.norm_epsilon);
        states<n_states> scan[P];
        float decay[n_states], step_weights[4], step_bias = 0, pass = 0;
        const place own = scan_place(threadIdx.x, d); /* and at every widths<C>::rows-th row after it */
        if constexpr (C) {
            const unsigned k = own.part * n_states;
            fetch_decay(decay, t.decay + k * d + own.o, d);
#pragma unroll
            for (unsigned turn = 0; turn < P; turn++)
                scan[turn].fetch(scan_states(s, t, first + own.r + turn * widths<C>::rows, own.o) + k * d, d);
#pragma unroll
            for (unsigned k = 0; k < C / 16; k++)
                step_weights[k] = weight1(t.step.weight + k * d + own.o);
            step_bias = weight1(t.step.bias + own.o);
            pass = weight1(t.pass + own.o);
        }
        __syncthreads();

        select.run([&](unsigned r, unsigned i, unsigned) { return four(u + r * d + i); },
                   [&](unsigned r, unsigned o, float sum, bool mine) {
                       if (mine)
                           selected[r * stride + o] = sum;
                   });
        layer<C, 2, C, rows> out;
        out.fetch(t.out, d, c, c);
        if (after)
            fetch_mixing(s, *after);
        else if (after_gate.weight)
            gate.fetch(after_gate, c, 2 * c, c);
        __syncthreads();

        const auto advance = [&](const place &at, unsigned turn) {
            const unsigned i = at.r * d + at.o, share = C ? n_states : n / n_parts;
            const float *b = selected + at.r * stride, *cs = b + n, *q = cs + n, v = u[i];
            float step = C ? step_bias : t.step.bias[at.o], y = 0;
#pragma unroll
            for (unsigned k = 0; k < rank; k++)
                step = fmaf(q[k], C ? step_weights[k % 4] : t.step.weight[k * d + at.o], step);
            const float dt = fmaxf(step, 0) + log1pf(__expf(-fabsf(step)));
            if (widths<C>::has(s, first + at.r))
#pragma unroll
                for (unsigned k = at.part * share; k < (at.part + 1) * share; k += n_states) {
                    float *to = scan_states(s, t, first + at.r, at.o) + k * d;
                    if constexpr (!C) {
                        fetch_decay(decay, t.decay + k * d + at.o, d);
                        scan[0].fetch(to, d);
                    }
                    y += scan[turn].next(to, d, decay, dt, v, b + k, cs + k);
                }
#pragma unroll
            for (unsigned bit = 32 / n_parts; bit < 32; bit *= 2)
                y += __shfl_xor_sync(~0u, y, bit);
            if (at.part == 0)
                z[i] *= fmaf(C ? pass : t.pass[at.o], v, y);
        };
        if constexpr (C)
#pragma unroll
            for (unsigned turn = 0; turn < P; turn++)
                advance({own.r + turn * widths<C>::rows, own.o, own.part}, turn);
        else
            for (unsigned j = threadIdx.x; j < n_parts * rows * d; j += THREADS)
                advance(scan_place(j, d), 0);
        __syncthreads();

        out.run([&](unsigned r, unsigned i, unsigned) { return four(z + r * d + i); },
                [&](unsigned r, unsigned o, float sum, bool mine) {
                    if (mine)
                        x[r * c + o] += skip ? fmaf(skip[o], before[r * c + o], sum) : sum;
                });
        if (after)
            fetch_in(s, *after, first);
        __syncthreads();
    }
};

/* x: [rows][channels] in shared memory, at positions from `first` on, not yet visible to all threads. Of the stage, all
 * that the first time layer or else the gate needs must have been fetched. */
template <unsigned C, unsigned P, bool TIME>
static __device__ void follow(const hop_shape &s, const follow_args &a, unsigned first, float *x, float *room,
                              time_stage<C, P> &stage) {
    constexpr unsigned rows = P * widths<C>::rows;
    const unsigned c = widths<C>::channels(s), half = widths<C>::half(s),
                   n_own = (C ? rows : min(half - first, rows)) * c;
    const size_t at = ((size_t)blockIdx.y * half + first) * c;
    __syncthreads();
    if constexpr (TIME) {
        float *before = carve(room, rows * c);
        for (unsigned i = threadIdx.x; i < rows * c; i += widths<C>::threads)
            before[i] = x[i];
        for (unsigned i = 0; i < a.n_time; i++) {
            const bool last = i + 1 == a.n_time;
            stage.run(s, a.time[i], first, x, room, last ? NULL : &a.time[i + 1], a.gate, last ? a.time_skip : NULL,
                      before);
        }
        for (unsigned i = threadIdx.x; i < n_own; i += widths<C>::threads)
            a.skip[at + i] = x[i];
    }
    for (unsigned i = threadIdx.x; i < n_own; i += widths<C>::threads)
        a.x[at + i] = x[i];
    if (a.gate.weight) {
        float *gates = a.gates + 2 * at;
        stage.gate.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                                      [&](unsigned r, unsigned o, float sum, bool mine) {
                                          if (mine && widths<C>::has(s, first + r))
                                              gates[r * 2 * c + o] = sum;
                                      },
                                      s.norm_epsilon);
    }
}

struct down_args {
    hop_shape s;
    const float *encoded;
    hop_linear down;
    follow_args follow;
};

/* Convolution over frequency, kernel 3, stride 2: rows of three positions that start two apart. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    down(const __grid_constant__ down_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned rows = P * widths<C>::rows;
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), first = blockIdx.x * rows;
    float *room = (float *)shared, *x = carve(room, rows * c);
    const float *encoded = a.encoded + (size_t)blockIdx.y * s.n_positions * c;
    layer<C, 3, C, rows, true> down;
    time_stage<C, P> stage;
    down.fetch(a.down, 3 * c, c, c);
    stage.fetch_slot(s);
    stage.fetch_mixing(s, a.follow.time[0]);
    stage.fetch_in(s, a.follow.time[0], first);
    await_with(a, down.fetched() | stage.gate.fetched() | stage.proj.fetched() | stage.in.fetched());
    down.run([&](unsigned r, unsigned i, unsigned) {
                 return row4(encoded, (int)(2 * (first + r) + i / c), s.n_positions, c, i % c);
             },
             [&](unsigned r, unsigned o, float sum, bool mine) {
                 if (mine)
                     x[r * c + o] = sum;
             });
    follow<C, P, true>(s, a.follow, first, x, room, stage);
}

struct attend_args {
    hop_shape s;
    const float *gate_taps, *gates; /* taps: [3][channels][2] */
    hop_linear attention, proj, up;
    float *x, *chunks;
};

/* The halves of the gates at rows of channel o, whose pairs lie side by side. */
static __device__ inline float2 gates_at(const float *gates, int p, unsigned n, unsigned c, unsigned o) {
    return p >= 0 && p < (int)n ? __ldcg((const float2 *)gates + (size_t)p * c + o) : make_float2(0, 0);
}

/* Their product after their convolution. */
static __device__ inline float gated(const float2 *g, const float2 (&taps)[3]) {
    float a = 0, b = 0;
#pragma unroll
    for (unsigned k = 0; k < 3; k++) {
        a = fmaf(g[k].x, taps[k].x, a);
        b = fmaf(g[k].y, taps[k].y, b);
    }
    return a * b;
}

/* The first half of a frequency layer but for its gate, and `up` of the second. Every block takes the mean over all
 * positions itself: that is cheaper than a kernel of its own. A warp has a few channels of it, its lanes share out the
 * positions. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    attend(const __grid_constant__ attend_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned rows = P * widths<C>::rows, n_each = C ? C / widths<C>::warps : 1, n_shares = 32 / n_each;
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), width = widths<C>::chunks(s) * c, half = widths<C>::half(s),
                   first = blockIdx.x * rows, lane = threadIdx.x % 32;
    float *room = (float *)shared, *x = carve(room, rows * c), *own = carve(room, rows * c),
          *mean = carve(room, c), *factor = carve(room, c);
    const float *gates = a.gates + (size_t)blockIdx.y * half * 2 * c;
    layer<C, 1, C, 1> attention;
    layer<C, 1, C, rows> proj;
    layer<C, 1, 4 * C, rows> up;
    attention.fetch(a.attention, c, c, c);
    proj.fetch(a.proj, c, c, c);
    const auto taps_of = [&](unsigned o, float2 (&taps)[3]) {
#pragma unroll
        for (unsigned k = 0; k < 3; k++)
            taps[k] = weight2(a.gate_taps + 2 * (k * c + o));
    };
    float *const map = a.x + ((size_t)blockIdx.y * half + first) * c;
    if constexpr (C) {
        /* Every lane takes the sum over `share` positions from `begin` on. */
        constexpr unsigned share = (HALF + n_shares - 1) / n_shares;
        const unsigned begin = lane / n_each * share, o = threadIdx.x / 32 * n_each + lane % n_each, i = threadIdx.x;
        const bool has_own = i < rows * C;
        static_assert(rows * C <= widths<C>::threads);
        float2 taps[3], own_taps[3], g[share + 2], own_g[3];
        taps_of(o, taps);
        taps_of(i % C, own_taps);
        unsigned fetched = attention.fetched() | proj.fetched();
#pragma unroll
        for (unsigned k = 0; k < 3; k++)
            fetched |= bits(taps[k].x) | bits(own_taps[k].x);
        await_with(a, fetched);
        const float own_x = has_own ? __ldcg(map + i) : 0;
#pragma unroll
        for (unsigned k = 0; k < 3; k++)
            own_g[k] = has_own ? gates_at(gates, (int)(first + i / C + k) - 1, half, C, i % C) : make_float2(0, 0);
        const float2 *from = (const float2 *)gates + begin * C + o;
#pragma unroll
        for (unsigned k = 0; k < share + 2; k++)
            g[k] = (k || begin) && begin <= HALF - k ? __ldcg(from + ((int)k - 1) * (int)C) : make_float2(0, 0);
        float sum = 0;
#pragma unroll
        for (unsigned k = 0; k < share; k++)
            if (begin < HALF - k)
                sum += gated(g + k, taps);
        if (has_own) {
            x[i] = own_x;
            own[i] = gated(own_g, own_taps);
        }
#pragma unroll
        for (unsigned bit = n_each; bit < 32; bit *= 2)
            sum += __shfl_xor_sync(~0u, sum, bit);
        if (lane < n_each)
            mean[o] = sum * (1.f / HALF);
    } else {
        float2 taps[3], g[3];
        await();
        for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS) {
            x[i] = first + i / c < half ? __ldcg(map + i) : 0;
            taps_of(i % c, taps);
            for (int k = 0; k < 3; k++)
                g[k] = gates_at(gates, (int)(first + i / c) + k - 1, half, c, i % c);
            own[i] = gated(g, taps);
        }
        for (unsigned o = threadIdx.x / 32; o < c; o += THREADS / 32) {
            float sum = 0;
            taps_of(o, taps);
            for (unsigned p = lane; p < half; p += 32) {
#pragma unroll
                for (int k = 0; k < 3; k++)
                    g[k] = gates_at(gates, (int)p + k - 1, half, c, o);
                sum += gated(g, taps);
            }
            sum = warp_sum(sum);
            if (lane == 0)
                mean[o] = sum / (float)half;
        }
    }
    up.fetch(a.up, c, width, c);
    __syncthreads();
    attention.run([&](unsigned, unsigned i, unsigned) { return four(mean + i); },
                  [&](unsigned, unsigned o, float sum, bool mine) {
                      if (mine)
                          factor[o] = sum;
                  });
    __syncthreads();
    proj.run([&](unsigned r, unsigned i, unsigned) {
                 const float4 v = four(own + r * c + i), f = four(factor + i);
                 return make_float4(v.x * f.x, v.y * f.y, v.z * f.z, v.w * f.w);
             },
             [&](unsigned r, unsigned o, float sum, bool mine) {
                 if (!mine)
                     return;
                 x[r * c + o] += sum;
                 if (widths<C>::has(s, first + r))
                     map[r * c + o] = x[r * c + o];
             });
    __syncthreads();
    float *chunks = a.chunks + ((size_t)blockIdx.y * half + first) * width;
    up.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                          [&](unsigned r, unsigned o, float sum, bool mine) {
                              if (mine && widths<C>::has(s, first + r))
                                  chunks[r * width + o] = sum;
                          },
                          s.norm_epsilon);
}

struct prime_args {
    hop_shape s;
    const float *taps, *chunks; /* taps: hop_freq.taps */
    hop_linear mix, down;
    const float *freq_skip; /* NULL but after the stage's last layer */
    follow_args follow;
};

/* The rest of a frequency layer, then, with TIME, a time stage. Kernels are cut into segments of as many taps, one for
 * each thread. */
template <unsigned C, unsigned P, bool TIME>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    prime(const __grid_constant__ prime_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned rows = P * widths<C>::rows;
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), width = widths<C>::chunks(s) * c, half = widths<C>::half(s),
                   first = blockIdx.x * rows, n_items = s.n_segments * c;
    float *room = (float *)shared, *x = carve(room, rows * c);
    float *after = room; /* the time stage may take the rest */
    float *parts = carve(after, 2 * rows * n_items), *products = after;
    const float *chunks = a.chunks + (size_t)blockIdx.y * half * width;
    float2 taps[HOP_TAPS];
    const auto fetch = [&](unsigned i) {
#pragma unroll
        for (unsigned k = 0; k < HOP_TAPS; k++)
            taps[k] = weight2(a.taps + 2 * ((size_t)i / c * HOP_TAPS * c + k * c + i % c));
    };
    layer<C, 1, 4 * C, rows> mix;
    layer<C, 4, C, rows> down;
    time_stage<C, P> stage;
    if constexpr (C)
        if (threadIdx.x < n_items)
            fetch(threadIdx.x);
    mix.fetch(a.mix, c, width, c);
    if constexpr (TIME)
        stage.fetch_slot(s);

    unsigned fetched = mix.fetched();
    if constexpr (C)
        if (threadIdx.x < n_items)
#pragma unroll
            for (unsigned k = 0; k < HOP_TAPS; k++)
                fetched |= bits(taps[k].x);
    await_with(a, fetched);
    for (unsigned i = threadIdx.x; i < n_items; i += widths<C>::threads) { /* once, but for any sizes */
        const unsigned segment = i / c, o = s.segments[segment].kernel * c + i % c;
        const int top = (int)first + s.segments[segment].offset;
        float v[HOP_TAPS + rows - 1];
        if constexpr (!C)
            fetch(i);
#pragma unroll
        for (unsigned k = 0; k < HOP_TAPS + rows - 1; k++) {
            const int p = top + (int)k;
            v[k] = p >= 0 && p < (int)half ? __ldcg(chunks + (size_t)p * width + o) : 0;
        }
#pragma unroll
        for (unsigned r = 0; r < rows; r++) {
            float mixed = 0, plain = 0;
#pragma unroll
            for (unsigned k = 0; k < HOP_TAPS; k++) {
                mixed = fmaf(v[k + r], taps[k].x, mixed);
                plain = fmaf(v[k + r], taps[k].y, plain);
            }
            parts[2 * r * n_items + i] = mixed;
            parts[(2 * r + 1) * n_items + i] = plain;
        }
    }
    down.fetch(a.down, width, c, c);
    const size_t map = ((size_t)blockIdx.y * half + first) * c;
    float before[down.n_turns] = {};
    const auto fetch_before = [&](row r, unsigned o) {
        before[r.turn] = __ldcg(a.follow.x + map + r * c + o);
        if (a.freq_skip)
            before[r.turn] = fmaf(weight1(a.freq_skip + o), __ldcg(a.follow.skip + map + r * c + o), before[r.turn]);
    };
    if constexpr (C)
#pragma unroll
        for (unsigned turn = 0; turn < down.n_turns; turn++)
            if (down.owns())
                fetch_before(down.own_row(turn), down.own());
    const auto each_segment = [&](unsigned kernel, const auto &does) {
        const unsigned begin = s.first_segment[kernel], end = s.first_segment[kernel + 1];
        if constexpr (C) {
#pragma unroll
            for (unsigned k = 0; k < MOST_SEGMENTS; k++)
                if (begin + k < end)
                    does(begin + k);
        } else
            for (unsigned k = begin; k < end; k++)
                does(k);
    };
    __syncthreads();
    mix.run([&](unsigned r, unsigned i, unsigned o) {
                float4 sum = make_float4(0, 0, 0, 0);
                each_segment(o / c, [&](unsigned k) {
                    const float4 v = four(parts + 2 * r * n_items + k * c + i);
                    sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
                });
                return sum;
            },
            [&](unsigned r, unsigned o, float sum, bool mine) {
                if (!mine)
                    return;
                float plain = 0;
                each_segment(o / c, [&](unsigned k) { plain += parts[(2 * r + 1) * n_items + k * c + o % c]; });
                products[r * width + o] = sum * plain;
            });
    if constexpr (TIME)
        stage.fetch_mixing(s, a.follow.time[0]);
    else if (a.follow.gate.weight)
        stage.gate.fetch(a.follow.gate, c, 2 * c, c);
    __syncthreads();
    down.run([&](unsigned r, unsigned i, unsigned) { return four(products + r * width + i); },
             [&](row r, unsigned o, float sum, bool mine) {
                 if (!mine)
                     return;
                 if constexpr (!C)
                     if (first + r < half)
                         fetch_before(r, o);
                 x[r * c + o] = before[r.turn] + sum;
             });
    if constexpr (TIME)
        stage.fetch_in(s, a.follow.time[0], first);
    follow<C, P, TIME>(s, a.follow, first, x, room, stage);
}

/* ---- heads ---- */

struct up_args {
    hop_shape s;
    const float *decoded;
    hop_up ups[2];
    const float *slope;
    float *gain, *rotation;
};

/* The transposed convolution, kernel 3, stride 2: even rows of the output see two rows of the input, odd rows one. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    up(const __grid_constant__ up_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned rows = P * widths<C>::dense_rows;
    const hop_shape &s = a.s;
    const hop_up &l = a.ups[blockIdx.z];
    const unsigned c = widths<C>::channels(s), half = widths<C>::half(s), first = blockIdx.x * rows;
    float *y = (float *)shared;
    const float *decoded = a.decoded + (size_t)(2 * blockIdx.y + blockIdx.z) * half * c;
    layer<C, 2, C, rows, true> even;
    layer<C, 1, C, rows, true> odd;
    even.fetch(l.even, 2 * c, c, c);
    odd.fetch(l.odd, c, c, c);
    /* A warp has one of the heads' outputs, at P positions. */
    const unsigned n_out = 1 + blockIdx.z, lane = threadIdx.x % 32, item = threadIdx.x / 32, o = item % n_out;
    const auto row_of = [&](unsigned turn) { return (item + turn * widths<C>::warps) / n_out; };
    const auto has = [&](unsigned row) { return row < 2 * rows && 2 * first + row < s.n_positions; };
    float head[8], slopes[P];
#pragma unroll
    for (unsigned k = 0; k < 8; k++)
        head[k] = lane + 32 * k < c ? weight1(l.head_weight + o * c + lane + 32 * k) : 0;
    const float head_bias = weight1(l.head_bias + o);
    unsigned fetched = bits(head_bias);
#pragma unroll
    for (unsigned turn = 0; turn < P; turn++) {
        slopes[turn] = has(row_of(turn)) ? weight1(a.slope + 2 * first + row_of(turn)) : 0;
        fetched |= bits(slopes[turn]);
    }
#pragma unroll
    for (unsigned k = 0; k < 8; k++)
        fetched |= bits(head[k]);
    await_with(a, even.fetched() | odd.fetched() | fetched);
    even.run([&](unsigned r, unsigned i, unsigned) {
                 return row4(decoded, (int)(first + r + i / c) - 1, half, c, i % c);
             },
             [&](unsigned r, unsigned o, float sum, bool mine) {
                 if (mine)
                     y[2 * r * c + o] = sum;
             });
    odd.run([&](unsigned r, unsigned i, unsigned) { return row4(decoded, (int)(first + r), half, c, i); },
            [&](unsigned r, unsigned o, float sum, bool mine) {
                if (mine)
                    y[(2 * r + 1) * c + o] = sum;
            });
    __syncthreads();

#pragma unroll
    for (unsigned turn = 0; turn < P; turn++) {
        const unsigned row = row_of(turn), p = 2 * first + row;
        if (!has(row))
            break;
        float sum = 0;
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            if (lane + 32 * k < c)
                sum = fmaf(y[row * c + lane + 32 * k], head[k], sum);
        sum = warp_sum(sum) + head_bias;
        if (lane)
            continue;
        if (blockIdx.z)
            a.rotation[2 * ((size_t)blockIdx.y * s.n_positions + p) + o] = sum;
        else {
            const float mask = s.mask_ceiling / (1 + expf(-slopes[turn] * sum));
            const float gain = isfinite(mask) ? power(fmaxf(mask, s.mask_minimum), 1 / s.compression) : 1;
            a.gain[(size_t)blockIdx.y * s.n_positions + p] = p < s.n_linear ? gain : fminf(gain, s.band_gain_maximum);
        }
    }
}

/* ---- synthesis ---- */

struct synthesise_args {
    hop_shape s;
    const float *spectrum, *gain, *rotation, *window, *roots;
    const unsigned *bin_bands;
    const float *bin_shares;
    volatile unsigned long long *out;
    float *tail;
    volatile unsigned *done;
};

static __device__ inline float softened(float gain, float strength, float floor) {
    return fmaxf(strength == 1 ? gain : powf(gain, strength), floor);
}

/* (1 + re, im), normalised, to the power of `strength`. */
static __device__ inline float2 turn(float2 rotation, float epsilon, float strength) {
    const float re = 1 + rotation.x, im = rotation.y, square = fmaf(re, re, im * im);
    const float length = sqrtf(square / (square + epsilon));
    if (!isfinite(length) || strength == 0)
        return make_float2(1, 0);
    if (strength == 1) {
        const float scale = 1 / sqrtf(square + epsilon);
        return make_float2(re * scale, im * scale);
    }
    const float angle = strength * atan2f(im, re), scale = powf(length, strength);
    return make_float2(scale * cosf(angle), scale * sinf(angle));
}

/* A bin before the network has spoken: its gain is taken `share` of the way from one position's to the next one's. */
struct bin {
    float2 x;
    unsigned position;
    float share;
};

/* N is the shipped models' window / 2, or 0: any. */
template <unsigned N>
static __global__ void __launch_bounds__(THREADS, 1) synthesise(const __grid_constant__ synthesise_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned n = N ? N : s.window / 2, n_kept = s.synthesis - s.hop, me = threadIdx.x;
    const hop_slot slot = {.stream = __ldcg(&s.slots[blockIdx.y].stream), .ticket = __ldcg(&s.slots[blockIdx.y].ticket),
                           .strength = __ldcg(&s.slots[blockIdx.y].strength),
                           .floor = __ldcg(&s.slots[blockIdx.y].floor)};
    float2 *points = (float2 *)shared, *bins = points + n + 1;
    float *overlap = s.state + slot.stream * s.n_state + s.overlap;
    const auto fetch_bin = [&](unsigned i, bin &to) {
        to.x = __ldcg((const float2 *)a.spectrum + blockIdx.y * s.n_bins + i);
        const unsigned above = i < s.n_linear ? 0 : i - s.n_linear;
        to.position = i < s.n_linear ? i : s.n_linear + a.bin_bands[above];
        to.share = i < s.n_linear ? 0 : weight1(a.bin_shares + above);
    };
    const auto fetch_sum = [&](unsigned i) {
        return make_float2(weight1(a.window + i), i < n_kept ? __ldcg(overlap + i) : 0);
    };
    constexpr unsigned n_ahead = N / THREADS + 1, n_sums = N ? 2 * N / THREADS : 1;
    bin ahead[n_ahead];
    float2 sums_ahead[n_sums];
#pragma unroll
    for (unsigned k = 0; N && k < n_ahead; k++)
        if (me + k * THREADS < s.n_bins)
            fetch_bin(me + k * THREADS, ahead[k]);
#pragma unroll
    for (unsigned k = 0; N && k < n_sums; k++)
        if (me + k * THREADS < s.synthesis)
            sums_ahead[k] = fetch_sum(me + k * THREADS);
    const float2 *roots = copy_roots(s, a.roots, bins + n + 1);
    await_with(a, 0);
    const float *gains = a.gain + blockIdx.y * s.n_positions;
    const float2 *rotations = (const float2 *)a.rotation + blockIdx.y * s.n_positions;
    /* What the network says of a bin. */
    struct said {
        float gain, next;
        float2 rotation;
    };
    const auto listen = [&](unsigned i, const bin &b, said &to) {
        to.gain = __ldcg(gains + b.position);
        to.next = b.share ? __ldcg(gains + b.position + 1) : to.gain;
        if (i < s.n_linear)
            to.rotation = __ldcg(rotations + i);
    };
    const auto apply = [&](unsigned i, const bin &b, const said &by) {
        float2 v = b.x;
        if (i < s.n_linear)
            v = fft_times(v, turn(by.rotation, s.rotation_epsilon, slot.strength));
        const float all = softened(fmaf(by.next - by.gain, b.share, by.gain), slot.strength, slot.floor);
        bins[i] = make_float2(v.x * all, v.y * all);
    };
    if constexpr (N) {
        said all[n_ahead];
#pragma unroll
        for (unsigned k = 0; k < n_ahead; k++)
            if (me + k * THREADS < s.n_bins)
                listen(me + k * THREADS, ahead[k], all[k]);
#pragma unroll
        for (unsigned k = 0; k < n_ahead; k++)
            if (me + k * THREADS < s.n_bins)
                apply(me + k * THREADS, ahead[k], all[k]);
    } else
        for (unsigned i = me; i < s.n_bins; i += THREADS) {
            said one;
            fetch_bin(i, ahead[0]);
            listen(i, ahead[0], one);
            apply(i, ahead[0], one);
        }
    __syncthreads();
    for (unsigned i = me; i < n; i += THREADS)
        points[i] = fft_point(bins, n, i, roots);
    const float *frame = (const float *)fft_complex<true, N>(points, bins, n, roots) + s.window - s.synthesis;
    const float scale = 1 / (float)s.window;
    volatile unsigned long long *out = a.out + blockIdx.y * s.hop;
    float *tail = a.tail + (size_t)slot.stream * n_kept;
    float *sums = (float *)(frame >= (float *)bins ? points : bins);
#pragma unroll
    for (unsigned k = 0; k < n_sums || !N; k++) {
        const unsigned i = me + k * THREADS;
        if (i >= s.synthesis)
            break;
        const float2 w = N ? sums_ahead[k % n_sums] : fetch_sum(i);
        const float v = fmaf(frame[i] * w.x, scale, w.y);
        if (i < s.hop)
            out[i] = (unsigned long long)slot.ticket << 32 | bits(v);
        else
            sums[i - s.hop] = tail[i - s.hop] = v;
    }
    __syncthreads();
    if (me == 0) {
        __threadfence_system();
        a.done[blockIdx.y] = slot.ticket;
    }
    for (unsigned i = me; i < n_kept; i += THREADS)
        overlap[i] = sums[i];
}

/* ---- the chain ---- */

static unsigned blocks_for(unsigned n_rows, unsigned n_each) {
    return (n_rows + n_each - 1) / n_each;
}

static size_t fft_bytes(const hop_shape &s) {
    return fft_floats(s) * sizeof(float);
}

/* Of the present device; 0 if it does not say. */
static unsigned n_multiprocessors(void) {
    int device, n = 0;
    if (!cudaGetDevice(&device))
        cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return (unsigned)n;
}

/* Whether kernels may start before the one ahead of them ends: then their code waits for it by itself. */
static bool may_overlap(const void *kernel) {
    cudaFuncAttributes attributes;
    int device, major;
    return !cudaGetDevice(&device) && !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) &&
           major >= 9 && !cudaFuncGetAttributes(&attributes, kernel) && attributes.ptxVersion >= 90;
}

template <class Args>
static void start(void (*kernel)(Args), dim3 grid, unsigned n_threads, size_t shared_bytes, cudaStream_t stream,
                  const Args &args) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = n_threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = may_overlap((const void *)kernel);
    cudaLaunchKernelEx(&config, kernel, args); /* an error is remembered */
}

/* Shared memory of the block that has most. */
static size_t needed_bytes(const hop_shape &s) {
    const size_t all = max(shared_bytes(s, is_usual(s) ? MOST_TURNS : 1), fft_bytes(s));
    return is_usual(s) ? max(all, dense_floats(s, MOST_DEEP_ROWS) * sizeof(float)) : all;
}

template <unsigned C> struct chain {
    static constexpr unsigned n_threads = widths<C>::threads, most = C ? MOST_TURNS : 1;
    /* Each block of `attend` reads all the gates, so it has four positions, always. */
    static constexpr unsigned attend_turns = C ? 4 / widths<C>::rows : 1;

    static int prepare(const hop_shape &s) {
        const size_t bytes = needed_bytes(s);
        int code = cudaSuccess;
        const auto ready = [&](const void *kernel) {
            code = code ? code : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        };
        if constexpr (C) {
            ready((const void *)dense<C, 2>);
            ready((const void *)dense<C, 4>);
            ready((const void *)dense<C, 5>);
            ready((const void *)dense<C, MOST_DEEP_ROWS>);
            ready((const void *)down<C, most>);
            ready((const void *)prime<C, most, true>);
            ready((const void *)prime<C, most, false>);
            ready((const void *)up<C, most>);
        } else
            ready((const void *)dense_layer);
        ready((const void *)down<C, 1>);
        ready((const void *)prime<C, 1, true>);
        ready((const void *)prime<C, 1, false>);
        ready((const void *)up<C, 1>);
        ready((const void *)analyse<512>);
        ready((const void *)analyse<0>);
        ready((const void *)synthesise<512>);
        ready((const void *)synthesise<0>);
        return code;
    }

    /* The first of these numbers of positions with which the blocks of all slots run at once, or else the first of all.
     * Of a slot, n_beside blocks work on the same positions. */
    static unsigned fitting(std::initializer_list<unsigned> numbers, unsigned n_rows, unsigned n_beside,
                            unsigned n_slots) {
        const unsigned n_places = n_multiprocessors() * widths<C>::share;
        for (unsigned n : numbers)
            if (blocks_for(n_rows, n) * n_beside * n_slots <= n_places)
                return n;
        return *numbers.begin();
    }

    static void run_dense(const hop_net &n, unsigned n_slots, cudaStream_t stream, bool encoder) {
        const hop_shape &s = n.shape;
        const unsigned n_rows = encoder ? s.n_positions : s.n_half, n_blocks = encoder ? 1 : 2;
        const embedding embed = {encoder ? n.scratch.features : NULL, n.embed_weight, n.embed_bias, n.embed_prelu};
        const size_t rings[2] = {encoder ? s.encoder : s.mask, s.phase};
        float *const y[2] = {encoder ? n.scratch.encoded : n.scratch.decoded,
                             n.scratch.decoded + (size_t)s.n_half * s.channels};
        if constexpr (C) {
            dense_args a = {s, n_rows, encoder ? n.asked : NULL, embed, n.scratch.x, {}};
            for (unsigned b = 0; b < n_blocks; b++) {
                const hop_dense &d = encoder ? n.encoder : n.decoders[b];
                a.blocks[b].ring = rings[b];
                a.blocks[b].y = y[b];
                for (unsigned i = 0; i < DEPTH; i++) {
                    a.blocks[b].taps[i] = d.taps[i];
                    a.blocks[b].mix[i] = d.mix[i];
                }
            }
            const unsigned n_each = fitting({2, 4, 5, MOST_DEEP_ROWS}, n_rows, n_blocks, n_slots);
            start(n_each == 2 ? dense<C, 2> : n_each == 4 ? dense<C, 4> : n_each == 5 ? dense<C, 5> :
                                                                                        dense<C, MOST_DEEP_ROWS>,
                  dim3(blocks_for(n_rows, n_each), n_slots, n_blocks), n_threads,
                  dense_floats(s, n_each) * sizeof(float), stream, a);
        } else {
            for (unsigned i = 0; i < s.depth; i++) {
                layer_args a = {s, i, n_rows, i ? embedding{} : embed, n.scratch.x, {}};
                for (unsigned b = 0; b < n_blocks; b++) {
                    const hop_dense &d = encoder ? n.encoder : n.decoders[b];
                    a.blocks[b] = {d.taps[i], d.mix[i], rings[b], i + 1 == s.depth ? y[b] : NULL};
                }
                start(dense_layer, dim3(blocks_for(n_rows, widths<0>::dense_rows), n_slots, n_blocks), n_threads,
                      shared_bytes(s, 1), stream, a);
            }
        }
    }

    /* What follows at the same positions before the frequency layer `layer` of block `block`. */
    static follow_args before(const hop_net &n, unsigned block, unsigned layer) {
        follow_args a = {};
        a.x = n.scratch.x;
        a.skip = n.scratch.skip;
        a.gates = n.scratch.gates;
        if (block == n.n_blocks)
            return a;
        const hop_block &b = n.blocks[block];
        if (layer == 0) {
            a.n_time = n.n_time;
            for (unsigned i = 0; i < n.n_time; i++)
                a.time[i] = b.time[i];
            a.time_skip = b.time_skip;
        }
        a.gate = b.freq[layer].gate;
        return a;
    }

    static int launch(const hop_net &n, unsigned n_slots, cudaStream_t stream) {
        const hop_shape &s = n.shape;
        constexpr unsigned rows = widths<C>::rows, up_rows = widths<C>::dense_rows, n_attend = attend_turns * rows;
        const unsigned n_each = fitting({rows, most * rows}, s.n_half, 1, n_slots),
                       n_up_each = fitting({up_rows, most * up_rows}, s.n_half + 1, 2, n_slots);
        const dim3 grid(blocks_for(s.n_half, n_each), n_slots),
            up_grid(blocks_for(s.n_half + 1, n_up_each), n_slots, 2);
        const size_t bytes = shared_bytes(s, n_each / rows);
        const auto down = n_each == rows ? ::down<C, 1> : ::down<C, most>;
        const auto prime = n_each == rows ? ::prime<C, 1, false> : ::prime<C, most, false>;
        const auto prime_time = n_each == rows ? ::prime<C, 1, true> : ::prime<C, most, true>;
        const auto up = n_up_each == up_rows ? ::up<C, 1> : ::up<C, most>;
        const bool is_shipped = s.window == 1024;
        start(is_shipped ? analyse<512> : analyse<0>, dim3(1, n_slots), THREADS, fft_bytes(s), stream,
              analyse_args{s, n.asked, n.in, n.analysis_window, n.roots, n.band_edges, n.scratch.spectrum,
                           n.scratch.features});
        run_dense(n, n_slots, stream, true);
        start(down, grid, n_threads, bytes, stream, down_args{s, n.scratch.encoded, n.down, before(n, 0, 0)});
        for (unsigned b = 0; b < n.n_blocks; b++)
            for (unsigned i = 0; i < n.n_freq; i++) {
                const hop_freq &f = n.blocks[b].freq[i];
                const bool last = i + 1 == n.n_freq;
                start(attend<C, attend_turns>, dim3(blocks_for(s.n_half, n_attend), n_slots), n_threads,
                      sizeof(float) * (2 * n_attend + 2) * s.channels, stream,
                      attend_args{s, f.gate_taps, n.scratch.gates, f.attention, f.proj, f.up, n.scratch.x,
                                  n.scratch.chunks});
                const follow_args follow = last ? before(n, b + 1, 0) : before(n, b, i + 1);
                start(follow.n_time ? prime_time : prime, grid, n_threads, bytes, stream,
                      prime_args{s, f.taps, n.scratch.chunks, f.mix, f.down,
                                 last ? n.blocks[b].freq_skip : NULL,
                                 follow});
            }
        run_dense(n, n_slots, stream, false);
        start(up, up_grid, n_threads, shared_bytes(s, n_up_each / up_rows), stream,
              up_args{s, n.scratch.decoded, {n.ups[0], n.ups[1]}, n.slope, n.scratch.gain, n.scratch.rotation});
        start(is_shipped ? synthesise<512> : synthesise<0>, dim3(1, n_slots), THREADS, fft_bytes(s), stream,
              synthesise_args{s, n.scratch.spectrum, n.scratch.gain, n.scratch.rotation, n.synthesis_window, n.roots,
                              n.bin_bands, n.bin_shares, n.out, n.tail, n.done});
        return cudaGetLastError();
    }
};

size_t hop_packed(const hop_shape *s, unsigned n_in, unsigned n_out) {
    const unsigned n_groups = THREADS / share_of(*s) / lanes_for(s->channels);
    const unsigned n_each = (n_out + n_groups - 1) / n_groups;
    return (size_t)n_each * n_groups * n_in;
}

void hop_pack(float *to, const hop_shape *s, unsigned n_in, unsigned n_out, unsigned o, const float *row,
              double mean) {
    const unsigned lanes = lanes_for(s->channels), n_threads = THREADS / share_of(*s), n_groups = n_threads / lanes,
                   n_each = (n_out + n_groups - 1) / n_groups, n_steps = n_in / (4 * lanes);
    const unsigned m = is_usual(*s) ? o % n_each : o / n_groups, group = is_usual(*s) ? o / n_each : o % n_groups;
    for (unsigned i = 0; i < n_in; i++) {
        const unsigned step = i / (4 * lanes), thread = group * lanes + i / 4 % lanes;
        to[4 * ((m * n_steps + step) * (size_t)n_threads + thread) + i % 4] = (float)(row[i] - mean);
    }
}

int hop_prepare(const hop_net *n, size_t *needed) {
    const hop_shape &s = n->shape;
    *needed = needed_bytes(s);
    switch (is_usual(s) ? s.channels : 0) {
    case 16: return chain<16>::prepare(s);
    case 32: return chain<32>::prepare(s);
    case 64: return chain<64>::prepare(s);
    default: return chain<0>::prepare(s);
    }
}

int hop_launch(const hop_net *n, unsigned n_slots, cudaStream_t stream) {
    const hop_shape &s = n->shape;
    switch (is_usual(s) ? s.channels : 0) {
    case 16: return chain<16>::launch(*n, n_slots, stream);
    case 32: return chain<32>::launch(*n, n_slots, stream);
    case 64: return chain<64>::launch(*n, n_slots, stream);
    default: return chain<0>::launch(*n, n_slots, stream);
    }
}
