#include "bands.h"

#include <errno.h>
#include <kiss_fftr.h>
#include <math.h>
#include <stdlib.h>

/* Steps of equal ratio from 80 Hz to 16 kHz: speech fills most of them. */
float bands_edge(int band) {
    return 80 * powf(200, (float)band / BANDS);
}

int bands_levels(const float *x, float *db) {
    enum { n = BANDS_SAMPLES };
    kiss_fftr_cfg fft = kiss_fftr_alloc(n, 0, NULL, NULL);
    float windowed[n];
    kiss_fft_cpx spectrum[n / 2 + 1];
    if (!fft)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        windowed[i] = x[i] * (0.5f - 0.5f * cosf(6.2831853f * (float)i / n));
    kiss_fftr(fft, windowed, spectrum);
    kiss_fftr_free(fft);

    /* Two sides of the spectrum, the window's mean square 3/8: a band's power is that of the sound in it. */
    const float scale = 2 / (0.375f * n * (float)n), bin_hz = 48000.f / n;
    for (int band = 0; band < BANDS; band++) {
        int first = (int)lroundf(bands_edge(band) / bin_hz), end = (int)lroundf(bands_edge(band + 1) / bin_hz);
        float power = 0;
        for (int k = first; k < end; k++)
            power += spectrum[k].r * spectrum[k].r + spectrum[k].i * spectrum[k].i;
        db[band] = 10 * log10f(fmaxf(power * scale, 1e-12f));
    }
    return 0;
}
