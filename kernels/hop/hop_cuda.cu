#include "hop_cuda.h"

#include "kernels/fft/fft.cuh"

#include <cuda_runtime.h>

/* Threads of a block, and positions that it works on: it reads its weights once for all of them. */
enum { THREADS = 512, ROWS = 2 };

/* 60 dB over full scale: louder samples are cut, so that no power overflows. */
static constexpr float loudest = 1000;

/* A kernel is built for each of these numbers of channels, with the other widths of the shipped models; 0 is any. */
template <unsigned C> struct widths {
    static __device__ unsigned channels(const hop_shape &s) { return C ? C : s.channels; }
    static __device__ unsigned inner(const hop_shape &s) { return C ? 2 * C : s.d_inner; }
    static __device__ unsigned states(const hop_shape &s) { return C ? 16 : s.d_state; }
    static __device__ unsigned chunks(const hop_shape &s) { return C ? 4 : s.n_kernels; }
};

static bool is_usual(const hop_shape &s) {
    return s.d_inner == 2 * s.channels && s.d_state == 16 && s.n_kernels == 4;
}

/* ---- shared memory ---- */

static __host__ __device__ inline unsigned rounded(unsigned n) {
    return (n + 3) / 4 * 4;
}

/* Floats for the partial sums of layers, which come first in a block's shared memory. */
static __host__ __device__ inline unsigned partial_floats(const hop_shape &s) {
    const unsigned widest = max(max(s.n_kernels * s.channels, 2 * s.d_inner), 4 * THREADS);
    return ROWS * widest;
}

static size_t shared_bytes(const hop_shape &s) {
    const unsigned c = s.channels;
    const unsigned dense = (ROWS + 2) * c + ROWS * s.depth * c, down = (2 * ROWS + 1) * c, up = (3 * ROWS + 1) * c;
    const unsigned time = ROWS * (4 * c + 2 * s.d_inner + rounded(2 * s.d_state + s.step_rank));
    const unsigned prime = 2 * ROWS * s.n_kernels * c;
    return sizeof(float) * (partial_floats(s) + time + max(max(dense, down), max(prime, up)));
}

static __device__ inline float *carve(float *&room, unsigned n) {
    float *a = room;
    room += n;
    return a;
}

/* ---- chaining ---- */

/* A kernel is launched while the one before it still runs, where the device can (compute capability 9.0): until this it
 * may only touch what nobody writes. */
static __device__ inline void await(void) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* ---- layers, at the ROWS positions of a block ---- */

/* The product with the weights is split over its inputs, a multiple of 4 each; `layer_sum` adds the parts up. */
struct split {
    unsigned quads, share, n_parts;
};

static __device__ inline split split_of(unsigned n_in, unsigned n_out) {
    const unsigned quads = rounded(n_out) / 4, most = quads < THREADS ? THREADS / quads : 1;
    const unsigned share = rounded((n_in + most - 1) / most);
    return {quads, share, (n_in + share - 1) / share};
}

/* x: [R][x_stride], in shared memory, like partial. With n_group, outputs are in groups of so many, and each group has
 * n_in inputs of its own. */
template <unsigned R>
static __device__ inline void layer_multiply(const hop_linear &l, unsigned n_in, unsigned n_out, const float *x,
                                             unsigned x_stride, float *partial, unsigned n_group = 0) {
    const split p = split_of(n_in, n_out);
    for (unsigned item = threadIdx.x; item < p.quads * p.n_parts; item += THREADS) {
        const unsigned q = item % p.quads, part = item / p.quads, first = part * p.share;
        const unsigned n = n_in % p.share ? min(p.share, n_in - first) : p.share;
        const float4 *w = (const float4 *)l.weight + (size_t)first * p.quads + q;
        const float *from = x + (n_group ? 4 * q / n_group * n_in : 0) + first;
        float4 sum[R] = {};
        if (part == 0 && l.bias)
            for (unsigned r = 0; r < R; r++)
                sum[r] = ((const float4 *)l.bias)[q];
#pragma unroll 4
        for (unsigned i = 0; i < n; i += 4) {
            float4 v[4];
#pragma unroll
            for (unsigned k = 0; k < 4; k++)
                v[k] = __ldg(w + (size_t)(i + k) * p.quads);
#pragma unroll
            for (unsigned r = 0; r < R; r++) {
                const float4 a = *(const float4 *)(from + r * x_stride + i);
                const float as[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
                for (unsigned k = 0; k < 4; k++) {
                    sum[r].x += as[k] * v[k].x;
                    sum[r].y += as[k] * v[k].y;
                    sum[r].z += as[k] * v[k].z;
                    sum[r].w += as[k] * v[k].w;
                }
            }
        }
#pragma unroll
        for (unsigned r = 0; r < R; r++)
            *(float4 *)(partial + 4 * ((part * R + r) * p.quads + q)) = sum[r];
    }
    __syncthreads();
}

template <unsigned R>
static __device__ inline float layer_sum(const hop_linear &l, unsigned n_in, unsigned n_out, const float *partial,
                                         unsigned r, unsigned o) {
    const split p = split_of(n_in, n_out);
    float sum[4] = {};
    unsigned part = 0;
#pragma unroll 4
    for (; part + 4 <= p.n_parts; part += 4)
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            sum[k] += partial[((part + k) * R + r) * 4 * p.quads + o];
    for (; part < p.n_parts; part++)
        sum[0] += partial[(part * R + r) * 4 * p.quads + o];
    const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return l.prelu && all < 0 ? all * l.prelu[o] : all;
}

static __device__ inline float warp_sum(float v) {
    for (unsigned i = 16; i; i /= 2)
        v += __shfl_xor_sync(~0u, v, i);
    return v;
}

static __device__ inline void norm(unsigned c, float epsilon, const float *x, float *y) {
    const unsigned r = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (r < ROWS) {
        float mean = 0, variance = 0;
        for (unsigned i = lane; i < c; i += 32)
            mean += x[r * c + i];
        mean = warp_sum(mean) / (float)c;
        for (unsigned i = lane; i < c; i += 32)
            variance += (x[r * c + i] - mean) * (x[r * c + i] - mean);
        const float scale = 1 / sqrtf(warp_sum(variance) / (float)c + epsilon);
        for (unsigned i = lane; i < c; i += 32)
            y[r * c + i] = (x[r * c + i] - mean) * scale;
    }
    __syncthreads();
}

static __device__ inline float silu(float v) {
    return v / (1 + __expf(-v));
}

/* rows of a map [n][c] from `first` on into shared memory, zeros beyond its edges. */
static __device__ inline void load_rows(const float *map, int first, unsigned n_rows, unsigned n, unsigned c,
                                        float *to) {
    for (unsigned i = threadIdx.x; i < n_rows * c; i += THREADS) {
        const int p = first + (int)(i / c);
        to[i] = p >= 0 && p < (int)n ? map[(size_t)p * c + i % c] : 0;
    }
}

static __device__ inline void store_rows(float *map, unsigned first, unsigned n, unsigned c, const float *from) {
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        if (first + i / c < n)
            map[(size_t)first * c + i] = from[i];
}

static __device__ inline float *slot_state(const hop_shape &s) {
    return s.state + s.slots[blockIdx.y].stream * s.n_state;
}

/* ---- analysis ---- */

struct analyse_args {
    hop_shape s;
    const hop_slot *asked;
    const float *in, *window, *roots;
    const unsigned *band_edges;
    float *spectrum, *features;
};

static __global__ void __launch_bounds__(THREADS, 1) analyse(const __grid_constant__ analyse_args a) {
    extern __shared__ float4 shared[];
    __shared__ hop_slot slot;
    const hop_shape &s = a.s;
    const unsigned n = s.window / 2, n_past = s.window - s.hop;
    float2 *points = (float2 *)shared, *other = points + n + 1;
    float *frame = (float *)other;
    await();
    if (threadIdx.x == 0)
        s.slots[blockIdx.y] = slot = a.asked[blockIdx.y];
    const float *in = a.in + blockIdx.y * s.hop;
    for (unsigned i = threadIdx.x; i < s.hop; i += THREADS) {
        const float v = in[i];
        frame[n_past + i] = isfinite(v) ? fmaxf(-loudest, fminf(v, loudest)) : 0;
    }
    __syncthreads();
    float *past = s.state + slot.stream * s.n_state + s.past;
    for (unsigned i = threadIdx.x; i < n_past; i += THREADS)
        frame[i] = past[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n_past; i += THREADS)
        past[i] = frame[s.hop + i];
    for (unsigned i = threadIdx.x; i < n; i += THREADS)
        points[i] = make_float2(frame[2 * i] * a.window[2 * i], frame[2 * i + 1] * a.window[2 * i + 1]);
    const float2 *roots = (const float2 *)a.roots, *z = fft_complex<false>(points, other, n, roots);

    float2 *bins = z == points ? other : points, *spectrum = (float2 *)a.spectrum + blockIdx.y * s.n_bins;
    const float scale = 1 / s.scale;
    float *features = a.features + blockIdx.y * 3 * s.n_positions;
    for (unsigned i = threadIdx.x; i < s.n_bins; i += THREADS) {
        const float2 x = spectrum[i] = bins[i] = fft_bin(z, n, i, roots);
        if (i < s.n_linear) {
            const float magnitude = fmaxf(sqrtf(x.x * x.x + x.y * x.y) * scale, s.magnitude_minimum);
            const float compressed = powf(magnitude, s.compression), unit = compressed * scale / magnitude;
            features[3 * i] = compressed;
            features[3 * i + 1] = x.x * unit;
            features[3 * i + 2] = x.y * unit;
        }
    }
    __syncthreads();
    for (unsigned b = threadIdx.x; b < s.n_bands; b += THREADS) {
        const unsigned first = a.band_edges[b], end = a.band_edges[b + 1];
        float power = 0, *f = features + 3 * (s.n_linear + b);
        for (unsigned i = first; i < end; i++)
            power += bins[i].x * bins[i].x + bins[i].y * bins[i].y;
        f[0] = powf(fmaxf(power * scale * scale / (float)(end - first), s.power_minimum), s.compression / 2);
        f[1] = f[2] = 0;
    }
}

/* ---- dense blocks ---- */

struct dense_args {
    hop_shape s;
    unsigned layer, n_rows;
    const float *features; /* of the first layer where it is the encoder's, else NULL */
    hop_linear embed;
    const float *x; /* of the first layer where it is a decoder's: [n_rows][channels] */
    struct {
        const float *taps;
        hop_linear mix;
        size_t ring;
        float *y; /* of the last layer, NULL of the others: they write to the ring */
    } blocks[2]; /* [gridDim.z] */
};

template <unsigned C> static __global__ void __launch_bounds__(THREADS, 1) dense(const __grid_constant__ dense_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const auto &block = a.blocks[blockIdx.z];
    const unsigned c = widths<C>::channels(s), n = a.n_rows, first = blockIdx.x * ROWS, width = (a.layer + 1) * c;
    const size_t map = (size_t)n * c;
    float *room = (float *)shared, *partial = carve(room, partial_floats(s));
    float *rows = carve(room, (ROWS + 2) * c), *tapped = carve(room, ROWS * width);
    await();
    const unsigned now = s.slots[blockIdx.y].now;
    float *ring = slot_state(s) + block.ring;

    if (a.layer == 0) {
        if (a.features) {
            const float *f = a.features + blockIdx.y * 3 * n;
            for (unsigned i = threadIdx.x; i < (ROWS + 2) * c; i += THREADS) {
                const int p = (int)(first + i / c) - 1;
                const unsigned o = i % c;
                float v = 0;
                if (p >= 0 && p < (int)n) {
                    v = a.embed.bias[o];
                    for (unsigned k = 0; k < 3; k++)
                        v += f[3 * p + k] * a.embed.weight[k * c + o];
                    v = v < 0 ? v * a.embed.prelu[o] : v;
                }
                rows[i] = v;
            }
        } else
            load_rows(a.x + blockIdx.y * map, (int)first - 1, ROWS + 2, n, c, rows);
        __syncthreads();
        store_rows(ring + now % s.n_ring * map, first, n, c, rows + c);
    }

    /* Maps are concatenated latest first. */
    for (unsigned i = threadIdx.x; i < ROWS * width; i += THREADS) {
        const unsigned r = i / width, k = i % width, o = k % c;
        const float *taps = block.taps + k, *maps = ring + (size_t)(a.layer - k / c) * s.n_ring * map;
        const int p = (int)(first + r);
        float sum = 0;
#pragma unroll
        for (unsigned t = 0; t < 3; t++) {
            const float *frame = maps + (now + s.n_ring - ((2 - t) << a.layer)) % s.n_ring * map + o;
#pragma unroll
            for (int d = -1; d <= 1; d++) {
                float v = 0;
                if (a.layer == 0 && t == 2)
                    v = rows[((int)r + 1 + d) * (int)c + (int)o];
                else if (p + d >= 0 && p + d < (int)n)
                    v = frame[(p + d) * (int)c];
                sum += v * taps[(3 * t + d + 1) * width];
            }
        }
        tapped[i] = sum;
    }
    __syncthreads();

    layer_multiply<ROWS>(block.mix, width, c, tapped, width, partial);
    float *to_ring = ring + ((size_t)(a.layer + 1) * s.n_ring + now % s.n_ring) * map;
    float *y = block.y ? block.y + blockIdx.y * gridDim.z * map : to_ring;
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        if (first + i / c < n)
            y[(size_t)first * c + i] = layer_sum<ROWS>(block.mix, width, c, partial, i / c, i % c);
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

template <unsigned C>
static __device__ void time_layer(const hop_shape &s, const hop_time &t, unsigned first, float *x, float *partial,
                                  float *room) {
    const unsigned c = widths<C>::channels(s), d = widths<C>::inner(s), n_states = widths<C>::states(s);
    const unsigned half = s.n_half, n_select = 2 * n_states + s.step_rank, select_stride = rounded(n_select),
                   n_past = s.d_conv - 1;
    const unsigned now = s.slots[blockIdx.y].now;
    float *normed = carve(room, ROWS * c), *product = carve(room, ROWS * c);
    float *u = carve(room, ROWS * d), *z = carve(room, ROWS * d), *select = carve(room, ROWS * select_stride);
    float *state = slot_state(s);
    float *past = state + s.conv + (size_t)t.index * n_past * half * d;
    float *h = state + s.scan + (size_t)t.index * half * d * n_states;

    norm(c, s.norm_epsilon, x, normed);
    layer_multiply<ROWS>(t.gate, c, 2 * c, normed, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS) {
        const unsigned r = i / c, o = i % c;
        product[i] =
            layer_sum<ROWS>(t.gate, c, 2 * c, partial, r, o) * layer_sum<ROWS>(t.gate, c, 2 * c, partial, r, c + o);
    }
    __syncthreads();
    layer_multiply<ROWS>(t.proj, c, c, product, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        x[i] += layer_sum<ROWS>(t.proj, c, c, partial, i / c, i % c);
    __syncthreads();

    norm(c, s.norm_epsilon, x, normed);
    layer_multiply<ROWS>(t.in, c, 2 * d, normed, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * d; i += THREADS) {
        const unsigned r = i / d, o = i % d;
        z[i] = layer_sum<ROWS>(t.in, c, 2 * d, partial, r, d + o);
        const float v = layer_sum<ROWS>(t.in, c, 2 * d, partial, r, o);
        float sum = t.conv_bias[o] + t.conv_taps[n_past * d + o] * v;
        if (first + r < half) {
            float *at = past + (size_t)(first + r) * d + o;
            for (unsigned k = 0; k < n_past; k++)
                sum += t.conv_taps[k * d + o] * at[(size_t)((now + k) % n_past) * half * d];
            at[(size_t)(now % n_past) * half * d] = v;
        }
        u[i] = silu(sum);
    }
    __syncthreads();
    layer_multiply<ROWS>(t.select, d, n_select, u, d, partial);
    for (unsigned i = threadIdx.x; i < ROWS * n_select; i += THREADS)
        select[i / n_select * select_stride + i % n_select] =
            layer_sum<ROWS>(t.select, d, n_select, partial, i / n_select, i % n_select);
    __syncthreads();
    /* Half a warp takes the first half of the states of 16 channels, the other one the rest. d is a multiple of 16. */
    for (unsigned j = threadIdx.x; j < 2 * ROWS * d; j += THREADS) {
        const unsigned i = j / 32 * 16 + j % 16, second = j / 16 % 2, r = i / d, o = i % d;
        const float *b = select + r * select_stride, *cs = b + n_states, *q = cs + n_states, v = u[i];
        float step = t.step.bias[o], y = 0;
#pragma unroll 4
        for (unsigned k = 0; k < s.step_rank; k++)
            step += q[k] * t.step.weight[k * d + o];
        const float dt = fmaxf(step, 0) + log1pf(__expf(-fabsf(step)));
        if (first + r < half) {
            float *at = h + (size_t)(first + r) * n_states * d + o;
#pragma unroll 8
            for (unsigned k = second * n_states / 2; k < (second + 1) * n_states / 2; k++) {
                const float kept = exp2f(dt * t.decay[k * d + o]) * at[k * d] + dt * v * b[k];
                at[k * d] = kept;
                y += cs[k] * kept;
            }
        }
        y += __shfl_xor_sync(~0u, y, 16);
        if (!second)
            u[i] = (y + t.pass[o] * v) * silu(z[i]);
    }
    __syncthreads();
    layer_multiply<ROWS>(t.out, d, c, u, d, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        x[i] += layer_sum<ROWS>(t.out, d, c, partial, i / c, i % c);
    __syncthreads();
}

/* x: [ROWS][channels] in shared memory, at positions from `first` on. */
template <unsigned C> static __device__ void follow(const hop_shape &s, const follow_args &a, unsigned first, float *x,
                                                    float *partial, float *room) {
    const unsigned c = widths<C>::channels(s), half = s.n_half;
    if (a.n_time) {
        float *before = carve(room, ROWS * c);
        for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
            before[i] = x[i];
        for (unsigned i = 0; i < a.n_time; i++)
            time_layer<C>(s, a.time[i], first, x, partial, room);
        for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
            x[i] += a.time_skip[i % c] * before[i];
        __syncthreads();
        store_rows(a.skip + blockIdx.y * half * c, first, half, c, x);
    }
    store_rows(a.x + blockIdx.y * half * c, first, half, c, x);
    if (a.gate.weight) {
        float *normed = carve(room, ROWS * c), *gates = a.gates + (size_t)blockIdx.y * half * 2 * c;
        norm(c, s.norm_epsilon, x, normed);
        layer_multiply<ROWS>(a.gate, c, 2 * c, normed, c, partial);
        for (unsigned i = threadIdx.x; i < ROWS * 2 * c; i += THREADS)
            if (first + i / (2 * c) < half)
                gates[(size_t)first * 2 * c + i] = layer_sum<ROWS>(a.gate, c, 2 * c, partial, i / (2 * c), i % (2 * c));
    }
}

struct down_args {
    hop_shape s;
    const float *encoded;
    hop_linear down;
    follow_args follow;
};

/* Convolution over frequency, kernel 3, stride 2: rows of three positions that start two apart. */
template <unsigned C> static __global__ void __launch_bounds__(THREADS, 1) down(const __grid_constant__ down_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), first = blockIdx.x * ROWS;
    float *room = (float *)shared, *partial = carve(room, partial_floats(s));
    float *x = carve(room, ROWS * c), *rows = room; /* the time stage may take rows' place */
    await();
    load_rows(a.encoded + (size_t)blockIdx.y * s.n_positions * c, 2 * (int)first, 2 * ROWS + 1, s.n_positions, c, rows);
    __syncthreads();
    layer_multiply<ROWS>(a.down, 3 * c, c, rows, 2 * c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        x[i] = layer_sum<ROWS>(a.down, 3 * c, c, partial, i / c, i % c);
    __syncthreads();
    follow<C>(s, a.follow, first, x, partial, room);
}

struct attend_args {
    hop_shape s;
    const float *gate_taps, *gates;
    hop_linear attention, proj, up;
    float *x, *chunks;
};

/* a b, the halves of the gates at p and c after their convolution, whose three rows around p are in g. */
static __device__ inline float gated(const float (&g)[3][2], const float (&taps)[3][2]) {
    float a = 0, b = 0;
#pragma unroll
    for (unsigned k = 0; k < 3; k++) {
        a += g[k][0] * taps[k][0];
        b += g[k][1] * taps[k][1];
    }
    return a * b;
}

static __device__ inline void load_gates(const float *gates, int p, unsigned n, unsigned c, unsigned o,
                                         float (&to)[2]) {
    const bool inside = p >= 0 && p < (int)n;
    to[0] = inside ? gates[(size_t)p * 2 * c + o] : 0;
    to[1] = inside ? gates[(size_t)p * 2 * c + c + o] : 0;
}

/* The first half of a frequency layer but for its gate, and `up` of the second. Every block takes the mean over all
 * positions itself: that is cheaper than a kernel of its own. */
template <unsigned C> static __global__ void __launch_bounds__(THREADS, 1)
    attend(const __grid_constant__ attend_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), width = widths<C>::chunks(s) * c, half = s.n_half,
                   first = blockIdx.x * ROWS;
    float *room = (float *)shared, *partial = carve(room, partial_floats(s));
    float *x = carve(room, ROWS * c), *own = carve(room, ROWS * c), *mean = carve(room, c);
    const float *gates = a.gates + (size_t)blockIdx.y * half * 2 * c;

    await();
    const unsigned n_groups = THREADS / c, group = threadIdx.x / c, o = threadIdx.x % c;
    if (group < n_groups) {
        const unsigned share = (half + n_groups - 1) / n_groups;
        const int begin = (int)(group * share), end = (int)min((group + 1) * share, half);
        float taps[3][2], g[3][2], sum = 0;
        for (unsigned k = 0; k < 3; k++)
            for (unsigned j = 0; j < 2; j++)
                taps[k][j] = a.gate_taps[k * 2 * c + j * c + o];
        load_gates(gates, begin - 1, half, c, o, g[0]);
        load_gates(gates, begin, half, c, o, g[1]);
#pragma unroll 5
        for (int p = begin; p < end; p++) {
            load_gates(gates, p + 1, half, c, o, g[2]);
            sum += gated(g, taps);
            g[0][0] = g[1][0], g[0][1] = g[1][1];
            g[1][0] = g[2][0], g[1][1] = g[2][1];
        }
        partial[group * c + o] = sum;
        for (unsigned r = group; r < ROWS; r += n_groups) {
            for (int k = 0; k < 3; k++)
                load_gates(gates, (int)(first + r) + k - 1, half, c, o, g[k]);
            own[r * c + o] = gated(g, taps);
        }
    }
    load_rows(a.x + (size_t)blockIdx.y * half * c, (int)first, ROWS, half, c, x);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < c; i += THREADS) {
        float sum = 0;
        for (unsigned k = 0; k < n_groups; k++)
            sum += partial[k * c + i];
        mean[i] = sum / (float)half;
    }
    __syncthreads();
    layer_multiply<1>(a.attention, c, c, mean, c, partial);
    for (unsigned i = threadIdx.x; i < c; i += THREADS) {
        const float factor = layer_sum<1>(a.attention, c, c, partial, 0, i);
        for (unsigned r = 0; r < ROWS; r++)
            own[r * c + i] *= factor;
    }
    __syncthreads();
    layer_multiply<ROWS>(a.proj, c, c, own, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        x[i] += layer_sum<ROWS>(a.proj, c, c, partial, i / c, i % c);
    __syncthreads();
    store_rows(a.x + (size_t)blockIdx.y * half * c, first, half, c, x);
    norm(c, s.norm_epsilon, x, own);
    layer_multiply<ROWS>(a.up, c, width, own, c, partial);
    float *chunks = a.chunks + (size_t)blockIdx.y * half * width;
    for (unsigned i = threadIdx.x; i < ROWS * width; i += THREADS)
        if (first + i / width < half)
            chunks[(size_t)first * width + i] = layer_sum<ROWS>(a.up, c, width, partial, i / width, i % width);
}

struct prime_args {
    hop_shape s;
    const float *mixed_taps, *taps, *chunks;
    hop_linear mix, down;
    const float *freq_skip; /* NULL but after the stage's last layer */
    follow_args follow;
};

/* The rest of a frequency layer. */
template <unsigned C> static __global__ void __launch_bounds__(THREADS, 1) prime(const __grid_constant__ prime_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned c = widths<C>::channels(s), width = widths<C>::chunks(s) * c, half = s.n_half,
                   first = blockIdx.x * ROWS;
    float *room = (float *)shared, *partial = carve(room, partial_floats(s));
    float *x = carve(room, ROWS * c), *mixed = room,
          *plain = mixed + ROWS * width; /* the time stage may take their place */
    const float *chunks = a.chunks + (size_t)blockIdx.y * half * width;
    const size_t map = (size_t)blockIdx.y * half * c;
    await();
    load_rows(a.follow.x + map, (int)first, ROWS, half, c, x);

    for (unsigned i = threadIdx.x; i < width; i += THREADS) {
        unsigned start = 0, k = 0;
        for (; k < i / c; k++)
            start += s.kernels[k];
        const unsigned n_taps = s.kernels[k];
        const float *mixed_taps = a.mixed_taps + (size_t)start * c + i % c, *taps = a.taps + (size_t)start * c + i % c;
        const int top = (int)first - (int)(n_taps / 2);
        float m[ROWS] = {}, t[ROWS] = {}, mixed_sum[ROWS] = {}, sum[ROWS] = {};
#pragma unroll 8
        for (unsigned j = 0; j < n_taps + ROWS - 1; j++) {
            const int p = top + (int)j;
            const float v = p >= 0 && p < (int)half ? chunks[(size_t)p * width + i] : 0;
#pragma unroll
            for (unsigned r = ROWS - 1; r > 0; r--)
                m[r] = m[r - 1], t[r] = t[r - 1];
            m[0] = j < n_taps ? mixed_taps[j * c] : 0;
            t[0] = j < n_taps ? taps[j * c] : 0;
#pragma unroll
            for (unsigned r = 0; r < ROWS; r++) {
                mixed_sum[r] += v * m[r];
                sum[r] += v * t[r];
            }
        }
#pragma unroll
        for (unsigned r = 0; r < ROWS; r++) {
            mixed[r * width + i] = mixed_sum[r];
            plain[r * width + i] = sum[r];
        }
    }
    __syncthreads();
    layer_multiply<ROWS>(a.mix, c, width, mixed, width, partial, c);
    for (unsigned i = threadIdx.x; i < ROWS * width; i += THREADS)
        plain[i] *= layer_sum<ROWS>(a.mix, c, width, partial, i / width, i % width);
    __syncthreads();
    layer_multiply<ROWS>(a.down, width, c, plain, width, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS) {
        float v = x[i] + layer_sum<ROWS>(a.down, width, c, partial, i / c, i % c);
        if (a.freq_skip && first + i / c < half)
            v += a.freq_skip[i % c] * a.follow.skip[map + (size_t)first * c + i];
        x[i] = v;
    }
    __syncthreads();
    follow<C>(s, a.follow, first, x, partial, room);
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
template <unsigned C> static __global__ void __launch_bounds__(THREADS, 1) up(const __grid_constant__ up_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const hop_up &l = a.ups[blockIdx.z];
    const unsigned c = widths<C>::channels(s), half = s.n_half, first = blockIdx.x * ROWS;
    float *room = (float *)shared, *partial = carve(room, partial_floats(s));
    float *rows = carve(room, (ROWS + 1) * c), *y = carve(room, 2 * ROWS * c);
    await();
    load_rows(a.decoded + (size_t)(2 * blockIdx.y + blockIdx.z) * half * c, (int)first - 1, ROWS + 1, half, c, rows);
    __syncthreads();
    layer_multiply<ROWS>(l.even, 2 * c, c, rows, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        y[i / c * 2 * c + i % c] = layer_sum<ROWS>(l.even, 2 * c, c, partial, i / c, i % c);
    __syncthreads();
    layer_multiply<ROWS>(l.odd, c, c, rows + c, c, partial);
    for (unsigned i = threadIdx.x; i < ROWS * c; i += THREADS)
        y[i / c * 2 * c + c + i % c] = layer_sum<ROWS>(l.odd, c, c, partial, i / c, i % c);
    __syncthreads();

    const unsigned n_out = 1 + blockIdx.z, lane = threadIdx.x % 32;
    for (unsigned item = threadIdx.x / 32; item < 2 * ROWS * n_out; item += THREADS / 32) {
        const unsigned p = 2 * first + item / n_out, o = item % n_out;
        float sum = 0;
        for (unsigned i = lane; i < c; i += 32)
            sum += y[item / n_out * c + i] * l.head.weight[i * 4 + o]; /* rows of weights are rounded up to 4 */
        sum = warp_sum(sum) + l.head.bias[o];
        if (lane || p >= s.n_positions)
            continue;
        if (blockIdx.z)
            a.rotation[2 * ((size_t)blockIdx.y * s.n_positions + p) + o] = sum;
        else {
            const float mask = s.mask_ceiling / (1 + expf(-a.slope[p] * sum));
            const float gain = isfinite(mask) ? powf(fmaxf(mask, s.mask_minimum), 1 / s.compression) : 1;
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
    float *out, *tail;
    volatile unsigned *done;
};

static __device__ inline float softened(float gain, float strength, float floor) {
    return fmaxf(strength == 1 ? gain : powf(gain, strength), floor);
}

/* (1 + re, im), normalised, to the power of `strength`. */
static __device__ inline float2 turn(const float *rotation, float epsilon, float strength) {
    const float re = 1 + rotation[0], im = rotation[1], square = re * re + im * im;
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

static __global__ void __launch_bounds__(THREADS, 1) synthesise(const __grid_constant__ synthesise_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned n = s.window / 2, n_kept = s.synthesis - s.hop;
    await();
    const hop_slot slot = s.slots[blockIdx.y];
    float2 *points = (float2 *)shared, *bins = points + n + 1;
    const float2 *x = (const float2 *)a.spectrum + blockIdx.y * s.n_bins, *roots = (const float2 *)a.roots;
    const float *gains = a.gain + blockIdx.y * s.n_positions;
    for (unsigned i = threadIdx.x; i < s.n_bins; i += THREADS) {
        float2 v = x[i];
        if (i < s.n_linear)
            v = fft_times(
                v, turn(a.rotation + 2 * ((size_t)blockIdx.y * s.n_positions + i), s.rotation_epsilon, slot.strength));
        float gain = gains[min(i, s.n_linear)];
        if (i >= s.n_linear) {
            const float *below = gains + s.n_linear + a.bin_bands[i - s.n_linear], share = a.bin_shares[i - s.n_linear];
            gain = share ? below[0] + (below[1] - below[0]) * share : below[0];
        }
        gain = softened(gain, slot.strength, slot.floor);
        bins[i] = make_float2(v.x * gain, v.y * gain);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += THREADS)
        points[i] = fft_point(bins, n, i, roots);
    const float *frame = (const float *)fft_complex<true>(points, bins, n, roots) + s.window - s.synthesis;
    const float scale = 1 / (float)s.window;
    float *sums = (float *)(frame >= (float *)bins ? points : bins);
    float *overlap = s.state + slot.stream * s.n_state + s.overlap;
    for (unsigned i = threadIdx.x; i < s.synthesis; i += THREADS)
        sums[i] = frame[i] * a.window[i] * scale + (i < n_kept ? overlap[i] : 0);
    __syncthreads();
    float *out = a.out + blockIdx.y * s.hop, *tail = a.tail + (size_t)slot.stream * n_kept;
    for (unsigned i = threadIdx.x; i < s.hop; i += THREADS)
        out[i] = sums[i];
    for (unsigned i = threadIdx.x; i < n_kept; i += THREADS)
        overlap[i] = tail[i] = sums[s.hop + i];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        a.done[blockIdx.y] = slot.ticket;
}

/* ---- the chain ---- */

static unsigned blocks_for(unsigned n_rows) {
    return (n_rows + ROWS - 1) / ROWS;
}

static size_t fft_bytes(const hop_shape &s) {
    return 2 * (size_t)s.n_bins * sizeof(float2);
}

/* Whether kernels may start before the one ahead of them ends: then their code waits for it by itself. */
static bool may_overlap(const void *kernel) {
    cudaFuncAttributes attributes;
    int device, major;
    return !cudaGetDevice(&device) && !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) &&
           major >= 9 && !cudaFuncGetAttributes(&attributes, kernel) && attributes.ptxVersion >= 90;
}

template <class Args>
static void start(void (*kernel)(Args), dim3 grid, size_t shared_bytes, cudaStream_t stream, const Args &args) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = THREADS;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = may_overlap((const void *)kernel);
    cudaLaunchKernelEx(&config, kernel, args); /* an error is remembered */
}

template <unsigned C> struct chain {
    static int prepare(size_t bytes) {
        const void *kernels[] = {(const void *)dense<C>, (const void *)down<C>, (const void *)attend<C>,
                                 (const void *)prime<C>, (const void *)up<C>};
        for (const void *kernel : kernels) {
            cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
            if (code)
                return code;
        }
        return cudaSuccess;
    }

    static void run_dense(const hop_net &n, unsigned n_slots, cudaStream_t stream, bool encoder) {
        const hop_shape &s = n.shape;
        const unsigned n_rows = encoder ? s.n_positions : s.n_half, n_blocks = encoder ? 1 : 2;
        for (unsigned i = 0; i < s.depth; i++) {
            dense_args a = {.s = s, .layer = i, .n_rows = n_rows, .features = encoder ? n.scratch.features : NULL,
                            .embed = n.embed, .x = n.scratch.x, .blocks = {}};
            for (unsigned b = 0; b < n_blocks; b++) {
                const hop_dense &d = encoder ? n.encoder : n.decoders[b];
                a.blocks[b].taps = d.taps[i];
                a.blocks[b].mix = d.mix[i];
                a.blocks[b].ring = encoder ? s.encoder : b ? s.phase : s.mask;
                if (i + 1 == s.depth)
                    a.blocks[b].y = encoder ? n.scratch.encoded : n.scratch.decoded + (size_t)b * s.n_half * s.channels;
            }
            start(dense<C>, dim3(blocks_for(n_rows), n_slots, n_blocks), shared_bytes(s), stream, a);
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
        const dim3 grid(blocks_for(s.n_half), n_slots);
        const size_t bytes = shared_bytes(s);
        start(analyse, dim3(1, n_slots), fft_bytes(s), stream,
              analyse_args{s, n.asked, n.in, n.analysis_window, n.roots, n.band_edges, n.scratch.spectrum,
                           n.scratch.features});
        run_dense(n, n_slots, stream, true);
        start(down<C>, grid, bytes, stream, down_args{s, n.scratch.encoded, n.down, before(n, 0, 0)});
        for (unsigned b = 0; b < n.n_blocks; b++)
            for (unsigned i = 0; i < n.n_freq; i++) {
                const hop_freq &f = n.blocks[b].freq[i];
                const bool last = i + 1 == n.n_freq;
                start(attend<C>, grid, bytes, stream,
                      attend_args{s, f.gate_taps, n.scratch.gates, f.attention, f.proj, f.up, n.scratch.x,
                                  n.scratch.chunks});
                start(prime<C>, grid, bytes, stream,
                      prime_args{s, f.mixed_taps, f.taps, n.scratch.chunks, f.mix, f.down,
                                 last ? n.blocks[b].freq_skip : NULL,
                                 last ? before(n, b + 1, 0) : before(n, b, i + 1)});
            }
        run_dense(n, n_slots, stream, false);
        start(up<C>, dim3(blocks_for(s.n_half + 1), n_slots, 2), bytes, stream,
              up_args{s, n.scratch.decoded, {n.ups[0], n.ups[1]}, n.slope, n.scratch.gain, n.scratch.rotation});
        start(synthesise, dim3(1, n_slots), fft_bytes(s), stream,
              synthesise_args{s, n.scratch.spectrum, n.scratch.gain, n.scratch.rotation, n.synthesis_window, n.roots,
                              n.bin_bands, n.bin_shares, n.out, n.tail, n.done});
        return cudaGetLastError();
    }
};

int hop_prepare(const hop_net *n, size_t *needed) {
    const hop_shape &s = n->shape;
    *needed = shared_bytes(s);
    switch (is_usual(s) ? s.channels : 0) {
    case 16: return chain<16>::prepare(*needed);
    case 32: return chain<32>::prepare(*needed);
    case 64: return chain<64>::prepare(*needed);
    default: return chain<0>::prepare(*needed);
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
