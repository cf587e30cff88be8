/* bands.h - the levels of a short sound in 16 frequency bands, for a spectrum display.
 *
 * Any thread; not real-time safe. */
#ifndef PRIMEKNET_BANDS_H
#define PRIMEKNET_BANDS_H

enum { BANDS = 16, BANDS_SAMPLES = 2048 };

/* x [BANDS_SAMPLES] at 48 kHz, full scale 1.0 -> db [BANDS] in dBFS, lowest band first, at least -120. Returns 0 or
 * -ENOMEM. */
int bands_levels(const float *x, float *db);

/* The lower edge of a band in Hz; band BANDS gives the upper edge of the last. */
float bands_edge(int band);

#endif
