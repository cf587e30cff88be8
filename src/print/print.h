/* print.h - voice prints: numbers that are similar for sounds of the same voice (encoder.h).
 *
 * The encoder is a small recurrent network, distilled from speaker encoders that are trained so that the prints of one
 * voice lie close together and far from those of others (GE2E loss: Wan et al., arXiv 1710.10467; GRU: Cho et al.,
 * arXiv 1406.1078). It runs on windows of some seconds; windows that are much quieter than the loudest do not count.
 *
 * A struct voice_print is an encoder in memory and belongs to one thread at a time, which must not be an audio thread.
 * Functions return 0 or a negative errno. */
#ifndef PRIMEKNET_PRINT_H
#define PRIMEKNET_PRINT_H

#include "base/err.h"

#include <stddef.h>

struct kernels;
struct voice_print;

/* Opens an encoder's model file; `kernels` from kernels_nth. Allocates all that computing needs. Blocks on I/O. On
 * failure, the line names the file and the fault. */
int voice_print_open(struct voice_print **ret, const char *path, const struct kernels *kernels, struct err *err);
void voice_print_close(struct voice_print *p); /* p may be NULL */

const char *voice_print_name(const struct voice_print *p); /* from the metadata */
unsigned voice_print_rate(const struct voice_print *p);    /* Hz */
unsigned voice_print_size(const struct voice_print *p);    /* numbers in a print */

/* Writes the print [size], of length 1, of samples [n], mono at the encoder's rate, preferably only the parts with
 * speech. The level of the sound does not matter; samples that are not finite count as 0. Takes less than a hundredth
 * of the sound's duration; does not allocate. Returns 0, or, leaving `print` unchanged, -ENODATA if n is too short, or
 * -ENOMSG if there is only silence. */
int voice_print_compute(struct voice_print *p, const float *samples, size_t n, float *print);

/* Returns the similarity of two prints [size], of the same encoder: the cosine of the angle between them, from -1 to 1
 * but for rounding. Any thread. */
float voice_print_similarity(const float *a, const float *b, unsigned size);

#endif
