#include "kernels/spectrum/spectrum_cuda.h"

#include "kernels/overlap.cuh"

#include <stddef.h>

namespace {

enum { THREADS = 256 };

unsigned blocks(size_t n) {
    return (unsigned)((n + THREADS - 1) / THREADS);
}

__global__ void make_frames(const __grid_constant__ struct frames_cuda a) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, frame = at / a.window;
    const unsigned i = (unsigned)(at % a.window);
    if (frame >= a.n_frames)
        return;
    await();
    const float x = a.samples[frame * a.hop + i];
    a.frames[at] = a.analysis[i] * (isfinite(x) ? fmaxf(-a.loudest, fminf(x, a.loudest)) : 0);
}

__device__ float squared(float2 x) {
    return x.x * x.x + x.y * x.y;
}

/* One thread per frequency position. */
__global__ void make_features(const __grid_constant__ struct spectrum_cuda g, unsigned n_frames, const float2 *spectrum,
                              float *features) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, frame = at / g.n_positions;
    const unsigned p = (unsigned)(at % g.n_positions);
    if (frame >= n_frames)
        return;
    await();
    const float2 *x = spectrum + frame * g.n_bins;
    const float scale = 1 / g.scale;
    float *f = features + 3 * at;
    if (p < g.n_linear) {
        const float magnitude = fmaxf(sqrtf(squared(x[p])) * scale, g.magnitude_minimum);
        const float compressed = powf(magnitude, g.compression), unit = compressed * scale / magnitude;
        f[0] = compressed;
        f[1] = x[p].x * unit;
        f[2] = x[p].y * unit;
        return;
    }
    const unsigned first = g.edges[p - g.n_linear], end = g.edges[p - g.n_linear + 1];
    float power = 0;
    for (unsigned i = first; i < end; i++)
        power += squared(x[i]);
    power *= scale * scale / (float)(end - first);
    f[0] = powf(fmaxf(power, g.power_minimum), g.compression / 2);
    f[1] = f[2] = 0;
}

__device__ float gain_of(const struct spectrum_cuda &g, const float *mask, unsigned p) {
    const float m = g.mask_ceiling / (1 + expf(-g.slope[p] * mask[p]));
    return isfinite(m) ? powf(fmaxf(m, g.mask_minimum), 1 / g.compression) : 1;
}

/* One thread per bin. */
__global__ void apply(const __grid_constant__ struct spectrum_cuda g, unsigned n_frames, const float *masks,
                      const float2 *rotations, float strength, float floor, float low_cut, float2 *spectrum) {
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, frame = at / g.n_bins;
    const unsigned i = (unsigned)(at % g.n_bins);
    if (frame >= n_frames)
        return;
    await();
    const float *mask = masks + frame * g.n_positions;
    float gain;
    if (i < g.n_linear)
        gain = gain_of(g, mask, i);
    else {
        const unsigned band = g.below[i - g.n_linear], p = g.n_linear + band, next = p + (band + 1 < g.n_bands);
        const float below = fminf(gain_of(g, mask, p), g.band_gain_maximum);
        const float above = fminf(gain_of(g, mask, next), g.band_gain_maximum);
        gain = below + (above - below) * g.share[i - g.n_linear];
    }
    gain = fmaxf(strength == 1 ? gain : powf(gain, strength), floor);
    if (low_cut > 0)
        gain *= __saturatef((float)i + .5f - low_cut);
    float2 turn = make_float2(1, 0);
    if (i < g.n_linear) {
        const float2 r = rotations[frame * g.n_positions + i];
        const float re = 1 + r.x, im = r.y, square = re * re + im * im;
        const float length = sqrtf(square / (square + g.rotation_epsilon));
        if (isfinite(length) && strength == 1)
            turn = make_float2(re / sqrtf(square + g.rotation_epsilon), im / sqrtf(square + g.rotation_epsilon));
        else if (isfinite(length) && strength > 0) {
            const float angle = strength * atan2f(im, re), power = powf(length, strength);
            turn = make_float2(power * cosf(angle), power * sinf(angle));
        }
    }
    const float2 x = spectrum[at];
    spectrum[at] = make_float2(gain * (x.x * turn.x - x.y * turn.y), gain * (x.x * turn.y + x.y * turn.x));
}

/* One thread per sample. */
__global__ void overlap(const __grid_constant__ struct overlap_cuda a) {
    const unsigned j = blockIdx.x * THREADS + threadIdx.x, n_kept = a.length - a.hop;
    if (j >= a.n_frames * a.hop + n_kept)
        return;
    const float scale = 1.f / (float)a.window;
    await();
    float sum = j < n_kept ? a.overlap[j] : 0;
    for (unsigned f = j < a.length ? 0 : (j - a.length) / a.hop + 1; f < a.n_frames && f * a.hop <= j; f++) {
        const unsigned i = j - f * a.hop;
        sum += a.frames[(size_t)f * a.window + a.window - a.length + i] * a.synthesis[i] * scale;
    }
    a.out[j] = sum;
}

} // namespace

void frames_cuda(const struct frames_cuda *a, cudaStream_t stream) {
    start(make_frames, blocks((size_t)a->n_frames * a->window), THREADS, 0, stream, *a);
}

void features_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *X, float *features,
                   cudaStream_t stream) {
    start(make_features, blocks((size_t)n_frames * g->n_positions), THREADS, 0, stream, *g, n_frames, (const float2 *)X,
          features);
}

void apply_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *mask, const float *rotation,
                float strength, float floor, float low_cut, float *X, cudaStream_t stream) {
    start(apply, blocks((size_t)n_frames * g->n_bins), THREADS, 0, stream, *g, n_frames, mask, (const float2 *)rotation,
          strength, floor, low_cut, (float2 *)X);
}

void overlap_cuda(const struct overlap_cuda *a, cudaStream_t stream) {
    start(overlap, blocks(a->n_frames * a->hop + a->length - a->hop), THREADS, 0, stream, *a);
}
