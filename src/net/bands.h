/* bands.h - a short sound as a few bars: its level in bands of frequency.
 *
 * Not real-time safe; any thread. */
#ifndef PRIMEKNET_BANDS_H
#define PRIMEKNET_BANDS_H

enum { BANDS = 16, BANDS_SAMPLES = 2048 };

/* x [BANDS_SAMPLES], 48 kHz, full scale 1.0 -> db [BANDS], from low to high, dBFS, -120 at least. Returns 0 or -ENOMEM. */
int bands_levels(const float *x, float *db);

/* The lower edge of a band, Hz; band BANDS is the end of the last. */
float bands_edge(int band);

#endif
