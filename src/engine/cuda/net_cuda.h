/* net_cuda.h - the network of net.h on a GPU, many frames of one stream at a time.
 *
 * Maps are [frames][positions][channels] in device memory. A net holds weights, and scratch for its largest number of
 * frames. It serves any number of streams, each with its own state. Compute functions queue work on the net's CUDA
 * stream and return; errors are reported when that stream is synchronised. One thread at a time. */
#ifndef PRIMEKNET_NET_CUDA_H
#define PRIMEKNET_NET_CUDA_H

#include "engine/cuda/arena.h"
#include "model/model.h"

#include <cuda_runtime_api.h>

struct net_cuda;

/* The state of one time layer: past frames of the convolution, the recurrent state, an LSTM's cell; NULL where the
 * mixer has none. */
struct mixer_cuda_state {
    float *past, *h, *cell;
};

/* A stream's state, on the device. A fresh stream is all zeros. */
struct net_cuda_state {
    float *encoder[MODEL_MAX_DEPTH], *mask[MODEL_MAX_DEPTH], *phase[MODEL_MAX_DEPTH]; /* the last 2^depth frames */
    struct mixer_cuda_state *mixers; /* one per time layer, in order */
};

int net_cuda_new(struct net_cuda **ret, const struct model *model, cudaStream_t stream);
void net_cuda_free(struct net_cuda *n); /* n may be NULL */

/* The owner of the memory calls these functions to lay it out. It must then copy the weights from the arena's mirror,
 * and zero scratch and state. */
void net_cuda_weights(struct net_cuda *n, struct arena *a);
void net_cuda_scratch(struct net_cuda *n, struct arena *a, unsigned n_frames);
int net_cuda_state_new(struct net_cuda_state *s, const struct model *model);
void net_cuda_state_layout(struct net_cuda_state *s, const struct model *model, struct arena *a);
void net_cuda_state_done(struct net_cuda_state *s); /* s may be all zeros */

/* features [n_frames][n_positions][3] -> mask [n_frames][n_positions] before its sigmoid, and rotation
 * [n_frames][n_positions][2]. */
void net_cuda_run(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *features, float *mask,
                  float *rotation);

/* The steps of net_cuda_run, in its order, for tests. net_cuda_mask and net_cuda_phase are the decoders. */
void net_cuda_embed(struct net_cuda *n, unsigned n_frames, const float *features, float *y);
void net_cuda_encode(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *y);
void net_cuda_down(struct net_cuda *n, unsigned n_frames, const float *x, float *y);
void net_cuda_time_stage(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, unsigned block,
                         const float *x, float *y);
void net_cuda_freq_stage(struct net_cuda *n, unsigned n_frames, unsigned block, const float *x, float *y);
void net_cuda_mask(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *mask);
void net_cuda_phase(struct net_cuda *n, struct net_cuda_state *s, unsigned n_frames, const float *x, float *rotation);

#endif
