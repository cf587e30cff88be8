/* snr.h - the signal-to-noise ratio between two signals. */
#ifndef PRIMEKNET_TESTS_SNR_H
#define PRIMEKNET_TESTS_SNR_H

#include <check.h>
#include <math.h>
#include <stddef.h>

/* Returns the ratio in dB over n samples; `should` must not be silent. */
static inline double snr_db(const float *is, const float *should, size_t n) {
    double signal = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        signal += (double)should[i] * should[i];
        error += ((double)is[i] - should[i]) * ((double)is[i] - should[i]);
    }
    ck_assert(signal > 0);
    return 10 * log10(signal / error);
}

#endif
