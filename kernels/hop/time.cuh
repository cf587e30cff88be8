/* time.cuh - the time stage of a block, and what follows a kernel of the middle part at the same positions.
 *
 * The plain reference of one time layer (net.c's time_layer, mixer.c's mamba), at each position separately:
 *
 *     a, b = gate(norm(x));        x += proj(a * b)
 *     u, z = in(norm(x));          u = silu(conv_bias + sum over k of conv_taps[k] * u[k frames ago])
 *     B, C, q = select(u);         dt = softplus(step(q))
 *     h[d][n] = exp(dt[d] decay[d][n]) h[d][n] + dt[d] u[d] B[n]                // the selective scan's single step
 *     y[d] = (sum over n of C[n] h[d][n] + pass[d] u[d]) silu(z[d]);   x += out(y)
 *
 * Here a block computes all time layers at its positions, with x in shared memory and the states in registers. */
#ifndef PRIMEKNET_HOP_TIME_CUH
#define PRIMEKNET_HOP_TIME_CUH

#include "layer.cuh"

/* What follows a kernel of the middle part at the same positions: optionally a time stage, then optionally the gate of
 * the first frequency layer. */
struct follow_args {
    unsigned n_time;
    hop_time time[HOP_MAX_TIME];
    const float *time_skip;
    hop_linear gate; /* weight is NULL if there is none */
    float *x, *skip, *gates;
};

/* A channel's causal convolution over N past inputs and the current one, whose tap is `latest`, at T positions. */
template <unsigned N, unsigned T> struct conv {
    float taps[N], past[T][N], latest, bias;
    float *at[T]; /* the oldest input, which the current one replaces */

    __device__ void fetch_taps(const hop_time &t, unsigned o, unsigned d) {
        bias = weight1(t.conv_bias + o);
        latest = weight1(t.conv_taps + N * d + o);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            taps[k] = weight1(t.conv_taps + k * d + o);
    }

    __device__ void fetch(unsigned turn, float *pasts, unsigned now, size_t stride) {
        at[turn] = pasts + now % N * stride;
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            past[turn][k] = __ldcg(pasts + (now + k) % N * stride);
    }

    __device__ float next(unsigned turn, float v) const {
        float sum = fmaf(latest, v, bias);
#pragma unroll
        for (unsigned k = 0; k < N; k++)
            sum = fmaf(taps[k], past[turn][k], sum);
        *at[turn] = v;
        return sum;
    }
};

/* Loads N of a channel's numbers, which are d apart. */
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

    /* Advances the states; returns their part of the output. */
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

/* The weights and state that a time stage prefetches. */
template <unsigned C, unsigned P> struct time_stage {
    /* A thread of the scan has one of n_parts of a channel's states, n_states, at P positions. */
    static constexpr unsigned n_parts = widths<C>::threads / (2 * C), n_states = N_STATES / n_parts;
    layer<C, 1, 2 * C, P> gate;
    layer<C, 1, C, P> proj;
    layer<C, 1, 4 * C, P> in;
    conv<N_PAST, layer<C, 1, 4 * C, P>::n_turns> past;
    float *state;
    unsigned now;

    /* A scan thread's share: `part` of the states of channel o at row r. */
    struct place {
        unsigned r, o, part;
    };

    static __device__ place scan_place(unsigned j, unsigned d) {
        constexpr unsigned n = 32 / n_parts;
        const unsigned i = j / 32 * n + j % n;
        return {i / d, i % d, j % 32 / n};
    }

    __device__ float *conv_past(const hop_shape &s, const hop_time &t, unsigned p, unsigned o) const {
        const unsigned d = widths<C>::inner();
        return state + s.conv + ((size_t)t.index * N_PAST * N_HALF + p) * d + o;
    }

    __device__ float *scan_states(const hop_shape &s, const hop_time &t, unsigned p, unsigned o) const {
        const unsigned d = widths<C>::inner();
        return state + s.scan + ((size_t)t.index * N_HALF + p) * N_STATES * d + o;
    }

    __device__ void fetch_slot(const hop_shape &s) {
        now = slot_now(s);
        state = slot_state(s);
    }

    __device__ void fetch_mixing(const hop_time &t) {
        gate.fetch(t.gate);
        proj.fetch(t.proj);
    }

    __device__ void fetch_in(const hop_shape &s, const hop_time &t, unsigned first) {
        const unsigned d = widths<C>::inner();
        in.fetch(t.in);
        if (in.own() < d) {
            past.fetch_taps(t, in.own(), d);
#pragma unroll
            for (unsigned turn = 0; turn < in.n_turns; turn++)
                past.fetch(turn, conv_past(s, t, first + in.own_row(turn), in.own()), now, N_HALF * d);
        }
    }

    /* x: [P][channels] in shared memory, positions from `first` on. `after` is the next time layer. */
    __device__ void run(const hop_shape &s, const hop_time &t, unsigned first, float *x, float *room,
                        const hop_time *after, const hop_linear &after_gate, const float *skip, const float *before) {
        const unsigned c = widths<C>::channels(), d = widths<C>::inner(), n = N_STATES, rank = C / 16,
                       n_select = 2 * n + rank, stride = rounded(n_select);
        float *product = carve(room, P * c), *u = carve(room, P * d), *z = carve(room, P * d);
        float *selected = carve(room, P * stride);

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
        layer<C, 2, n_select, P> select;
        select.fetch(t.select);
        __syncthreads();

        in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                              [&](row r, unsigned o, float sum, bool mine) {
                                  if (!mine)
                                      return;
                                  if (o >= d) {
                                      z[r * d + o - d] = silu(sum);
                                      return;
                                  }
                                  u[r * d + o] = silu(past.next(r.turn, sum));
                              },
                              s.norm_epsilon);
        states<n_states> scan[P];
        float decay[n_states], step_weights[rank];
        const place own = scan_place(threadIdx.x, d); /* and at every row after it */
        const unsigned first_state = own.part * n_states;
        fetch_decay(decay, t.decay + first_state * d + own.o, d);
#pragma unroll
        for (unsigned turn = 0; turn < P; turn++)
            scan[turn].fetch(scan_states(s, t, first + own.r + turn, own.o) + first_state * d, d);
#pragma unroll
        for (unsigned k = 0; k < rank; k++)
            step_weights[k] = weight1(t.step.weight + k * d + own.o);
        const float step_bias = weight1(t.step.bias + own.o), pass = weight1(t.pass + own.o);
        __syncthreads();

        select.run([&](unsigned r, unsigned i, unsigned) { return four(u + r * d + i); },
                   [&](unsigned r, unsigned o, float sum, bool mine) {
                       if (mine)
                           selected[r * stride + o] = sum;
                   });
        layer<C, 2, C, P> out;
        out.fetch(t.out);
        if (after)
            fetch_mixing(*after);
        else if (after_gate.weight)
            gate.fetch(after_gate);
        __syncthreads();

#pragma unroll
        for (unsigned turn = 0; turn < P; turn++) {
            const unsigned r = own.r + turn, i = r * d + own.o;
            const float *b = selected + r * stride, *cs = b + n, *q = cs + n, v = u[i];
            float step = step_bias;
#pragma unroll
            for (unsigned k = 0; k < rank; k++)
                step = fmaf(q[k], step_weights[k], step);
            const float dt = fmaxf(step, 0) + log1pf(__expf(-fabsf(step)));
            float y = 0; /* -0 becomes 0 */
            y += scan[turn].next(scan_states(s, t, first + r, own.o) + first_state * d, d, decay, dt, v,
                                 b + first_state, cs + first_state);
#pragma unroll
            for (unsigned bit = 32 / n_parts; bit < 32; bit *= 2)
                y += __shfl_xor_sync(~0u, y, bit);
            if (own.part == 0)
                z[i] *= fmaf(pass, v, y);
        }
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

/* x: [P][channels] in shared memory, positions from `first` on, not yet visible to all threads. Whatever the first
 * time layer, or else the gate, needs must have been prefetched. */
template <unsigned C, unsigned P, bool TIME>
static __device__ void follow(const hop_shape &s, const follow_args &a, unsigned first, float *x, float *room,
                              time_stage<C, P> &stage) {
    const unsigned c = widths<C>::channels();
    const size_t at = ((size_t)blockIdx.y * N_HALF + first) * c;
    __syncthreads();
    if constexpr (TIME) {
        float *before = carve(room, P * c);
        for (unsigned i = threadIdx.x; i < P * c; i += widths<C>::threads)
            before[i] = x[i];
        for (unsigned i = 0; i < a.n_time; i++) {
            const bool last = i + 1 == a.n_time;
            stage.run(s, a.time[i], first, x, room, last ? NULL : &a.time[i + 1], a.gate, last ? a.time_skip : NULL,
                      before);
        }
        for (unsigned i = threadIdx.x; i < P * c; i += widths<C>::threads)
            a.skip[at + i] = x[i];
    }
    for (unsigned i = threadIdx.x; i < P * c; i += widths<C>::threads)
        a.x[at + i] = x[i];
    if (a.gate.weight) {
        float *gates = a.gates + 2 * at;
        stage.gate.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                                      [&](unsigned r, unsigned o, float sum, bool mine) {
                                          if (mine)
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

/* Convolution over frequency, kernel 3, stride 2: each row is three positions, and rows start two positions apart. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share)
    down(const __grid_constant__ down_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(), first = blockIdx.x * P;
    float *room = (float *)shared, *x = carve(room, P * c);
    const float *encoded = a.encoded + (size_t)blockIdx.y * s.n_positions * c;
    layer<C, 3, C, P, true> down;
    time_stage<C, P> stage;
    down.fetch(a.down);
    stage.fetch_slot(s);
    stage.fetch_mixing(a.follow.time[0]);
    stage.fetch_in(s, a.follow.time[0], first);
    await_with(a, down.fetched() | stage.gate.fetched() | stage.proj.fetched() | stage.in.fetched());
    down.run([&](unsigned r, unsigned i,
                 unsigned) { return row4(encoded, (int)(2 * (first + r) + i / c), s.n_positions, c, i % c); },
             [&](unsigned r, unsigned o, float sum, bool mine) {
                 if (mine)
                     x[r * c + o] = sum;
             });
    follow<C, P, true>(s, a.follow, first, x, room, stage);
}

#endif
