/* Eight threads share a channel, each with STRIP rows. Both convolutions take one pass over shared memory, with the
 * rows under the taps in a ring of registers. The mixing layer is a product of 112 x C and C x C; its result meets the
 * second convolution in shared memory. */
#include "kernels/prime/prime_cuda.h"

#include "kernels/linear/multiply.cuh"
#include "kernels/overlap.cuh"

namespace {

enum { STRIP = 13, STRIPS = 8, ROWS = STRIP * STRIPS, TILE_ROWS = 112 };

template <int C> struct shape {
    static constexpr int THREADS = STRIPS * C, A_STRIDE = C == 16 ? 16 : C + 16; /* avoids bank conflicts */
    static constexpr unsigned bytes(unsigned most_taps) {
        return 4 * ((ROWS + most_taps - 1) * C + TILE_ROWS * A_STRIDE + C * C);
    }
};

template <int C>
__global__ __launch_bounds__(shape<C>::THREADS,
                             C == 64 ? 2 : 4) void prime(const __grid_constant__ struct prime_cuda a) {
    constexpr int THREADS = shape<C>::THREADS, A_STRIDE = shape<C>::A_STRIDE;
    extern __shared__ __align__(16) float shared[];
    float *product = shared, *weight = product + TILE_ROWS * A_STRIDE, *x = weight + C * C;
    const auto &kernel = a.kernel[blockIdx.y];
    const unsigned thread = threadIdx.x, stride = a.n_kernels * C, n_taps = kernel.n_taps, before = n_taps / 2;
    const size_t first = (size_t)blockIdx.x * a.n_rows * stride + blockIdx.y * C;

    for (unsigned i = thread; i < C * C / 4; i += THREADS)
        ((float4 *)weight)[i] = ((const float4 *)kernel.weight)[i];
    for (unsigned i = thread; i < (TILE_ROWS - ROWS) * C; i += THREADS)
        product[(ROWS + i / C) * A_STRIDE + i % C] = 0;
    await();
    for (unsigned i = thread; i < (ROWS + n_taps - 1) * C / 4; i += THREADS) {
        const unsigned row = i / (C / 4) - before, c = i % (C / 4) * 4;
        ((float4 *)x)[i] = row < a.n_rows ? *(const float4 *)(a.x + first + (size_t)row * stride + c)
                                          : make_float4(0, 0, 0, 0);
    }
    __syncthreads();

    const unsigned c = thread % C, row = thread / C * STRIP;
    float mixed[STRIP], plain[STRIP], ring[STRIP];
    const float *from = x + row * C + c, *mixed_taps = kernel.mixed_taps + c, *taps = kernel.taps + c;
#pragma unroll
    for (int s = 0; s < STRIP; s++) {
        mixed[s] = plain[s] = 0;
        ring[s] = s + 1 < STRIP ? from[s * C] : 0;
    }
    for (unsigned base = 0; base < n_taps; base += STRIP)
#pragma unroll
        for (int k = 0; k < STRIP; k++) {
            if (base + k >= n_taps)
                break;
            ring[(k + STRIP - 1) % STRIP] = from[(base + k + STRIP - 1) * C];
            const float w = __ldg(mixed_taps + (base + k) * C), v = __ldg(taps + (base + k) * C);
#pragma unroll
            for (int s = 0; s < STRIP; s++) {
                mixed[s] += ring[(k + s) % STRIP] * w;
                plain[s] += ring[(k + s) % STRIP] * v;
            }
        }
#pragma unroll
    for (int s = 0; s < STRIP; s++)
        product[(row + s) * A_STRIDE + c] = mixed[s];
    __syncthreads();

    /* A warp has 16 rows by half of the outputs, or all if there are only 16. The result replaces x. */
    constexpr int OUTS = C == 16 ? 16 : C / 2, PARTS = C / OUTS, N = OUTS / 8;
    const unsigned warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    for (unsigned unit = warp; unit < TILE_ROWS / 16 * PARTS; unit += THREADS / 32) {
        const unsigned tile_row = unit / PARTS * 16, out = unit % PARTS * OUTS;
        float sum[N][4] = {};
#pragma unroll
        for (int k = 0; k < C / 16; k++) {
            const float *a = product + (tile_row + g) * A_STRIDE + 16 * k + 4 * t;
            const float4 v[2][1] = {{*(const float4 *)a}, {*(const float4 *)(a + 8 * A_STRIDE)}};
            multiply_rows<1> rows;
            multiply_split(&rows, v);
            multiply<N>(sum, rows, 0, (const uint4 *)weight + (k * (C / 8) + out / 8) * 32 + lane);
        }
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            const unsigned o = out + 8 * j + 4 * t;
            const float4 bias = *(const float4 *)(kernel.bias + o);
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (tile_row + 8 * i + g < ROWS)
                    *(float4 *)(x + (tile_row + 8 * i + g) * C + o) = multiply_biased(&sum[j], i, bias);
        }
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < STRIP; s++)
        if (row + s < a.n_rows)
            a.y[first + (size_t)(row + s) * stride + c] = plain[s] * from[s * C];
}

template <int C> void launch(const struct prime_cuda *a, unsigned most_taps, cudaStream_t stream) {
    const unsigned n_bytes = shape<C>::bytes(most_taps);
    cudaFuncSetAttribute(prime<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    start(prime<C>, dim3(a->n_frames, a->n_kernels), shape<C>::THREADS, n_bytes, stream, *a);
}

} // namespace

bool prime_cuda_fits(unsigned n_rows, unsigned n_channels, unsigned most_taps) {
    int device, most = 0;
    if (n_rows > ROWS || cudaGetDevice(&device) ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device))
        return false;
    switch (n_channels) {
    case 16: return shape<16>::bytes(most_taps) <= (unsigned)most;
    case 32: return shape<32>::bytes(most_taps) <= (unsigned)most;
    case 64: return shape<64>::bytes(most_taps) <= (unsigned)most;
    default: return false;
    }
}

void prime_cuda(const struct prime_cuda *a, cudaStream_t stream) {
    unsigned most_taps = 0;
    for (unsigned k = 0; k < a->n_kernels; k++)
        most_taps = a->kernel[k].n_taps > most_taps ? a->kernel[k].n_taps : most_taps;
    switch (a->n_channels) {
    case 16: launch<16>(a, most_taps, stream); break;
    case 32: launch<32>(a, most_taps, stream); break;
    default: launch<64>(a, most_taps, stream); break;
    }
}
