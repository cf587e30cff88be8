/* kernels.h - the network's operations, each in a folder of its own: arguments and formula in its header, a plain
 * reference and a vectorised form that is compiled for several instruction sets.
 *
 * All are real-time safe and touch only what their arguments point to. */
#ifndef PRIMEKNET_KERNELS_H
#define PRIMEKNET_KERNELS_H

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
    const char *name; /* of the instruction set, for people */
    void (*linear)(const struct linear *a);
    void (*linear_bf16)(const struct linear *a); /* NULL where it would not be faster */
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

/* Those that this processor runs, best first, reference excluded; NULL after the last, which there is always one
 * before. */
const struct kernels *kernels_nth(unsigned i);

#endif
