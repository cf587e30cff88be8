#include "kernels/conv/conv.h"
#include "kernels/simd.h"

static void conv_cpu(const struct conv *args) {
    const struct conv a = *args; /* the stores below might change *args, for all that the compiler knows */
    const size_t n = a.n_channels;
    const unsigned n_past = a.n_taps - 1;
    for (unsigned r = 0; r < a.n_rows; r++)
        for (unsigned c = 0; c < n; c += LANES) {
            vf x = load(a.x + r * a.x_stride + c), sum = load(a.bias + c) + load(a.taps + n_past * n + c) * x;
            for (unsigned t = 0; t < n_past; t++)
                sum += load(a.taps + t * n + c) * load(a.past[t] + r * n + c);
            store(a.past[0] + r * n + c, x);
            store(a.y + r * n + c, silu(sum));
        }
}
