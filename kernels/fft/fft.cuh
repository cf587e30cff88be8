/* fft.cuh - one block transforms one frame in shared memory: Stockham's autosort form, radices 8, 4, 2, 3 and 5, on
 * half as many complex points as there are real ones. Every thread of the block must call these functions; data is
 * visible to all threads on entry and on return. */
#ifndef PRIMEKNET_FFT_CUH
#define PRIMEKNET_FFT_CUH

static __device__ inline float2 fft_times(float2 a, float2 b) {
    return make_float2(fmaf(a.x, b.x, -a.y * b.y), fmaf(a.x, b.y, a.y * b.x));
}

/* exp(-2 pi i j / n), or its conjugate. */
template <bool INVERSE> static __device__ inline float2 fft_root(const float2 *roots, unsigned j) {
    float2 r = roots[j];
    return make_float2(r.x, INVERSE ? -r.y : r.y);
}

/* R points by the definition. The roots of 2 and 4 are exact, so the compiler drops multiplications by 1 and 0. */
template <unsigned R, bool INVERSE> static __device__ inline void fft_few(float2 (&v)[R]) {
    const float s = INVERSE ? -1.f : 1.f;
    if constexpr (R == 2) {
        float2 a = v[0], b = v[1];
        v[0] = make_float2(a.x + b.x, a.y + b.y);
        v[1] = make_float2(a.x - b.x, a.y - b.y);
    } else if constexpr (R == 4) {
        float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), d = make_float2(v[1].x - v[3].x, v[1].y - v[3].y);
        v[0] = make_float2(a.x + c.x, a.y + c.y);
        v[1] = make_float2(b.x + s * d.y, b.y - s * d.x);
        v[2] = make_float2(a.x - c.x, a.y - c.y);
        v[3] = make_float2(b.x - s * d.y, b.y + s * d.x);
    } else if constexpr (R == 8) {
        constexpr float h = .70710678118654752f;
        float2 even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
        const float2 turns[4] = {make_float2(1, 0), make_float2(h, -s * h), make_float2(0, -s),
                                 make_float2(-h, -s * h)};
        fft_few<4, INVERSE>(even);
        fft_few<4, INVERSE>(odd);
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const float2 t = fft_times(odd[k], turns[k]);
            v[k] = make_float2(even[k].x + t.x, even[k].y + t.y);
            v[k + 4] = make_float2(even[k].x - t.x, even[k].y - t.y);
        }
    } else {
        constexpr float cosines[2][5] = {
            {1, -.5f, -.5f, 0, 0},
            {1, .30901699437494745f, -.8090169943749475f, -.8090169943749475f, .30901699437494745f}};
        constexpr float sines[2][5] = {
            {0, -.8660254037844386f, .8660254037844386f, 0, 0},
            {0, -.9510565162951535f, -.5877852522924731f, .5877852522924731f, .9510565162951535f}};
        float2 y[R];
#pragma unroll
        for (unsigned k = 0; k < R; k++) {
            y[k] = v[0];
#pragma unroll
            for (unsigned j = 1; j < R; j++) {
                float2 w = make_float2(cosines[R == 5][j * k % R], s * sines[R == 5][j * k % R]),
                       t = fft_times(v[j], w);
                y[k] = make_float2(y[k].x + t.x, y[k].y + t.y);
            }
        }
#pragma unroll
        for (unsigned k = 0; k < R; k++)
            v[k] = y[k];
    }
}

/* One pass over n complex points, of which groups of n_done are already transformed. */
template <unsigned R, bool INVERSE>
static __device__ inline void fft_pass(const float2 *from, float2 *to, unsigned n, unsigned n_done,
                                       const float2 *roots) {
    const unsigned spacing = n / R, step = 2 * (spacing / n_done); /* the table has 2 n roots */
    for (unsigned j = threadIdx.x; j < spacing; j += blockDim.x) {
        unsigned k = j % n_done;
        float2 v[R];
        v[0] = from[j];
#pragma unroll
        for (unsigned i = 1; i < R; i++)
            v[i] = n_done == 1 ? from[j + i * spacing]
                               : fft_times(from[j + i * spacing], fft_root<INVERSE>(roots, i * k * step));
        fft_few<R, INVERSE>(v);
#pragma unroll
        for (unsigned i = 0; i < R; i++)
            to[(j - k) * R + k + i * n_done] = v[i];
    }
    __syncthreads();
}

/* The passes for N points, known at compile time, of which groups of DONE are already transformed. */
template <bool INVERSE, unsigned N, unsigned DONE = 1>
static __device__ inline float2 *fft_known(float2 *a, float2 *b, const float2 *roots) {
    if constexpr (DONE == N)
        return a;
    else {
        constexpr unsigned left = N / DONE, radix = left % 8 == 0   ? 8
                                                    : left % 4 == 0 ? 4
                                                    : left % 2 == 0 ? 2
                                                    : left % 3 == 0 ? 3
                                                                    : 5;
        fft_pass<radix, INVERSE>(a, b, N, DONE, roots);
        return fft_known<INVERSE, N, DONE * radix>(b, a, roots);
    }
}

/* Transforms n complex points in a; b is scratch of the same size. N is n if known at compile time, else 0. Returns
 * whichever of the two holds the result. */
template <bool INVERSE, unsigned N = 0>
static __device__ inline float2 *fft_complex(float2 *a, float2 *b, unsigned n, const float2 *roots) {
    __syncthreads();
    if constexpr (N)
        return fft_known<INVERSE, N>(a, b, roots);
    else {
        for (unsigned n_done = 1; n_done < n;) {
            const unsigned left = n / n_done;
            unsigned radix = 5;
            if (left % 4 == 0)
                fft_pass<4, INVERSE>(a, b, n, n_done, roots), radix = 4;
            else if (left % 2 == 0)
                fft_pass<2, INVERSE>(a, b, n, n_done, roots), radix = 2;
            else if (left % 3 == 0)
                fft_pass<3, INVERSE>(a, b, n, n_done, roots), radix = 3;
            else
                fft_pass<5, INVERSE>(a, b, n, n_done, roots);
            n_done *= radix;
            float2 *swap = a;
            a = b;
            b = swap;
        }
        return a;
    }
}

/* Bin k (0..n) of the transform of 2 n real points, whose pairs fft_complex has transformed into z. */
static __device__ inline float2 fft_bin(const float2 *z, unsigned n, unsigned k, const float2 *roots) {
    float2 a = z[k == n ? 0 : k], b = z[k == 0 ? 0 : n - k];
    float2 even = make_float2(.5f * (a.x + b.x), .5f * (a.y - b.y)),
           odd = make_float2(.5f * (a.y + b.y), .5f * (b.x - a.x));
    float2 t = fft_times(odd, roots[k]);
    return make_float2(even.x + t.x, even.y + t.y);
}

/* The inverse: point k (0..n-1) for fft_complex, from bins x[0..n]. */
static __device__ inline float2 fft_point(const float2 *x, unsigned n, unsigned k, const float2 *roots) {
    float2 a = x[k], b = x[n - k];
    if (k == 0)
        a.y = b.y = 0;
    float2 even = make_float2(a.x + b.x, a.y - b.y);
    float2 odd = fft_times(make_float2(a.x - b.x, a.y + b.y), fft_root<true>(roots, k));
    return make_float2(even.x - odd.y, even.y + odd.x);
}

#endif
