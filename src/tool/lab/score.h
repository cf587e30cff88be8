/* score.h - standard speech quality scores against the clean recording.
 *
 * The signals must be aligned: the functions do not search for a delay. Any thread. */
#ifndef PRIMEKNET_SCORE_H
#define PRIMEKNET_SCORE_H

#include <stddef.h>

/* Scale-invariant signal-to-distortion ratio in dB, after removing the means (Le Roux et al. 2019). NaN if either
 * signal is constant. */
double score_si_sdr(const float *clean, const float *x, size_t n);

/* Segmental signal-to-noise ratio in dB: the mean over frames of 30 ms that overlap by three quarters, each limited to
 * -10 to 35 dB (Loizou, Speech Enhancement, 2007). NaN if the sound is shorter than a frame. */
double score_segmental_snr(const float *clean, const float *x, size_t n, unsigned rate);

enum { SCORE_STOI_RATE = 10000 };
/* Short-time objective intelligibility (Taal et al. 2011) of sounds at SCORE_STOI_RATE. *ret is NaN if less than 397 ms
 * remain after the silent frames are removed. Returns 0 or -ENOMEM. */
int score_stoi(double *ret, const float *clean, const float *x, size_t n);

#endif
