/* frequency.cuh - the frequency stage of a block, in two kernels: `attend` and `prime`.
 *
 * The plain reference of one frequency layer (net.c's freq_layer):
 *
 *     a, b = conv3(gate(norm(x)));     v = a * b                               // over frequency, channel by channel
 *     x += proj(v * attention(mean of v over all positions))
 *     u = up(norm(x))                                                          // n_kernels chunks of `channels`
 *     for each kernel k: w[k] = mix[k](conv(u[k], mixed_taps[k])) * conv(u[k], taps[k])
 *     x += down(w[0], w[1], ...)
 *
 * The mean over all positions and the long kernels need what other blocks have written, hence two kernels. The time
 * stage that follows at the same positions is part of `prime`. */
#ifndef PRIMEKNET_HOP_FREQUENCY_CUH
#define PRIMEKNET_HOP_FREQUENCY_CUH

#include "time.cuh"

struct attend_args {
    hop_shape s;
    const float *gate_taps, *gates; /* taps: [3][channels][2] */
    hop_linear attention, proj, up;
    float *x, *chunks;
};

/* Both halves of the gates at the rows around p, channel o; they are stored as pairs. */
static __device__ inline float2 gates_at(const float *gates, int p, unsigned c, unsigned o) {
    return p >= 0 && p < N_HALF ? __ldcg((const float2 *)gates + (size_t)p * c + o) : make_float2(0, 0);
}

/* The product of the two halves after their convolution. */
static __device__ inline float gated(const float2 *g, const float2 (&taps)[3]) {
    float a = 0, b = 0;
#pragma unroll
    for (unsigned k = 0; k < 3; k++) {
        a = fmaf(g[k].x, taps[k].x, a);
        b = fmaf(g[k].y, taps[k].y, b);
    }
    return a * b;
}

/* The first half of a frequency layer without its gate, and `up` of the second half. Every block computes the mean over
 * all positions itself, which is cheaper than another kernel. Each warp has a few channels of the mean, and its lanes
 * share the positions. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    attend(const __grid_constant__ attend_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned n_each = C / widths<C>::warps, n_shares = 32 / n_each;
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(), width = N_KERNELS * c, first = blockIdx.x * P, lane = threadIdx.x % 32;
    float *room = (float *)shared, *x = carve(room, P * c), *own = carve(room, P * c), *mean = carve(room, c),
          *factor = carve(room, c);
    const float *gates = a.gates + (size_t)blockIdx.y * N_HALF * 2 * c;
    layer<C, 1, C, 1> attention;
    layer<C, 1, C, P> proj;
    layer<C, 1, 4 * C, P> up;
    attention.fetch(a.attention);
    proj.fetch(a.proj);
    const auto taps_of = [&](unsigned o, float2(&taps)[3]) {
#pragma unroll
        for (unsigned k = 0; k < 3; k++)
            taps[k] = weight2(a.gate_taps + 2 * (k * c + o));
    };
    float *const map = a.x + ((size_t)blockIdx.y * N_HALF + first) * c;
    /* Every lane sums `share` positions from `begin` on. */
    constexpr unsigned share = (N_HALF + n_shares - 1) / n_shares;
    const unsigned begin = lane / n_each * share, o = threadIdx.x / 32 * n_each + lane % n_each, i = threadIdx.x;
    const bool has_own = i < P * C;
    static_assert(P * C <= widths<C>::threads);
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
        own_g[k] = has_own ? gates_at(gates, (int)(first + i / C + k) - 1, C, i % C) : make_float2(0, 0);
    const float2 *from = (const float2 *)gates + begin * C + o;
#pragma unroll
    for (unsigned k = 0; k < share + 2; k++)
        g[k] = (k || begin) && begin <= N_HALF - k ? __ldcg(from + ((int)k - 1) * (int)C) : make_float2(0, 0);
    float sum = 0;
#pragma unroll
    for (unsigned k = 0; k < share; k++)
        if (begin < N_HALF - k)
            sum += gated(g + k, taps);
    if (has_own) {
        x[i] = own_x;
        own[i] = gated(own_g, own_taps);
    }
#pragma unroll
    for (unsigned bit = n_each; bit < 32; bit *= 2)
        sum += __shfl_xor_sync(~0u, sum, bit);
    if (lane < n_each)
        mean[o] = sum * (1.f / N_HALF);
    up.fetch(a.up);
    __syncthreads();
    attention.run([&](unsigned, unsigned i, unsigned) { return four(mean + i); },
                  [&](unsigned, unsigned o, float sum, bool mine) {
                      if (mine)
                          factor[o] = sum;
                  });
    __syncthreads();
    proj.run(
        [&](unsigned r, unsigned i, unsigned) {
            const float4 v = four(own + r * c + i), f = four(factor + i);
            return make_float4(v.x * f.x, v.y * f.y, v.z * f.z, v.w * f.w);
        },
        [&](unsigned r, unsigned o, float sum, bool mine) {
            if (!mine)
                return;
            x[r * c + o] += sum;
            map[r * c + o] = x[r * c + o];
        });
    __syncthreads();
    float *chunks = a.chunks + ((size_t)blockIdx.y * N_HALF + first) * width;
    up.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                          [&](unsigned r, unsigned o, float sum, bool mine) {
                              if (mine)
                                  chunks[r * width + o] = sum;
                          },
                          s.norm_epsilon);
}

struct prime_args {
    hop_shape s;
    const float *taps, *chunks; /* taps: hop_freq.taps */
    hop_linear mix, down;
    const float *freq_skip; /* NULL except after the stage's last layer */
    follow_args follow;
};

/* The rest of a frequency layer and, with TIME, a time stage. Kernels are cut into segments of equal length, one per
 * thread. */
template <unsigned C, unsigned P, bool TIME>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    prime(const __grid_constant__ prime_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(), width = N_KERNELS * c, first = blockIdx.x * P, n_items = s.n_segments * c;
    float *room = (float *)shared, *x = carve(room, P * c);
    float *after = room; /* the time stage may use the rest */
    float *parts = carve(after, 2 * P * n_items), *products = after;
    const float *chunks = a.chunks + (size_t)blockIdx.y * N_HALF * width;
    float2 taps[HOP_TAPS];
    layer<C, 1, 4 * C, P> mix;
    layer<C, 4, C, P> down;
    time_stage<C, P> stage;
    if (threadIdx.x < n_items)
#pragma unroll
        for (unsigned k = 0; k < HOP_TAPS; k++)
            taps[k] = weight2(a.taps + 2 * ((size_t)threadIdx.x / c * HOP_TAPS * c + k * c + threadIdx.x % c));
    mix.fetch(a.mix);
    if constexpr (TIME)
        stage.fetch_slot(s);

    unsigned fetched = mix.fetched();
    if (threadIdx.x < n_items)
#pragma unroll
        for (unsigned k = 0; k < HOP_TAPS; k++)
            fetched |= bits(taps[k].x);
    await_with(a, fetched);
    for (unsigned i = threadIdx.x; i < n_items; i += widths<C>::threads) { /* a single pass */
        const unsigned segment = i / c, o = s.segments[segment].kernel * c + i % c;
        const int top = (int)first + s.segments[segment].offset;
        float v[HOP_TAPS + P - 1];
#pragma unroll
        for (unsigned k = 0; k < HOP_TAPS + P - 1; k++) {
            const int p = top + (int)k;
            v[k] = p >= 0 && p < N_HALF ? __ldcg(chunks + (size_t)p * width + o) : 0;
        }
#pragma unroll
        for (unsigned r = 0; r < P; r++) {
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
    down.fetch(a.down);
    const size_t map = ((size_t)blockIdx.y * N_HALF + first) * c;
    float before[down.n_turns] = {};
    const auto fetch_before = [&](row r, unsigned o) {
        before[r.turn] = __ldcg(a.follow.x + map + r * c + o);
        if (a.freq_skip)
            before[r.turn] = fmaf(weight1(a.freq_skip + o), __ldcg(a.follow.skip + map + r * c + o), before[r.turn]);
    };
#pragma unroll
    for (unsigned turn = 0; turn < down.n_turns; turn++)
        if (down.owns())
            fetch_before(down.own_row(turn), down.own());
    const auto each_segment = [&](unsigned kernel, const auto &does) {
        const unsigned begin = s.first_segment[kernel], end = s.first_segment[kernel + 1];
#pragma unroll
        for (unsigned k = 0; k < MOST_SEGMENTS; k++)
            if (begin + k < end)
                does(begin + k);
    };
    __syncthreads();
    mix.run(
        [&](unsigned r, unsigned i, unsigned o) {
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
        stage.fetch_mixing(a.follow.time[0]);
    else if (a.follow.gate.weight)
        stage.gate.fetch(a.follow.gate);
    __syncthreads();
    down.run([&](unsigned r, unsigned i, unsigned) { return four(products + r * width + i); },
             [&](row r, unsigned o, float sum, bool mine) {
                 if (mine)
                     x[r * c + o] = before[r.turn] + sum;
             });
    if constexpr (TIME)
        stage.fetch_in(s, a.follow.time[0], first);
    follow<C, P, TIME>(s, a.follow, first, x, room, stage);
}

#endif
