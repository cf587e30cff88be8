#include "net/bands.h"

#include "kernels/fft/fft.h"
#include "kernels/kernels.h"
#include "model/pool.h"

#include <errno.h>
#include <math.h>

/* Edges with a constant ratio from 80 Hz to 16 kHz; speech fills most of these bands. */
float bands_edge(int band) {
    return 80 * powf(200, (float)band / BANDS);
}

int bands_levels(const float *x, float *db) {
    enum { n = BANDS_SAMPLES };
    struct pool pool = {0};
    struct fft_plan plan;
    float windowed[n], spectrum[n / 2 + 1][2];
    fft_plan_init(&plan, pool_floats(&pool, fft_plan_init(&plan, NULL, n, false)), n, false);
    if (!pool_ok(&pool)) {
        pool_done(&pool);
        return -ENOMEM;
    }
    for (int i = 0; i < n; i++)
        windowed[i] = x[i] * (0.5f - 0.5f * cosf(6.2831853f * (float)i / n));
    kernels_nth(0)->fft(&(struct fft){&plan, windowed, spectrum[0]});
    pool_done(&pool);

    /* The spectrum has two sides and the window a mean square of 3/8, so a band's power equals that of the sound in
     * it. */
    const float scale = 2 / (0.375f * n * (float)n), bin_hz = 48000.f / n;
    for (int band = 0; band < BANDS; band++) {
        int first = (int)lroundf(bands_edge(band) / bin_hz), end = (int)lroundf(bands_edge(band + 1) / bin_hz);
        float power = 0;
        for (int k = first; k < end; k++)
            power += spectrum[k][0] * spectrum[k][0] + spectrum[k][1] * spectrum[k][1];
        db[band] = 10 * log10f(fmaxf(power * scale, 1e-12f));
    }
    return 0;
}
