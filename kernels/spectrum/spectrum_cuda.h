/* spectrum_cuda.h - the steps between samples and the network on a GPU, for many frames of one stream; stft.h and
 * spectrum.h define them. All pointers are device pointers. */
#ifndef PRIMEKNET_SPECTRUM_CUDA_H
#define PRIMEKNET_SPECTRUM_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* frames[f][i] = analysis[i] samples[f * hop + i]. Samples that are not finite count as 0. Samples are clipped at
 * +-loudest. */
struct frames_cuda {
    unsigned n_frames, window, hop;
    float loudest;
    const float *samples;  /* [window - hop + n_frames * hop] */
    const float *analysis; /* [window] */
    float *frames;         /* [n_frames][window] */
};

/* The relation between a model's bins and frequency positions. */
struct spectrum_cuda {
    unsigned n_bins, n_linear, n_bands, n_positions;
    float scale, compression, mask_ceiling, mask_minimum, band_gain_maximum, rotation_epsilon, magnitude_minimum,
        power_minimum;
    const unsigned *edges; /* [n_bands + 1] */
    const unsigned *below; /* [n_bins - n_linear]: the last band whose centre is at or below a bin, or the first */
    const float *share;    /* [n_bins - n_linear]: weight of the next band, if there is one, in the bin's gain */
    const float *slope;    /* [n_positions] */
};

/* X [n_frames][n_bins][2] -> features [n_frames][n_positions][3]. */
void features_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *X, float *features,
                   cudaStream_t stream);
/* Applies mask [n_frames][n_positions], before its sigmoid, and rotation [n_frames][n_positions][2] to X in place, then
 * the high-pass filter with the cutoff low_cut, in bins. */
void apply_cuda(const struct spectrum_cuda *g, unsigned n_frames, const float *mask, const float *rotation,
                float strength, float floor, float low_cut, float *X, cudaStream_t stream);
void frames_cuda(const struct frames_cuda *a, cudaStream_t stream);

/* out[j] = overlap[j] + sum over f of synthesis[j - f hop] frames[f][window - length + j - f hop] / window, summed in
 * the order of the frames. out has n_frames * hop complete samples, then length - hop samples to which later frames
 * add. */
struct overlap_cuda {
    unsigned n_frames, window, length, hop; /* length: of the synthesis window */
    const float *frames;                    /* [n_frames][window] */
    const float *synthesis;                 /* [length] */
    const float *overlap;                   /* [length - hop]: sums of earlier frames */
    float *out;                             /* [n_frames * hop + length - hop] */
};

void overlap_cuda(const struct overlap_cuda *a, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
