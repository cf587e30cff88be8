/* kernels.h - the network's operations. Each has a folder with a header (formula and arguments), a plain reference, and
 * a vectorised version that is compiled for several instruction sets.
 *
 * All are real-time safe and access only what their arguments point to. */
#ifndef PRIMEKNET_KERNELS_H
#define PRIMEKNET_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* One row per operation: its arguments are struct OP, its versions OP_ref and OP_cpu. */
#define KERNELS_TABLE(ROW) \
    ROW(linear) ROW(depthwise) ROW(attend) ROW(conv) ROW(scan) ROW(ssd) ROW(gru) ROW(lstm) ROW(fft) ROW(power)

#define ROW(op) struct op;
KERNELS_TABLE(ROW)
#undef ROW

struct kernels {
    const char *name; /* the instruction set, for display */
#define ROW(op) void (*op)(const struct op *a);
    KERNELS_TABLE(ROW)
#undef ROW
    void (*linear_pairs)(const struct linear *a); /* NULL if it would not be faster */
    bool bf16;                                    /* pairs are bfloat16, not int16 */
};

extern const struct kernels kernels_reference; /* in float */

/* Returns the same kernels with all products in float. */
static inline struct kernels kernels_in_float(const struct kernels *k) {
    struct kernels in_float = *k;
    in_float.linear_pairs = NULL;
    return in_float;
}

/* Returns the i-th set of kernels that this processor supports, best first, without the reference; NULL after the last.
 * There is at least one. */
const struct kernels *kernels_nth(unsigned i);

#endif
