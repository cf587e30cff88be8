/* time_any.cuh - mixers other than Mamba, of any sizes: Mamba-2, GRU, LSTM. Their plain references are ssd_ref.c,
 * gru_ref.c and lstm_ref.c. `stage` is a time_stage, whose `in` and `past` they use. */
#ifndef PRIMEKNET_HOP_TIME_ANY_CUH
#define PRIMEKNET_HOP_TIME_ANY_CUH

#include "layer.cuh"

/* Mamba-2 (ssd.h): from the normed x to rows of d_inner in `room`, not yet visible to all threads. */
template <class Stage>
static __device__ const float *mamba2(Stage &stage, const hop_shape &s, const hop_time &t, unsigned first,
                                      const float *x, float *room) {
    const unsigned c = s.channels, d = s.d_inner, n = s.d_state, seen = s.d_seen, half = s.n_half,
                   heads = d / s.head_dim, stride = rounded(heads), n_past = s.d_conv - 1;
    float *u = carve(room, ROWS * seen), *z = carve(room, ROWS * d), *steps = carve(room, ROWS * stride);
    stage.in.fetch(t.in, c, seen + d + heads, c);
    stage.in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
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
                                        stage.past.fetch_taps(t, n_past, o, seen);
                                        stage.past.fetch(0, n_past,
                                                         stage.state + s.conv + o +
                                                             ((size_t)t.index * n_past * half + first + r) * seen,
                                                         stage.now, (size_t)half * seen);
                                    }
                                    u[r * seen + o] = first + r < half ? silu(stage.past.next(0, n_past, sum)) : 0;
                                },
                                s.norm_epsilon);
    __syncthreads();
    for (unsigned j = threadIdx.x; j < ROWS * d; j += THREADS) {
        const unsigned r = j / d, o = j % d, head = o / s.head_dim;
        const float *b = u + r * seen + d, *cs = b + n, v = u[r * seen + o], dt = steps[r * stride + head];
        const float keep = exp2f(dt * t.decay[head]);
        float y = t.pass[head] * v, *h = stage.state + s.scan + ((size_t)t.index * half + first + r) * n * d + o;
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
template <class Stage>
static __device__ const float *recurrent(Stage &stage, const hop_shape &s, const hop_time &t, unsigned first,
                                         const float *x, float *room) {
    const unsigned c = s.channels, half = s.n_half, n_gates = s.mixer == HOP_GRU ? 3 : 4, width = n_gates * c;
    const size_t at = ((size_t)t.index * half + first) * c;
    float *h = carve(room, ROWS * c), *a = carve(room, ROWS * width), *b = carve(room, ROWS * width);
    for (unsigned j = threadIdx.x; j < ROWS * c; j += THREADS)
        h[j] = first + j / c < half ? __ldcg(stage.state + s.scan + at + j) : 0;
    stage.in.fetch(t.in, c, width, c);
    stage.in.template run<true>([&](unsigned r, unsigned i, unsigned) { return four(x + r * c + i); },
                                [&](unsigned r, unsigned o, float sum, bool mine) {
                                    if (mine)
                                        a[r * width + o] = sum;
                                },
                                s.norm_epsilon);
    __syncthreads();
    stage.in.fetch(t.state, c, width, c);
    stage.in.run([&](unsigned r, unsigned i, unsigned) { return four(h + r * c + i); },
                 [&](unsigned r, unsigned o, float sum, bool mine) {
                     if (mine)
                         b[r * width + o] = sum;
                 });
    __syncthreads();
    for (unsigned j = threadIdx.x; j < ROWS * c && first + j / c < half; j += THREADS) {
        const float *in0 = a + j / c * width + j % c, *state0 = b + j / c * width + j % c;
        if (n_gates == 3) {
            const float keep = sigmoid(in0[c] + state0[c]);
            h[j] = fmaf(keep, h[j], (1 - keep) * tanhf(fmaf(sigmoid(in0[0] + state0[0]), state0[2 * c], in0[2 * c])));
        } else {
            float *to = stage.state + s.cell + at + j;
            const float cell = fmaf(sigmoid(in0[c] + state0[c]), __ldcg(to),
                                    sigmoid(in0[0] + state0[0]) * tanhf(in0[2 * c] + state0[2 * c]));
            *to = cell;
            h[j] = sigmoid(in0[3 * c] + state0[3 * c]) * tanhf(cell);
        }
        stage.state[s.scan + at + j] = h[j];
    }
    return h;
}

#endif
