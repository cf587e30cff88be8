#include "kernels/kernels.h"

#include "kernels/attend/attend.h"
#include "kernels/conv/conv.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/fft/fft.h"
#include "kernels/gru/gru.h"
#include "kernels/linear/linear.h"
#include "kernels/lstm/lstm.h"
#include "kernels/power/power.h"
#include "kernels/scan/scan.h"
#include "kernels/ssd/ssd.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* from cpu.c, compiled once for each */
extern const struct kernels kernels_avx512_bf16, kernels_avx512_vnni, kernels_avx512, kernels_avx_vnni, kernels_avx2,
    kernels_baseline;

const struct kernels kernels_reference = {.name = "reference",
#define ROW(op) .op = op##_ref,
                                          KERNELS_TABLE(ROW)
#undef ROW
};

#ifdef __x86_64__
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

/* Intel processors take longer for products of bfloat16 pairs than for floats (docs/cpu.md). */
static bool has_fast_bf16(void) {
    return has_avx512() && __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel");
}

static bool has_vnni(void) {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Compilers do not all know its name. */
static bool has_avx_vnni(void) {
    enum { FEATURES = 7, AVX_VNNI = 1 << 4 };
    unsigned a = 0, b, c, d;
    return has_avx2() && __get_cpuid_count(FEATURES, 1, &a, &b, &c, &d) && a & AVX_VNNI;
}
#endif

static bool always(void) {
    return true;
}

/* Fastest first. */
/* clang-format off */
static const struct {
    bool (*runs)(void);
    const struct kernels *kernels;
} table[] = {
#ifdef __x86_64__
    {has_fast_bf16, &kernels_avx512_bf16},
    {has_vnni, &kernels_avx512_vnni},
    {has_avx512, &kernels_avx512},
    {has_avx_vnni, &kernels_avx_vnni},
    {has_avx2, &kernels_avx2},
#endif
    {always, &kernels_baseline},
};
/* clang-format on */

const struct kernels *kernels_nth(unsigned n) {
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].runs() && n-- == 0)
            return table[i].kernels;
    return NULL;
}
