/* stft.h - analysis (window, real FFT) and synthesis (inverse FFT, window, overlap-add), a hop at a time.
 *
 * A frame is the last W samples. The synthesis window covers the last S <= W of them, so a sample is complete S - H
 * samples after it came in. The windows come from the model and satisfy perfect reconstruction. One stft serves any
 * number of streams, on one thread at a time; analyse, synthesise and tail are real-time safe. */
#ifndef PRIMEKNET_STFT_H
#define PRIMEKNET_STFT_H

#include "model/model.h"
#include "model/pool.h"

#include <complex.h>

struct kernels;
struct stft;

struct stft_state {
    float *past;    /* [W - H]: the input before this hop */
    float *overlap; /* [S]: sums of frames from the oldest incomplete sample on; the last H are always 0 */
};

int stft_new(struct stft **ret, const struct model *model, const struct kernels *kernels);
void stft_free(struct stft *t); /* t may be NULL */

/* Allocates a stream's state, all zeros, in its pool. */
void stft_state_init(const struct stft *t, struct stft_state *s, struct pool *pool);

/* in [H] -> spectrum [W/2 + 1], unscaled. */
void stft_analyse(struct stft *t, struct stft_state *s, const float *in, float complex *spectrum);
/* spectrum [W/2 + 1] -> out [H]. */
void stft_synthesise(struct stft *t, struct stft_state *s, const float complex *spectrum, float *out);
/* Writes tail [S - H]: the incomplete overlap-add sums of the S - H samples after the last output. */
void stft_tail(const struct stft *t, const struct stft_state *s, float *tail);

/* Writes fade [S - H]: the share of a steady signal that these incomplete sums contain. */
void stft_fade(const struct model *model, float *fade);

#endif
