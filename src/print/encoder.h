/* encoder.h - reads the encoder of voice prints from its model file. Safe on any bytes. Any thread.
 *
 * The file is read by the rules of docs/model-format.md. Besides name, licence and training its metadata has
 *
 *   format    primeknet-voice-1
 *   rate      8000 to 48000
 *   window    W, as in models, at most 2048
 *   hop       H, 16 to W
 *   bands     B, at most 128
 *   stack     K, at most 16
 *   floor     1e-12 to 1000
 *   channels  C, as in models
 *   layers    at most 4
 *   size      S, at most 1024
 *   span      at most 4096 H
 *   step      H to span
 *   least     W + (K - 1) H to span
 *   silence   1e-9 to 1
 *   quiet     at most 0.9
 *
 * A print is S numbers; the inner product of two is their similarity. Sound of at least `least` samples is cut into
 * windows of `span` samples (or all there are) at multiples of `step`; the last ends with the sound. A window counts if
 * its RMS is above `silence` and above `quiet` times the largest one. It is divided by its RMS. Its frames of W samples,
 * H apart, unpadded, times `window` [W], give f = ln(`bands` |X|^2 + floor); `bands` [B, W/2 + 1] has no value below 0.
 * K successive frames are a step; leftover ones are dropped. Each band's mean over the steps is subtracted. Steps pass
 * through `in` linear(C, KB), `in.prelu` [C] and each *gru* with `gru.I.in` and `gru.I.state`. The window's print is
 * `out` linear(S, C) of the mean of the steps, weighted by the softmax of `pool` linear(1, C) over them, and divided by
 * its length. The print is the sum of the windows' prints, divided by its length. Lengths count as at least 1e-12. No
 * tensor's value exceeds 1e6. */
#ifndef PRIMEKNET_ENCODER_H
#define PRIMEKNET_ENCODER_H

#include "model/safetensors.h"
#include "model/schema.h"

enum {
    ENCODER_MAX_WINDOW = 2048,
    ENCODER_MAX_BANDS = 128,
    ENCODER_MAX_STACK = 16,
    ENCODER_MAX_LAYERS = 4,
    ENCODER_MAX_SIZE = 1024,
    ENCODER_MAX_SPAN = 4096, /* hops */
};

/* The metadata, with the names above. Lengths are in samples. */
struct encoder_config {
    unsigned rate, window, hop, n_bands;
    unsigned n_bins; /* window / 2 + 1 */
    unsigned stack;  /* frames per step */
    float floor;
    unsigned channels, n_layers, size;
    unsigned span, step, least;
    float silence, quiet;
};

struct encoder_weights {
    const float *window, *bands; /* [window], [n_bands][n_bins] */
    struct linear_weights in;    /* of a step */
    const float *in_prelu;
    struct linear_weights gru_in[ENCODER_MAX_LAYERS], gru_state[ENCODER_MAX_LAYERS]; /* each [3 * channels] */
    struct linear_weights pool, out;
};

struct encoder {
    char *name;
    struct encoder_config config;
    struct encoder_weights weights;
    struct tensors tensors; /* own the weights */
};

/* Blocks on I/O. Returns 0, or a negative errno and a line that names the file and the fault. */
int encoder_read(struct encoder *e, const char *path, struct err *err);
void encoder_done(struct encoder *e); /* e may be all zeros */

#endif
