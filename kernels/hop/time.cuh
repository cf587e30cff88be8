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

#include "time_any.cuh"

/* What follows a kernel of the middle part at the same positions: optionally a time stage, then optionally the gate of
 * the first frequency layer. */
struct follow_args {
    unsigned n_time;
    hop_time time[HOP_MAX_TIME];
    const float *time_skip;
    hop_linear gate; /* weight is NULL if there is none */
    float *x, *skip, *gates;
};

/* A channel's causal convolution over up to N past inputs and the current one, whose tap is `latest`, at T
 * positions. */
template <unsigned N, unsigned T = 1> struct conv {
    float taps[N], past[T][N], latest, bias;
    float *at[T]; /* the oldest input, which the current one replaces */

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
    /* A thread of the scan has one of n_parts of a channel's states, n_states at a time, at P positions. */
    static constexpr unsigned rows = P * widths<C>::rows, n_parts = C ? widths<C>::threads / (2 * C) : 2,
                              n_states = C ? 16 / n_parts : 8;
    layer<C, 1, 2 * C, rows> gate;
    layer<C, 1, C, rows> proj;
    layer<C, 1, 4 * C, rows> in;
    conv<C ? 3 : 7, layer<C, 1, 4 * C, rows>::n_turns> past;
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
                    past.fetch(turn, 3, conv_past(s, t, first + in.own_row(turn), in.own()), now, N_HALF * d);
            }
    }

    /* x: [rows][channels] in shared memory, positions from `first` on. `after` is the next time layer. */
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
                const float *y = s.mixer == HOP_MAMBA2 ? mamba2(*this, s, t, first, x, u)
                                                       : recurrent(*this, s, t, first, x, u);
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

/* x: [rows][channels] in shared memory, positions from `first` on, not yet visible to all threads. Whatever the first
 * time layer, or else the gate, needs must have been prefetched. */
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

/* Convolution over frequency, kernel 3, stride 2: each row is three positions, and rows start two positions apart. */
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
    down.run([&](unsigned r, unsigned i,
                 unsigned) { return row4(encoded, (int)(2 * (first + r) + i / c), s.n_positions, c, i % c); },
             [&](unsigned r, unsigned o, float sum, bool mine) {
                 if (mine)
                     x[r * c + o] = sum;
             });
    follow<C, P, true>(s, a.follow, first, x, room, stage);
}

#endif
