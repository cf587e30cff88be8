/* spectrum_cuda.h - between sound and the network on a GPU, for many frames of one stream at once; the definitions are
 * those of stft.h and spectrum.h. All pointers are of the device. */
#ifndef PRIMEKNET_SPECTRUM_CUDA_H
#define PRIMEKNET_SPECTRUM_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* frames[f][i] = analysis[i] samples[f * hop + i]; samples that are not finite count as 0, louder ones are cut. */
struct frames_cuda {
    unsigned n_frames, window, hop;
    float loudest;
    const float *samples;  /* [window - hop + n_frames * hop] */
    const float *analysis; /* [window] */
    float *frames;         /* [n_frames][window] */
};

/* How bins and positions belong together, of a model's whole life. */
struct spectrum_cuda {
    unsigned n_bins, n_linear, n_bands, n_positions;
    float scale, compression, mask_ceiling, mask_minimum, band_gain_maximum, rotation_epsilon, magnitude_minimum,
        power_minimum;
    const unsigned *edges;         /* [n_bands + 1] */
    const unsigned *below, *above; /* [n_bins]: of a bin in a band, the positions that it lies between */
    const float *share;            /* [n_bins]: of the gain of `above` */
    const float *slope;            /* [n_positions] */
};

/* X [n_frames][n_bins][2] -> features [n_frames][n_positions][3]. */
void features_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *X, float *features, cudaStream_t stream);
/* Applies mask [n_frames][n_positions], before its sigmoid, and rotation [n_frames][n_positions][2] to X in place, and takes
 * away what lies below low_cut, in bins. */
void apply_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *mask, const float *rotation, float strength,
                float floor, float low_cut, float *X, cudaStream_t stream);
void frames_cuda(const struct frames_cuda *a, cudaStream_t stream);

/* out[j] = overlap[j] + sum over f of synthesis[j - f hop] frames[f][window - length + j - f hop] / window, in the order of
 * the frames: n_frames * hop finished samples, then length - hop that later frames add to. */
struct overlap_cuda {
    unsigned n_frames, window, length, hop; /* length: of the synthesis window */
    const float *frames;    /* [n_frames][window] */
    const float *synthesis; /* [length] */
    const float *overlap;   /* [length - hop]: what earlier frames left */
    float *out;             /* [n_frames * hop + length - hop] */
};

void overlap_cuda(const struct overlap_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
