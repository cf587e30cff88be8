/* score.h - how near speech is to the clean recording, in numbers that the field uses.
 *
 * Both signals must be aligned; nothing is searched or shifted. Any thread. */
#ifndef PRIMEKNET_SCORE_H
#define PRIMEKNET_SCORE_H

#include <stddef.h>

/* Scale-invariant signal-to-distortion ratio, dB, without the signals' means (Le Roux et al. 2019). Not a number where
 * either is constant. */
double score_si_sdr(const float *clean, const float *x, size_t n);

/* Segmental signal-to-noise ratio, dB: the mean over frames of 30 ms, three quarters overlapping, each held to -10 to
 * 35 dB (Loizou, Speech Enhancement, 2007). Not a number where the sound is shorter than a frame. */
double score_segmental_snr(const float *clean, const float *x, size_t n, unsigned rate);

enum { SCORE_STOI_RATE = 10000 };
/* Short-time objective intelligibility (Taal et al. 2011), of sounds at SCORE_STOI_RATE. *ret is not a number where less than
 * 397 ms of speech is left without the silent frames. Returns 0 or -ENOMEM. */
int score_stoi(double *ret, const float *clean, const float *x, size_t n);

#endif
