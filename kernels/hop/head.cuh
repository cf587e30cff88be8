/* head.cuh - the ends of both decoders: back to full resolution, then the mask's gain or the rotation.
 *
 * The plain reference (net.c's decode, net_mask, net_phase):
 *
 *     y[2p] = prelu(even(x[p - 1], x[p]));    y[2p + 1] = prelu(odd(x[p]))
 *     mask[p] = mask_ceiling / (1 + exp(-slope[p] * head(y[p])))
 *     gain[p] = max(mask[p], mask_minimum)^(1 / compression)
 *     rotation[p] = head(y[p])                                                 // of the other decoder */
#ifndef PRIMEKNET_HOP_HEAD_CUH
#define PRIMEKNET_HOP_HEAD_CUH

#include "layer.cuh"

struct up_args {
    hop_shape s;
    const float *decoded;
    hop_up ups[2];
    const float *slope;
    float *gain, *rotation;
};

/* Transposed convolution, kernel 3, stride 2: even output rows see two input rows, odd ones see one. */
template <unsigned C, unsigned P>
static __global__ void __launch_bounds__(widths<C>::threads, widths<C>::share) up(const __grid_constant__ up_args a) {
    extern __shared__ float4 shared[];
    constexpr unsigned rows = P * UP_ROWS;
    const hop_shape &s = a.s;
    const hop_up &l = a.ups[blockIdx.z];
    const unsigned c = widths<C>::channels(), first = blockIdx.x * rows;
    float *y = (float *)shared;
    const float *decoded = a.decoded + (size_t)(2 * blockIdx.y + blockIdx.z) * N_HALF * c;
    layer<C, 2, C, rows, true> even;
    layer<C, 1, C, rows, true> odd;
    even.fetch(l.even);
    odd.fetch(l.odd);
    /* One warp per output of a head, at P positions. */
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
    even.run(
        [&](unsigned r, unsigned i, unsigned) { return row4(decoded, (int)(first + r) - (i < c), N_HALF, c, i % c); },
        [&](unsigned r, unsigned o, float sum, bool mine) {
            if (mine)
                y[2 * r * c + o] = sum;
        });
    odd.run([&](unsigned r, unsigned i, unsigned) { return row4(decoded, (int)(first + r), N_HALF, c, i); },
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

#endif
