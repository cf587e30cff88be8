/* x = 2^n m and log2(m) = 2 / ln 2 artanh(v), v = (m - 1) / (m + 1), |v| < 0.172, by the first terms of the series. To
 * lose no digits, exponent * n is split into a whole number and a remainder, to which log2(m) is added. */
#include "kernels/power/power.h"
#include "kernels/simd.h"

static inline vf power_vector(vf x, float exponent) {
    const int lowest = 0x3f3504f3; /* sqrt(1/2) */
    const vi whole = ((vi)x - lowest) >> 23;
    const vf n = __builtin_convertvector(whole, vf), m = (vf)((vi)x - (whole << 23));
    const vf v = (m - 1.f) * inverse(m + 1.f), w = v * v;
    vf y = 0.320598898f * w + 0.412198583f;
    y = y * w + 0.577078016f;
    y = y * w + 0.961796694f;
    y = y * w + 2.88539008f;
    const vf rounded = (n * exponent + 0x1.8p23f) - 0x1.8p23f;
    return exp2_bounded(v * y * exponent + (n * exponent - rounded)) * exp2_bounded(rounded);
}

static void power_cpu(const struct power *a) {
    for (unsigned i = 0; i < a->n; i += LANES)
        store(a->x + i, power_vector(load(a->x + i), a->exponent));
}
