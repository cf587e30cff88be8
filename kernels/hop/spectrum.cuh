/* spectrum.cuh - a hop's first and last kernel: samples to features, gains to samples (docs/model-format.md).
 *
 * The plain reference (stft.c, spectrum.c):
 *
 *     X = rfft(analysis_window * the last `window` samples)
 *     features[p] = |X| and phase, compressed                      // of a linear bin; a band has its mean power
 *     ... the network: gain[p], rotation[p] ...
 *     Y[i] = X[i] * max(gain[i]^strength, floor) * low cut[i], turned by strength * rotation[i]
 *     overlap += synthesis_window * irfft(Y)[the last `synthesis` samples]
 *     the hop's samples = the first `hop` of overlap, which then moves on by a hop
 *
 * Here one block per slot keeps the frame in shared memory from end to end. */
#ifndef PRIMEKNET_HOP_SPECTRUM_CUH
#define PRIMEKNET_HOP_SPECTRUM_CUH

#include "layer.cuh"
#include "kernels/fft/fft.cuh"

struct analyse_args {
    hop_shape s;
    const hop_slot *asked;
    const float *in, *window, *roots;
    const unsigned *band_edges;
    float *spectrum, *features;
};

static __device__ inline float2 *copy_roots(const hop_shape &s, const float *roots, float2 *to) {
    for (unsigned i = threadIdx.x; i < s.window; i += THREADS)
        to[i] = weight2(roots + 2 * i);
    return to;
}

/* N is the window / 2. */
template <unsigned N>
static __global__ void __launch_bounds__(THREADS, 1) analyse(const __grid_constant__ analyse_args a) {
    extern __shared__ float4 shared[];
    __shared__ hop_slot slot;
    const hop_shape &s = a.s;
    const unsigned n_past = s.window - s.hop, me = threadIdx.x;
    float2 *points = (float2 *)shared, *other = points + N + 1;
    float *frame = (float *)other;
    constexpr unsigned n_points = (N + THREADS - 1) / THREADS, n_own = (2 * N + THREADS - 1) / THREADS;
    float2 own_window[n_points];
#pragma unroll
    for (unsigned k = 0; k < n_points; k++)
        if (me + k * THREADS < N)
            own_window[k] = weight2(a.window + 2 * (me + k * THREADS));
    const bool has_band = me < s.n_bands;
    const unsigned first_bin = has_band ? a.band_edges[me] : 0, end_bin = has_band ? a.band_edges[me + 1] : 0;
    await();
    /* Prefetches the past samples of the stream that was last in this slot, most likely the same one. The current one's
     * number is in host memory, which takes longer to read. */
    const unsigned last = __ldcg(&s.slots[blockIdx.y].stream);
    float kept[n_own];
#pragma unroll
    for (unsigned k = 0; k < n_own; k++)
        if (me + k * THREADS < n_past)
            kept[k] = __ldcg(s.state + last * s.n_state + s.past + me + k * THREADS);
    if (me == 0)
        slot = a.asked[blockIdx.y];
    const float *in = a.in + blockIdx.y * s.hop;
    for (unsigned i = me; i < s.hop; i += THREADS) {
        const float v = in[i];
        frame[n_past + i] = isfinite(v) ? fmaxf(-(float)HOP_LOUDEST, fminf(v, (float)HOP_LOUDEST)) : 0;
    }
    const float2 *roots = copy_roots(s, a.roots, other + N + 1);
    __syncthreads();
    if (me == 0)
        s.slots[blockIdx.y] = slot;
    float *past = s.state + slot.stream * s.n_state + s.past;
    if (slot.stream == last) {
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
#pragma unroll
    for (unsigned k = 0; k < n_points; k++)
        if (const unsigned i = me + k * THREADS; i < N)
            points[i] = make_float2(frame[2 * i] * own_window[k].x, frame[2 * i + 1] * own_window[k].y);
    const float2 *z = fft_complex<false, N>(points, other, N, roots);

    float2 *bins = z == points ? other : points, *spectrum = (float2 *)a.spectrum + blockIdx.y * s.n_bins;
    const float scale = 1 / s.scale;
    float *features = a.features + blockIdx.y * 3 * s.n_positions;
    for (unsigned i = me; i < s.n_bins; i += THREADS) {
        const float2 x = spectrum[i] = bins[i] = fft_bin(z, N, i, roots);
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

/* The share of a bin's width above the high-pass cutoff. */
static __device__ inline float above(unsigned i, float low_cut) {
    return low_cut > 0 ? __saturatef((float)i + .5f - low_cut) : 1;
}

/* (1 + re, im), normalised and raised to the power of `strength`. */
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

/* A bin's interpolation: its gain is `share` of the way from one position's gain to the next one's. */
struct bin {
    float2 x;
    unsigned position;
    float share;
};

/* N is the window / 2. */
template <unsigned N>
static __global__ void __launch_bounds__(THREADS, 1) synthesise(const __grid_constant__ synthesise_args a) {
    extern __shared__ float4 shared[];
    const hop_shape &s = a.s;
    const unsigned n_kept = s.synthesis - s.hop, me = threadIdx.x;
    const hop_slot slot = {.stream = __ldcg(&s.slots[blockIdx.y].stream),
                           .ticket = __ldcg(&s.slots[blockIdx.y].ticket),
                           .strength = __ldcg(&s.slots[blockIdx.y].strength),
                           .floor = __ldcg(&s.slots[blockIdx.y].floor),
                           .low_cut = __ldcg(&s.slots[blockIdx.y].low_cut)};
    float2 *points = (float2 *)shared, *bins = points + N + 1;
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
    constexpr unsigned n_ahead = N / THREADS + 1, n_sums = MOST_SYNTHESIS / THREADS;
    bin ahead[n_ahead];
    float2 sums_ahead[n_sums];
#pragma unroll
    for (unsigned k = 0; k < n_ahead; k++)
        if (me + k * THREADS < s.n_bins)
            fetch_bin(me + k * THREADS, ahead[k]);
#pragma unroll
    for (unsigned k = 0; k < n_sums; k++)
        if (me + k * THREADS < s.synthesis)
            sums_ahead[k] = fetch_sum(me + k * THREADS);
    const float2 *roots = copy_roots(s, a.roots, bins + N + 1);
    await_with(a, 0);
    const float *gains = a.gain + blockIdx.y * s.n_positions;
    const float2 *rotations = (const float2 *)a.rotation + blockIdx.y * s.n_positions;
    /* The network's outputs for a bin. */
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
        const float all = softened(fmaf(by.next - by.gain, b.share, by.gain), slot.strength, slot.floor) *
                          above(i, slot.low_cut);
        bins[i] = make_float2(v.x * all, v.y * all);
    };
    said all[n_ahead];
#pragma unroll
    for (unsigned k = 0; k < n_ahead; k++)
        if (me + k * THREADS < s.n_bins)
            listen(me + k * THREADS, ahead[k], all[k]);
#pragma unroll
    for (unsigned k = 0; k < n_ahead; k++)
        if (me + k * THREADS < s.n_bins)
            apply(me + k * THREADS, ahead[k], all[k]);
    __syncthreads();
    for (unsigned i = me; i < N; i += THREADS)
        points[i] = fft_point(bins, N, i, roots);
    const float *frame = (const float *)fft_complex<true, N>(points, bins, N, roots) + s.window - s.synthesis;
    const float scale = 1 / (float)s.window;
    volatile unsigned long long *out = a.out + blockIdx.y * s.hop;
    float *tail = a.tail + (size_t)slot.stream * n_kept;
    float *sums = (float *)(frame >= (float *)bins ? points : bins);
#pragma unroll
    for (unsigned k = 0; k < n_sums; k++) {
        const unsigned i = me + k * THREADS;
        if (i >= s.synthesis)
            break;
        const float v = fmaf(frame[i] * sums_ahead[k].x, scale, sums_ahead[k].y);
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

#endif
