#include "tool/lab/score.h"

#include "kernels/fft/fft.h"
#include "kernels/kernels.h"
#include "model/pool.h"

#include <errno.h>
#include <math.h>
#include <string.h>

double score_si_sdr(const float *clean, const float *x, size_t n) {
    double mean_clean = 0, mean_x = 0, cc = 0, cx = 0, rest = 0;
    for (size_t i = 0; i < n; i++) {
        mean_clean += clean[i];
        mean_x += x[i];
    }
    mean_clean /= (double)n;
    mean_x /= (double)n;
    for (size_t i = 0; i < n; i++) {
        cc += (clean[i] - mean_clean) * (clean[i] - mean_clean);
        cx += (clean[i] - mean_clean) * (x[i] - mean_x);
    }
    for (size_t i = 0; i < n; i++) {
        double d = (x[i] - mean_x) - cx / cc * (clean[i] - mean_clean);
        rest += d * d;
    }
    return 10 * log10(cx * cx / cc / rest);
}

double score_segmental_snr(const float *clean, const float *x, size_t n, unsigned rate) {
    const size_t frame = (rate * 30 + 500) / 1000, step = frame / 4;
    double sum = 0;
    size_t n_frames = 0;
    for (size_t start = 0; start + frame <= n && step; start += step, n_frames++) {
        double signal = 0, noise = 0;
        for (size_t i = 0; i < frame; i++) {
            double w = .5 - .5 * cos(2 * M_PI * (double)(i + 1) / (double)(frame + 1));
            double c = w * clean[start + i], d = w * x[start + i] - c;
            signal += c * c;
            noise += d * d;
        }
        double snr = 10 * log10((signal + 1e-20) / (noise + 1e-20));
        sum += fmax(-10, fmin(snr, 35));
    }
    return n_frames ? sum / (double)n_frames : NAN;
}

/* ---- STOI, with the paper's terms -------------------------------------------------------------------------------- */

enum { FRAME = 256, STEP = FRAME / 2, FFT = 512, BANDS = 15, SEGMENT = 30, DYNAMIC_RANGE_DB = 40 };
static const double lowest_centre_hz = 150, clip = 1 + 5.623413251903491; /* clip: at most 15 dB of distortion */

/* A Hann window without the zeros at its ends. */
static double window(int i) {
    return .5 - .5 * cos(2 * M_PI * (i + 1) / (FRAME + 1));
}

/* Rebuilds both signals from the windowed frames in which the clean one is within 40 dB of its loudest frame. Writes at
 * most n samples of each; returns how many. */
static size_t drop_silence(const float *clean, const float *x, size_t n, float *ret_clean, float *ret_x) {
    double loudest = -INFINITY;
    size_t kept = 0;
    memset(ret_clean, 0, n * sizeof *ret_clean);
    memset(ret_x, 0, n * sizeof *ret_x);
    for (int pass = 0; pass < 2; pass++)
        for (size_t start = 0; start + FRAME < n; start += STEP) {
            double power = 0;
            for (int i = 0; i < FRAME; i++) {
                double v = window(i) * clean[start + (size_t)i];
                power += v * v;
            }
            double db = 10 * log10(power + 1e-30);
            if (pass == 0) {
                loudest = fmax(loudest, db);
            } else if (db > loudest - DYNAMIC_RANGE_DB) {
                for (int i = 0; i < FRAME; i++) {
                    ret_clean[kept + (size_t)i] += (float)(window(i) * clean[start + (size_t)i]);
                    ret_x[kept + (size_t)i] += (float)(window(i) * x[start + (size_t)i]);
                }
                kept += STEP;
            }
        }
    return kept ? kept + STEP : 0;
}

/* The bin nearest to a frequency. */
static int bin_of(double hz) {
    return (int)lround(hz * FFT / SCORE_STOI_RATE);
}

/* Magnitudes of third-octave bands: levels [n_frames][BANDS]. */
static void band_levels(const struct fft_plan *plan, const float *x, size_t n_frames, float *levels) {
    float bins[FFT / 2 + 1][2];
    for (size_t t = 0; t < n_frames; t++) {
        float frame[FFT] = {0};
        for (int i = 0; i < FRAME; i++)
            frame[i] = (float)(window(i) * x[t * STEP + (size_t)i]);
        kernels_nth(0)->fft(&(struct fft){plan, frame, bins[0]});
        for (int b = 0; b < BANDS; b++) {
            double power = 0;
            int end = bin_of(lowest_centre_hz * pow(2, (2 * b + 1) / 6.));
            for (int i = bin_of(lowest_centre_hz * pow(2, (2 * b - 1) / 6.)); i < end; i++)
                power += bins[i][0] * bins[i][0] + bins[i][1] * bins[i][1];
            levels[t * BANDS + (size_t)b] = (float)sqrt(power);
        }
    }
}

/* Correlation of one band over the SEGMENT frames at `clean` and `x`, after scaling x to clean's energy and clipping
 * it. */
static double correlation(const float *clean, const float *x) {
    double cc = 0, xx = 0, y[SEGMENT], mean_clean = 0, mean_y = 0, cy = 0, yy = 0;
    for (int t = 0; t < SEGMENT; t++) {
        cc += clean[t * BANDS] * clean[t * BANDS];
        xx += x[t * BANDS] * x[t * BANDS];
    }
    double scale = sqrt(cc / (xx + 1e-30));
    for (int t = 0; t < SEGMENT; t++) {
        y[t] = fmin(scale * x[t * BANDS], clip * clean[t * BANDS]);
        mean_y += y[t] / SEGMENT;
        mean_clean += clean[t * BANDS] / SEGMENT;
    }
    cc = 0;
    for (int t = 0; t < SEGMENT; t++) {
        double c = clean[t * BANDS] - mean_clean, d = y[t] - mean_y;
        cc += c * c;
        yy += d * d;
        cy += c * d;
    }
    return cy / (sqrt(cc * yy) + 1e-30);
}

int score_stoi(double *ret, const float *clean, const float *x, size_t n) {
    struct pool pool = {0};
    struct fft_plan plan;
    float *kept_clean = pool_floats(&pool, n + 1), *kept_x = pool_floats(&pool, n + 1);
    float *of_clean = pool_floats(&pool, (n / STEP + 1) * BANDS), *of_x = pool_floats(&pool, (n / STEP + 1) * BANDS);
    fft_plan_init(&plan, pool_floats(&pool, fft_plan_init(&plan, NULL, FFT, false)), FFT, false);
    const bool ok = pool_ok(&pool);
    if (ok) {
        n = drop_silence(clean, x, n, kept_clean, kept_x);
        const size_t n_frames = n > FRAME ? (n - FRAME - 1) / STEP + 1 : 0; /* the paper's own code drops the last
                                                                             * frame */
        band_levels(&plan, kept_clean, n_frames, of_clean);
        band_levels(&plan, kept_x, n_frames, of_x);
        double sum = 0;
        size_t n_segments = 0;
        for (; n_segments + SEGMENT <= n_frames; n_segments++)
            for (int b = 0; b < BANDS; b++)
                sum += correlation(of_clean + n_segments * BANDS + b, of_x + n_segments * BANDS + b);
        *ret = n_segments ? sum / (double)(n_segments * BANDS) : NAN;
    }
    pool_done(&pool);
    return ok ? 0 : -ENOMEM;
}
