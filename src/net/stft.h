/* stft.h - analysis and synthesis, a hop at a time: window and real FFT; inverse FFT, window, overlap-add.
 *
 * A frame is the last W samples. The synthesis window covers its last S <= W samples, so a sample is complete S - H
 * samples after it came in. The windows come from the model and undo each other. One stft serves any number of streams,
 * but only one thread at a time; analyse, synthesise and tail are real-time safe. */
#ifndef PRIMEKNET_STFT_H
#define PRIMEKNET_STFT_H

#include "model/model.h"
#include "model/pool.h"

#include <complex.h>

struct kernels;
struct stft;

struct stft_state {
    float *past;    /* [W - H]: what came in before this hop */
    float *overlap; /* [S]: sums of frames, from the oldest incomplete sample on; the last H of them are always 0 */
};

int stft_new(struct stft **ret, const struct model *model, const struct kernels *kernels);
void stft_free(struct stft *t); /* NULL is fine */

/* Zero state, allocated in the stream's pool. */
void stft_state_init(const struct stft *t, struct stft_state *s, struct pool *pool);

/* in [H] -> spectrum [W/2 + 1], unscaled. */
void stft_analyse(struct stft *t, struct stft_state *s, const float *in, float complex *spectrum);
/* spectrum [W/2 + 1] -> out [H]. */
void stft_synthesise(struct stft *t, struct stft_state *s, const float complex *spectrum, float *out);
/* The sums of the S - H samples after the last that came out. */
void stft_tail(const struct stft *t, const struct stft_state *s, float *tail);

/* The share of a steady signal that the frames so far give to each of the S - H samples after the last one out. */
void stft_fade(const struct model *model, float *fade);

#endif
