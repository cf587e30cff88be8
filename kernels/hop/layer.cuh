/* layer.cuh - shared by all kernels of a hop: waiting for the previous kernel, and a linear layer at R positions.
 *
 * The plain reference of a linear layer, with the norm before it and the activation after it (linear_ref.c):
 *
 *     for each position r, output o:
 *         mean, deviation = over the inputs x[r][0 .. n_in)        // of a layer behind a norm, else 0 and 1
 *         y = bias[o] + sum over i of weight[o][i] * (x[r][i] - mean) / deviation
 *         y[r][o] = y < 0 ? y * prelu[o] : y                       // if there is an activation
 *
 * Here a few lanes share an output, each with four inputs at a time. Weights are prefetched before the wait. The mean
 * need not be subtracted, because hop_pack has removed it from the weights. */
#ifndef PRIMEKNET_HOP_LAYER_CUH
#define PRIMEKNET_HOP_LAYER_CUH

#include "kernels/overlap.cuh"
#include "shape.cuh"

/* ---- chaining ---- */

/* Data that changes from hop to hop is read with __ldcg, past the first-level cache, which may hold stale values. */

/* The bits of a prefetched value. Storing them before a barrier keeps the prefetch ahead of the wait: the assembler
 * moves the wait up past loads that do not feed it, but not past a barrier and the stores before that. */
static __device__ inline unsigned bits(float v) {
    return __float_as_uint(v);
}

/* Likewise prefetches the kernel's arguments, one word of every 64 bytes, into the cache that holds them. */
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

/* The frame counter of the block's slot; valid once `analyse` has ended. */
static __device__ inline unsigned slot_now(const hop_shape &s) {
    return __ldcg(&s.slots[blockIdx.y].now);
}

static __device__ inline float *slot_state(const hop_shape &s) {
    return s.state + __ldcg(&s.slots[blockIdx.y].stream) * s.n_state;
}

/* ---- linear layers at R positions ---- */

/* Loads a weight at this point in the program: the compiler must not delay the load until its use. */
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

/* The mean of some numbers, and the sum of their squared differences from it. */
struct moments {
    float mean, squares;
};

template <unsigned N> static __device__ inline moments moments_of(const float4 (&v)[N]) {
    moments m = {};
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        m.mean += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    m.mean /= 4 * N;
#pragma unroll
    for (unsigned k = 0; k < N; k++) {
        const float4 d = make_float4(v[k].x - m.mean, v[k].y - m.mean, v[k].z - m.mean, v[k].w - m.mean);
        add_product(m.squares, d, d);
    }
    return m;
}

/* 1 / deviation of one of N rows: lane L gets that of row L / n_copies % N, where each lane starts with n numbers of
 * every row, that one's first: of[i] is of row i ^ (L / n_copies % N). Each step halves the rows that a lane has to
 * join, while it has more than one. Halves are joined as equals (Chan, Golub and LeVeque), so nothing cancels and all
 * lanes with a row get the same bits for any N. */
template <unsigned N>
static __device__ inline float inverse_deviation(moments (&of)[N], unsigned lanes, unsigned n_copies, float n,
                                                 float epsilon) {
    unsigned n_left = N;
#pragma unroll
    for (unsigned bit = 1; bit < lanes; bit *= 2) {
        const bool halves = n_left > 1 && bit >= n_copies;
        n_left = halves ? n_left / 2 : n_left;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            if (i < n_left) {
                const moments kept = of[halves ? 2 * i : i], given = of[halves ? 2 * i + 1 : i];
                const float other = __shfl_xor_sync(~0u, given.mean, bit), difference = other - kept.mean;
                of[i].squares = fmaf(difference * difference, .5f * n,
                                     kept.squares + __shfl_xor_sync(~0u, given.squares, bit));
                of[i].mean = .5f * (kept.mean + other);
            }
        n *= 2;
    }
    return rsqrtf(of[0].squares / n + epsilon);
}

/* Sums N values over 2 BIT lanes, n_copies of which end with the same sum in v[0]: v[i] is of value i ^ (lane /
 * n_copies), so a lane always gives its upper half away and nothing is selected. Each step halves what a lane has to
 * add, while it has more than one value. */
template <unsigned N, unsigned BIT, unsigned SIZE> static __device__ inline void add_lanes(float (&v)[SIZE]) {
    if constexpr (BIT && N == 1) {
        v[0] += __shfl_xor_sync(~0u, v[0], BIT);
        add_lanes<1, BIT / 2>(v);
    } else if constexpr (BIT) {
#pragma unroll
        for (unsigned i = 0; i < N / 2; i++)
            v[i] += __shfl_xor_sync(~0u, v[N / 2 + i], BIT);
        add_lanes<N / 2, BIT / 2>(v);
    }
}

/* A position of a layer, and the turn in which the layer computes it. */
struct row {
    unsigned turn, at;
    __device__ operator unsigned() const {
        return at;
    }
};

/* A layer with K C inputs and N_OUT outputs. `fetch` starts to load the weights. `run` calls input(r, i, o) for inputs
 * i..i+3 of output o at position r, and output(r, o, sum, mine) in all threads together, where only threads with `mine`
 * have a valid sum. It computes as many positions at once as a group's lanes allow, and the others in further turns. If
 * outputs are pairs (hop_cuda.h), an output's partner is `pair` lanes away. Behind a norm the weights sum to 0, which
 * removes the mean; the sums are then divided by the deviation, computed alongside. Each lane counts a group's outputs
 * and rows from its own, by exclusive or; hop_pack stores the weights so. A layer without bias has zeros. */
template <unsigned C, unsigned K, unsigned N_OUT, unsigned R, bool PRELU = false> struct layer {
    static constexpr unsigned lanes = lanes_for(C), n_threads = widths<C>::threads, n_groups = n_threads / lanes;
    static constexpr unsigned n_each = (N_OUT + n_groups - 1) / n_groups, most = lanes / n_each;
    static constexpr unsigned at_once = R < most ? R : most, n_turns = R / at_once, n_values = n_each * at_once;
    static constexpr unsigned n_copies = lanes / n_values, pair = n_each > 1 ? n_copies *at_once : lanes;
    static constexpr bool is_even = n_groups * n_each == N_OUT; /* every thread has outputs */
    static_assert(n_copies * n_values == lanes && (n_values & (n_values - 1)) == 0 && n_turns * at_once == R);
    float4 w[n_each][K];
    float bias, slope;

    static __device__ unsigned first() {
        return threadIdx.x / lanes * n_each;
    }
    static __device__ unsigned own() {
        return first() + threadIdx.x % lanes / n_copies / at_once;
    }
    static __device__ bool owns() {
        return is_even || own() < N_OUT;
    }
    static __device__ row own_row(unsigned turn) {
        return {turn, turn * at_once + threadIdx.x / n_copies % at_once};
    }

    __device__ void fetch(const hop_linear &l) {
        const float *from = l.weight + 4 * threadIdx.x;
#pragma unroll
        for (unsigned m = 0; m < n_each; m++)
#pragma unroll
            for (unsigned k = 0; k < K; k++)
                w[m][k] = is_even || first() < N_OUT ? weight4(from + 4 * (m * K + k) * n_threads)
                                                     : make_float4(0, 0, 0, 0);
        bias = owns() ? weight1(l.bias + own()) : 0;
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
        const unsigned lane = threadIdx.x % lanes, own_at = own_row(0);
#pragma unroll
        for (unsigned turn = 0; turn < n_turns; turn++) {
            float v[n_values] = {}, scale = 1; /* scale: of the row whose sum this thread has */
            moments of[at_once];
#pragma unroll
            for (unsigned r = 0; r < at_once; r++) {
                float4 a[K];
#pragma unroll
                for (unsigned k = 0; k < K; k++)
                    a[k] = input(turn * at_once + (r ^ own_at), k * C + 4 * lane,
                                 is_even ? first() : min(first(), N_OUT - 1));
                if constexpr (NORM)
                    of[r] = moments_of(a);
#pragma unroll
                for (unsigned k = 0; k < K; k++)
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

/* Four values of row p of a map [n][c] that other kernels write; zeros beyond its edges. */
static __device__ inline float4 row4(const float *map, int p, unsigned n, unsigned c, unsigned i) {
    return p >= 0 && p < (int)n ? __ldcg((const float4 *)(map + (size_t)p * c + i)) : make_float4(0, 0, 0, 0);
}

/* A power of a positive number; shorter than powf, and accurate enough here. */
static __device__ inline float power(float v, float exponent) {
    return exp2f(exponent * log2f(v));
}

#endif
