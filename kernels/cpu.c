/* cpu.c - all vectorised kernels as one unit, compiled once per instruction set: KERNELS is the table's name,
 * KERNELS_NAME its display name (the baseline needs neither). Everything else is static, so that a function compiled
 * for one processor cannot be linked into code that runs on another. */
#include "kernels/kernels.h"

#include "kernels/depthwise/depthwise_cpu.c"
#include "kernels/linear/linear_cpu.c"

#include "kernels/attend/attend_cpu.c"
#include "kernels/conv/conv_cpu.c"
#include "kernels/fft/fft_cpu.c"
#include "kernels/gru/gru_cpu.c"
#include "kernels/lstm/lstm_cpu.c"
#include "kernels/power/power_cpu.c"
#include "kernels/scan/scan_cpu.c"
#include "kernels/ssd/ssd_cpu.c"

#ifndef KERNELS_NAME
#ifdef __aarch64__
#define KERNELS_NAME "NEON"
#else
#define KERNELS_NAME "baseline"
#endif
#endif

extern const struct kernels KERNELS;

const struct kernels KERNELS = {
    .name = KERNELS_NAME,
#define ROW(op) .op = op##_cpu,
    KERNELS_TABLE(ROW)
#undef ROW
#ifdef PAIRS
        .linear_pairs = linear_pairs_cpu,
#ifdef __AVX512BF16__
    .bf16 = true,
#endif
#endif
};
