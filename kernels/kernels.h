/* kernels.h - the network's operations. Each has a folder with a header (formula and arguments), a plain reference, and
 * a vectorised version that is compiled for several instruction sets.
 *
 * All are real-time safe and access only what their arguments point to. */
#ifndef PRIMEKNET_KERNELS_H
#define PRIMEKNET_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

struct linear;
struct depthwise;
struct attend;
struct conv;
struct scan;
struct ssd;
struct gru;
struct lstm;
struct fft;
struct power;

struct kernels {
    const char *name; /* the instruction set, for display */
    void (*linear)(const struct linear *a);
    void (*linear_pairs)(const struct linear *a); /* NULL if it would not be faster */
    bool bf16; /* pairs are bfloat16, not int16 */
    void (*depthwise)(const struct depthwise *a);
    void (*attend)(const struct attend *a);
    void (*conv)(const struct conv *a);
    void (*scan)(const struct scan *a);
    void (*ssd)(const struct ssd *a);
    void (*gru)(const struct gru *a);
    void (*lstm)(const struct lstm *a);
    void (*fft)(const struct fft *a);
    void (*power)(const struct power *a);
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
